"""A plan: hosts as schedulers write them, in an order that is drawn, in one file that is read as strictly as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import plan


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("a,b c", ["a", "b", "c"]),
        ("node[01-03,7],login1", ["node01", "node02", "node03", "node7", "login1"]),
        ("r[1-2]n[08-09].site.org", ["r1n08.site.org", "r1n09.site.org", "r2n08.site.org", "r2n09.site.org"]),
    ],
)
def test_lists_of_hosts_are_expanded(text: str, hosts: list[str]) -> None:
    assert plan.expanded(text) == hosts


@pytest.mark.parametrize(
    "text", ["a[", "a]b", "a[3-1]", "a[x]", "a[1-]", "-x", "a;b", "a[1-99999999]", "$(id)", "a[[1]]"]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="names more than 100000 hosts" if "9999" in text else "write|name"):
        plan.expanded(text)


@pytest.mark.parametrize(("kind", "profile"), [("cpu", "tiny"), ("cuda", "full"), ("of tomorrow", "full")])
def test_what_nobody_names_follows_from_the_device(kind: str, profile: str) -> None:
    assert plan.usual(kind) == profile


def test_the_order_is_drawn_and_kept(tmp_path: Path) -> None:
    hosts = [f"n{number}" for number in range(50)]
    made = plan.make("cpu", "tiny", hosts, seed=3)
    assert sorted(made.hosts) == sorted(hosts) and list(made.hosts) != hosts
    made.keep(tmp_path)
    assert plan.load(tmp_path) == made


def test_a_folder_has_one_plan(tmp_path: Path) -> None:
    plan.make("cpu", "tiny", ["a"]).keep(tmp_path)
    with pytest.raises(Refusal, match="has a plan already; name a new folder"):
        plan.make("cpu", "tiny", ["a"]).keep(tmp_path)


def test_what_is_left_out_must_be_something(tmp_path: Path) -> None:
    assert plan.make("cpu", "tiny", ["a"], without=["gemm-float32", "convolution"]).without
    with pytest.raises(Refusal, match="did you mean 'smoke'"):
        plan.make("cpu", "tiny", ["a"], without=["smok"])


def test_patterns_are_those_that_are_replayed() -> None:
    replay = pytest.importorskip("stackproof.extras.fleet.work")
    assert tuple(replay.PATTERNS) == plan.table().patterns


@pytest.mark.parametrize(
    "change",
    [{"hosts": "a"}, {"schema": "x"}, {"command": "rm"}, {"profile": "huge"}],
)
def test_a_plan_that_was_edited_badly_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = plan.make("cpu", "tiny", ["a"]).keep(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change), encoding="utf-8")
    with pytest.raises(Refusal):
        plan.load(tmp_path)


def test_nobody_is_no_plan() -> None:
    with pytest.raises(Refusal, match="--hosts"):
        plan.make("cpu", "tiny", [])
