"""The anchor of a stack: frozen by digests, proved when it is read, and never replaced silently."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.nights.drift.nights import ANCHOR, DISTURBED, FORMER, Night
from stackproof.extras.nights.night import anchors
from stackproof.extras.nights.night.anchors import Anchors, FrozenSide
from stackproof.gate import commits
from stackproof.project import projects
from stackproof.stack import stacks
from stackproof.stack.stacks import Stack
from tests.extras.nights.drift import nightly

SIDE = FrozenSide(date(2026, 1, 1), "c" * 40, "1" * 64, "2" * 64)
OTHER = replace(SIDE, commit="d" * 40)


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """The cpu stack, whose anchor stands in a folder of the test's, in a repository with one commit that has lock and workloads."""
    monkeypatch.setattr(anchors, "file_of", lambda stack: tmp_path / anchors.NAME)
    for name in ("stacks/cpu/requirements.lock", "src/stackproof/workloads/gemm.py"):
        (tmp_path / "root" / name).parent.mkdir(parents=True)
        (tmp_path / "root" / name).write_text("as it was\n", encoding="utf-8")
    frozen = anchors.freeze
    monkeypatch.setattr(anchors, "freeze", lambda stack, commit, since: frozen(stack, commit, since, tmp_path / "root"))
    monkeypatch.setattr(commits, "require_checkout", lambda what: None)
    git(tmp_path / "root", "init", "--quiet")
    commit(tmp_path / "root")
    return stacks.load("cpu")


def git(root: Path, *words: str) -> None:
    """Run git there."""
    identity = ("-c", "user.name=n", "-c", "user.email=n@localhost")
    subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True)


def commit(root: Path) -> None:
    """Commit all that is there."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "x")


def nights(count: int, anchor: str, former: str = "", disturbed: str = "") -> list[Night]:
    """Return nights that measured these."""
    facts = {ANCHOR: anchor, FORMER: former, DISTURBED: disturbed}
    return nightly.read([nightly.record(day, [1.0], [1.0], facts) for day in range(count)])


def test_a_new_anchor_is_read_back(stack: Stack, tmp_path: Path) -> None:
    assert "commit this file" in anchors.renew(stack, [], date(2026, 11, 22))
    found = anchors.load(stack)
    assert found.former is None and found.anchor.since == date(2026, 11, 22)
    assert len(found.anchor.commit) == 40 and len(found.anchor.digest) == 64


def test_without_an_anchor_the_remedy_is_named(stack: Stack) -> None:
    with pytest.raises(Refusal, match="there is no anchor yet.*night --anchor new --stack cpu"):
        anchors.load(stack)


@pytest.mark.parametrize("what", ["lock", "workloads"])
def test_a_side_that_is_not_what_was_frozen_is_refused(stack: Stack, tmp_path: Path, what: str) -> None:
    anchors.renew(stack, [], date(2026, 11, 22))
    path = tmp_path / anchors.NAME
    said = getattr(anchors.load(stack).anchor, what)
    path.write_text(path.read_text(encoding="utf-8").replace(said, "0" * 64), encoding="utf-8")
    with pytest.raises(Refusal, match=f"'{what}' is 000000000000, and commit .* not what was frozen"):
        anchors.load(stack)


def test_the_digest_follows_lock_and_workloads_alone(stack: Stack, tmp_path: Path) -> None:
    root, today = tmp_path / "root", date(2026, 11, 22)
    first = anchors.freeze(stack, "HEAD", today)
    (root / "README.md").touch()
    commit(root)
    second = anchors.freeze(stack, "HEAD", today)
    (root / "src/stackproof/workloads/gemm.py").write_text("another\n", encoding="utf-8")
    commit(root)
    third = anchors.freeze(stack, "HEAD", today)
    assert (first.lock, first.workloads) == (second.lock, second.workloads) and first.commit != second.commit
    assert third.workloads != first.workloads and third.lock == first.lock
    assert len({first.digest, second.digest, third.digest}) == 3


def test_a_commit_without_the_stack_is_refused(stack: Stack, tmp_path: Path) -> None:
    git(tmp_path / "root", "rm", "-r", "--quiet", "stacks")
    commit(tmp_path / "root")
    with pytest.raises(Refusal, match=r"has no stacks/cpu/requirements\.lock"):
        anchors.freeze(stack, "HEAD", date(2026, 11, 22))


def test_the_one_before_is_kept_and_chained(stack: Stack, tmp_path: Path) -> None:
    anchors.renew(stack, [], date(2026, 11, 22))
    before = anchors.load(stack).anchor
    with pytest.raises(Refusal, match="is the anchor already"):
        anchors.renew(stack, [], date(2026, 11, 23))
    commit(tmp_path / "root")
    said = anchors.renew(stack, [], date(2026, 11, 23))
    assert "10 nights will measure it beside the former one" in said
    assert anchors.load(stack).former == before


@pytest.mark.parametrize("count", [0, 3])
def test_a_third_has_to_wait_for_the_chain(stack: Stack, tmp_path: Path, count: int) -> None:
    for _ in range(2):
        commit(tmp_path / "root")
        anchors.renew(stack, [], date(2026, 11, 22))
    now = anchors.load(stack)
    assert now.former is not None
    both = nights(count, now.anchor.digest, now.former.digest)
    commit(tmp_path / "root")
    with pytest.raises(Refusal, match=f"still being chained .{count} of 10"):
        anchors.renew(stack, both, date(2026, 11, 23))
    anchors.renew(stack, nights(10, now.anchor.digest, now.former.digest), date(2026, 11, 23))


def test_the_former_is_measured_until_ten_undisturbed_nights_have_both() -> None:
    file = Anchors(SIDE, OTHER)
    good = nights(9, SIDE.digest, OTHER.digest)
    bad = nights(5, SIDE.digest, OTHER.digest, "foreign load") + nights(5, SIDE.digest)
    assert file.former_in_chain([*good, *bad]) == OTHER
    assert file.former_in_chain([*good, *nights(1, SIDE.digest, OTHER.digest)]) is None
    assert Anchors(SIDE).former_in_chain(good) is None


def test_a_project_has_no_anchor_here(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stacks.load("cpu")
    anchors.require_ours(stack)
    monkeypatch.setattr(projects, "current", object)
    with pytest.raises(Refusal, match="leave --project out"):
        anchors.require_ours(stack)
