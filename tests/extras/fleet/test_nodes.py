"""What hosts have written: the newest of each kind counts, damage is told, and what is not ours is passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import nodes
from stackproof.extras.fleet.judgement import SCHEMA, FleetJudgement, HostVerdict, JudgedHost, as_json
from stackproof.record import outline
from stackproof.record.records import Verdict

from .hosts import look, run


def wrong(*places: Path) -> dict[str, bool]:
    """Return for each node whether anything is wrong with it."""
    found, _ = nodes.gather(places)
    return {row.node: any(other.wrong for other in found if other.node == row.node) for row in found}


def test_the_newest_of_each_verb_counts(tmp_path: Path) -> None:
    run(tmp_path, verdict=Verdict.FAILED, started="2026-03-05T00:00:00+00:00")
    run(tmp_path, started="2026-03-06T00:00:00+00:00")
    run(tmp_path, node="gpu2", verdict=Verdict.HUNG)
    look(tmp_path, "gpu2", "warning")
    assert wrong(tmp_path) == {"gpu1": False, "gpu2": True}
    newer = look(tmp_path, "gpu3", looked="2026-03-05T00:00:00+00:00", name="newer")
    older = look(tmp_path, "gpu3", "problem", looked="2026-03-04T00:00:00+00:00", name="older")
    assert wrong(newer, older) == wrong(older, newer) == {"gpu3": False}


def test_a_problem_of_the_doctors_makes_a_node_unwell(tmp_path: Path) -> None:
    found = look(tmp_path, "a", "warning", name="a"), look(tmp_path, "b", "problem", "note", name="b")
    assert wrong(*found) == {"a": False, "b": True}


@pytest.mark.parametrize(("verb", "bad"), [("watch", False), ("bisect", False), ("fleet", True), ("night", True)])
def test_a_gate_says_nothing_against_its_host(tmp_path: Path, verb: str, bad: bool) -> None:
    assert wrong(run(tmp_path, verb=verb, verdict=Verdict.MISMATCHED)) == {"gpu1": bad}


def test_what_processes_of_a_run_leave_is_not_looked_at(tmp_path: Path) -> None:
    run(tmp_path)
    left = tmp_path / "cpu" / "a-run" / "stage-0" / "worker-0" / "benchmark.json"
    left.parent.mkdir(parents=True)
    left.touch()
    assert nodes.gather([tmp_path])[1] == []


def test_what_is_not_ours_and_what_is_damaged(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "cut.json").write_text('{"schema": "stackproof-rec', encoding="utf-8")
    (tmp_path / "odd.json").write_text('{"schema": "stackproof.doctor/2", "present": 3}', encoding="utf-8")
    edited = json.loads(run(tmp_path, node="gpu3").read_text(encoding="utf-8")) | {"verdict": "splendid"}
    (tmp_path / "edited.json").write_text(json.dumps(edited), encoding="utf-8")
    found, damaged = nodes.gather([tmp_path])
    assert {row.node for row in found} == {"gpu1", "gpu3"}
    assert [Path(said.partition(":")[0]).name for said in damaged] == ["cut.json", "edited.json", "odd.json"]
    for name in ("package", "list", "cut", "odd", "edited", "absent"):
        with pytest.raises(Refusal, match=f"{name}.json"):
            nodes.gather([tmp_path / f"{name}.json"])


def test_what_is_wrong_stands_first(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, node="gpu2", verdict=Verdict.FAILED, reason="loss is NaN")
    look(tmp_path, "gpu2", "problem", "warning")
    look(tmp_path, "gpu3", name="third")
    lines = outline.text(nodes.parts(nodes.gather([tmp_path])[0], 0)).splitlines()
    assert lines[0] == "NOT WELL: 1 of 3 nodes"
    assert lines[2].startswith("gpu2  doctor        1 problem   2026-03-04 05:06  a problem")
    assert lines[3].startswith("gpu2  smoke of cpu  failed ")
    assert lines[3].endswith("::devices: loss is NaN; holds no digest of itself, so that an edit of it does not show")
    assert [line.split()[0] for line in lines[4:-1]] == ["gpu1", "gpu3"] and lines[-1].startswith(
        "what to do: on a node"
    )


def test_chosen_checks_are_said_and_do_not_stand_for_the_whole_run(tmp_path: Path) -> None:
    run(tmp_path, verdict=Verdict.FAILED)
    run(tmp_path, started="2026-03-05T00:00:00+00:00", only="smoke/ddp::*")
    assert wrong(tmp_path) == {"gpu1": True}
    shown = outline.text(nodes.parts(nodes.gather([tmp_path])[0], 0))
    assert "  smoke of cpu [only: smoke/ddp::*]  passed " in shown


def test_a_fleet_that_calls_a_host_slow_is_heard(tmp_path: Path) -> None:
    run(tmp_path)
    for day, word in (("2026-03-05", HostVerdict.PROVED), ("2026-03-06", HostVerdict.SLOW)):
        words = {"gpu1": word, "gpu2": HostVerdict.SUSPECTED, "gpu3": HostVerdict.NOT_REACHED}
        hosts = tuple(JudgedHost(name, standing, "", "why") for name, standing in words.items())
        said = FleetJudgement(SCHEMA, "monday", f"{day}T00:00:00+00:00", 1.0, 1.0, hosts, (), (), "cpu")
        (tmp_path / f"{day}.json").write_text(as_json(said), encoding="utf-8")
    found, damaged = nodes.gather([tmp_path])
    assert wrong(tmp_path) == {"gpu1": True, "gpu2": False, "gpu3": True} and not damaged
    assert (found[0].word, found[0].reason, found[0].when[:10]) == ("slow", "monday: why", "2026-03-06")


@pytest.mark.parametrize("wrong", [{"node": ["a"]}, {"looked": 3}, {"findings": [{"level": "problem", "sentence": 3}]}])
def test_an_answer_of_wrong_types_is_damaged(tmp_path: Path, wrong: dict[str, object]) -> None:
    told = {"schema": "stackproof.doctor/2", "node": "a", "looked": "b", "findings": [], **wrong}
    (tmp_path / "a.json").write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(Refusal, match="a.json: is damaged .*is no text"):
        nodes.gather([tmp_path / "a.json"])


def test_names_are_text(tmp_path: Path) -> None:
    run(tmp_path, node="a|b\n@all\x1b[31m<b>")
    said = outline.text(nodes.parts(nodes.gather([tmp_path])[0], 0))
    assert "\x1b" not in said and "a|b\\x0a@all\\x1b[31m<b>" in said
