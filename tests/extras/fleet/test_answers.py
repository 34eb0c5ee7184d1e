"""Records of hosts are untrusted: what is too large, no record, a link, or of somebody else is a sentence and a host not reached."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.bench import subjects
from stackproof.extras.fleet import answers, judge, plan
from stackproof.extras.fleet.judgement import HostVerdict
from stackproof.stack import stacks

from .making import ALL, MadeHost, edit, fleet, of, record


def place(folder: Path, host: str) -> Path:
    """Return where a host's record goes."""
    (folder / plan.RECORDS).mkdir(exist_ok=True)
    return folder / plan.RECORDS / f"{host}.json"


def wrote(folder: Path, host: str, text: str) -> str:
    """Write what a host left, and return why it is not believed."""
    place(folder, host).write_text(text, encoding="utf-8")
    hosts, refused = answers.gather(folder, ALL)
    assert host not in hosts
    return refused[host]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": "stackproof-record-2"}', "[" * 100000, "\x00\xff"])
def test_what_is_no_record_is_a_sentence(tmp_path: Path, text: str) -> None:
    assert "bad" in wrote(tmp_path, "bad", text)


def test_a_record_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    text = record(MadeHost("other")).as_json()
    assert "is of another host (other, and not bad)" in wrote(tmp_path, "bad", text)
    told = json.loads(record(MadeHost("bad")).as_json())
    assert "another verb (smoke, and not fleet)" in wrote(tmp_path, "bad", json.dumps({**told, "verb": "smoke"}))


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    with place(tmp_path, "huge").open("wb") as stream:
        stream.truncate((plan.table().limits.mib << 20) + 1)
    assert "larger than 4 MiB" in answers.gather(tmp_path, ALL)[1]["huge"]


def test_pipes_and_folders_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(place(tmp_path, "pipe"))
    place(tmp_path, "folder").mkdir()
    _, refused = answers.gather(tmp_path, ALL)
    assert set(refused) == {"pipe", "folder"}


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "$(id)", "a;b", "..", "\x1b[31m", "a\u202eb", "x" * 300])
def test_a_hostile_name_is_no_host(name: str) -> None:
    assert not plan.is_host(name)
    with pytest.raises(Refusal, match="no name of a host"):
        answers.record_path(Path("x"), name)


def test_a_file_of_a_hostile_name_is_told_cleanly(tmp_path: Path) -> None:
    place(tmp_path, "\x1b[31m$(id)").write_text("{}", encoding="utf-8")
    (said,) = answers.gather(tmp_path, ALL)[1].values()
    assert "\x1b" not in said


def test_one_bad_record_costs_its_own_host(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 6)
    place(folder, "n03").write_text("{", encoding="utf-8")
    found = judge.judge(folder)
    assert found.counts == {HostVerdict.NOT_REACHED: 1, HostVerdict.PROVED: 5}


def test_an_end_without_a_reason_is_told_as_one(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 6)
    edit(folder, "n01", lambda made: made.update(verdict="interrupted"))
    host = of(judge.judge(folder), "n01")
    assert (host.standing, host.reason) == (HostVerdict.NOT_REACHED, "ended 'interrupted', and does not say why")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "9"}, "or by another version"), ({"figures": {"settled": True}}, "gemm-float32 of card 0 not measured"),
    ],
)  # fmt: skip
def test_a_figure_that_is_not_as_planned_concerns_its_own_host(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    folder = fleet(tmp_path, 6)
    edit(folder, "n01", lambda made: made["measurements"][0].update(change))
    found = judge.judge(folder)
    assert found.counts == {HostVerdict.INCOMPLETE: 1, HostVerdict.PROVED: 5} and not found.notes
    assert said in of(found, "n01").reason


@pytest.mark.parametrize(
    "name", ["environment", "smoke", "subject/0::gemm-float32", "card/0", "replay/0::product-float32[normal]"]
)  # fmt: skip
def test_a_row_that_is_missing_leaves_its_host_incomplete(tmp_path: Path, name: str) -> None:
    folder = fleet(tmp_path, 6)
    good = json.loads(answers.record_path(folder, "n01").read_text())["checks"]
    edit(folder, "n01", lambda made: made.update(checks=[check for check in good if check["id"] != name]))
    host = of(judge.judge(folder), "n01")
    assert host.standing is HostVerdict.INCOMPLETE and name in host.reason, host


def test_a_figure_that_had_not_settled_is_compared_and_proves_nothing(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 8, MadeHost("slow1", slow={"gemm-float32": 1.5}))
    for host in ("slow1", "n01"):
        edit(folder, host, lambda made: [row["figures"].update(settled=False) for row in made["measurements"]])
    found = judge.judge(folder)
    assert of(found, "slow1").standing is HostVerdict.SLOW
    assert of(found, "n01").standing is HostVerdict.INCOMPLETE and "had not settled" in of(found, "n01").reason


def test_a_host_that_does_all_that_is_asked_lacks_nothing(tmp_path: Path) -> None:
    three = (MadeHost(f"m{number}", cards=3) for number in range(6))
    assert judge.judge(fleet(tmp_path, 0, *three, without=("doctor", "attention"))).counts == {HostVerdict.PROVED: 6}


def test_what_is_asked_is_what_bench_asks() -> None:
    for profile in plan.table().profile:
        for stack in ("cpu", "cuda"):
            ours = subjects.ours(stacks.load(stack))
            for name in (*profile.subjects, *profile.together):
                assert profile.benchmarks in ours[name].profiles
