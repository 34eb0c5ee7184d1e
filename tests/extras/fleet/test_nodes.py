"""What hosts have written: the newest of each kind counts, damage is told, and what is not ours is passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import nodes
from stackproof.extras.fleet.judgement import SCHEMA, FleetJudgement, HostVerdict, JudgedHost, as_json
from stackproof.record.records import Verdict

from .hosts import look, run


def test_the_newest_of_each_verb_counts(tmp_path: Path) -> None:
    run(tmp_path, verdict=Verdict.FAILED, started="2026-03-05T00:00:00+00:00")
    run(tmp_path, started="2026-03-06T00:00:00+00:00")
    run(tmp_path, node="gpu2", verdict=Verdict.HUNG)
    look(tmp_path, "gpu2", "warning")
    found = nodes.gather([tmp_path])
    assert {name: bool(node.wrong) for name, node in found.hosts.items()} == {"gpu1": False, "gpu2": True}
    assert found.hosts["gpu1"].runs["cpu", "smoke", False].verdict is Verdict.PASSED
    newer, older = (look(tmp_path, "gpu1", *levels, looked=when) for levels, when in LOOKS)
    assert nodes.gather([newer, older]).hosts["gpu1"].doctor == nodes.gather([older, newer]).hosts["gpu1"].doctor


LOOKS = (((), "2026-03-05T00:00:00Z"), (("problem",), "2026-03-04T00:00:00"))


def test_a_problem_of_the_doctors_makes_a_node_unwell(tmp_path: Path) -> None:
    found = nodes.gather([look(tmp_path, None, "warning", name="a"), look(tmp_path, None, "problem", "note", name="b")])
    assert {name: bool(node.wrong) for name, node in found.hosts.items()} == {"a": False, "b": True}
    assert found.hosts["b"].doctor is not None and found.hosts["b"].doctor.worst.startswith("a problem")


@pytest.mark.parametrize(("verb", "wrong"), [("watch", False), ("bisect", False), ("fleet", True), ("night", True)])
def test_a_gate_says_nothing_against_its_host(tmp_path: Path, verb: str, wrong: bool) -> None:
    found = nodes.gather([run(tmp_path, verb=verb, verdict=Verdict.MISMATCHED)])
    assert bool(found.hosts["gpu1"].wrong) is wrong


def test_what_processes_of_a_run_leave_is_not_looked_at(tmp_path: Path) -> None:
    record = run(tmp_path)
    left = tmp_path / "cpu" / "a-run" / "stage-0" / "worker-0" / "benchmark.json"
    left.parent.mkdir(parents=True)
    left.touch()
    assert record.exists() and nodes.gather([tmp_path]).damaged == []


def test_what_is_not_ours_and_what_is_damaged(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "cut.json").write_text('{"schema": "stackproof-rec', encoding="utf-8")
    (tmp_path / "odd.json").write_text('{"schema": "stackproof.doctor/2", "present": 3}', encoding="utf-8")
    edited = json.loads(run(tmp_path, node="gpu3").read_text(encoding="utf-8")) | {"verdict": "splendid"}
    (tmp_path / "edited.json").write_text(json.dumps(edited), encoding="utf-8")
    found = nodes.gather([tmp_path])
    assert set(found.hosts) == {"gpu1", "gpu3"}
    assert [Path(said.partition(":")[0]).name for said in found.damaged] == ["cut.json", "edited.json", "odd.json"]
    for name in ("package", "list", "cut", "odd", "edited", "absent"):
        with pytest.raises(Refusal, match=f"{name}.json"):
            nodes.gather([tmp_path / f"{name}.json"])


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"node": {"x": 1}}, "for 'node', which is no text"), ({"looked": 3}, "for 'looked', which is no text"),
        ({"exit_code": "1"}, "has '1' for 'exit_code'"), ({"exit_code": 1}, "ended with 1, and holds 0 problems"),
        ({"looked": "9999-12-31T23:59:59+00:00"}, "in the future; set the clock"), ({"looked": "noon"}, "is no time"),
        ({"findings": {}}, "for 'findings', which is no list"), ({"findings": [{"level": "bad", "sentence": ""}]}, "level 'bad'"),
        ({"schema": "stackproof.doctor/99"}, "calls itself 'stackproof.doctor/99'"), ({"schema": None}, "calls itself 'None'"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_is_named_and_shown_of_no_host(
    tmp_path: Path, edit: dict[str, object], says: str
) -> None:
    path = look(tmp_path, "gpu1")
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | edit), encoding="utf-8")
    found = nodes.gather([tmp_path])
    (said,) = found.damaged
    assert not found.hosts and said.startswith(f"{path}: ") and says in said
    run(tmp_path)
    assert nodes.terminal(nodes.gather([tmp_path])).startswith("1 node that could be read, well; 1 file passed over\n")


def test_rows_are_aligned_and_say_what_is_wrong(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, node="gpu2", verdict=Verdict.FAILED, reason="loss is NaN")
    look(tmp_path, "gpu2", "problem", "warning")
    look(tmp_path, "gpu3", name="third")
    lines = nodes.terminal(nodes.gather([tmp_path])).splitlines()
    assert lines[0] == "NOT WELL: 1 of 3 nodes"
    assert "gpu2: smoke of cpu failed: smoke/bringup::devices: loss is NaN" in lines[2]
    assert lines[4].startswith("gpu2  1 problem, 1 warning  cpu    smoke  failed   2 of 3  ")
    assert lines[6].startswith("gpu3  no problem            -      ")


def test_a_fleet_that_calls_a_host_slow_is_heard(tmp_path: Path) -> None:
    run(tmp_path)
    for day, word in (("2026-03-05", HostVerdict.PROVED), ("2026-03-06", HostVerdict.SLOW)):
        hosts = (
            JudgedHost("gpu1", word, "", ""),
            JudgedHost("gpu2", HostVerdict.SUSPECTED, "", ""),
            JudgedHost("gpu3", HostVerdict.NOT_REACHED, "", ""),
        )
        said = FleetJudgement(SCHEMA, "monday", f"{day}T00:00:00+00:00", 1.0, 1.0, hosts, (), ())
        (tmp_path / f"{day}.json").write_text(as_json(said), encoding="utf-8")
    found = nodes.gather([tmp_path])
    lines = nodes.terminal(found).splitlines()
    assert lines[0] == "NOT WELL: 2 of 3 nodes" and not found.hosts["gpu2"].wrong and not found.damaged
    assert lines[1].strip() == "gpu1: slow among the hosts of monday, judged 2026-03-06T00:00:00+00:00"


def test_names_are_text(tmp_path: Path) -> None:
    run(tmp_path, node="a|b\n@all\x1b[31m<b>")
    found = nodes.gather([tmp_path])
    said = nodes.terminal(found)
    assert "\x1b" not in said and "a|b\\x0a@all\\x1b[31m<b>" in said
