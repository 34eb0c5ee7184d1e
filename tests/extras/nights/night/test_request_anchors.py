"""The anchor of a stack: a commit that has the stack, and is never replaced silently."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.nights.night import request
from stackproof.gate import variants
from stackproof.project import projects
from stackproof.stack import stacks
from stackproof.stack.stacks import Stack


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """The cpu stack, whose anchor stands in a folder of the test's, in a repository with one commit that has its lock."""
    monkeypatch.setattr(request, "file_of", lambda stack: tmp_path / request.NAME)
    lock = tmp_path / "root" / "stacks/cpu/requirements.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("as it was\n", encoding="utf-8")
    frozen = request.freeze
    monkeypatch.setattr(request, "freeze", lambda stack, commit: frozen(stack, commit, tmp_path / "root"))
    monkeypatch.setattr(variants, "require_checkout", lambda what: None)
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


def test_a_new_anchor_is_read_back(stack: Stack, tmp_path: Path) -> None:
    assert "commit this file" in request.renew(stack)
    found = request.load_anchor(stack)
    assert len(found) == 40
    with pytest.raises(Refusal, match="is the anchor already"):
        request.renew(stack)
    commit(tmp_path / "root")
    request.renew(stack)
    assert request.load_anchor(stack) != found


def test_without_an_anchor_the_remedy_is_named(stack: Stack) -> None:
    with pytest.raises(Refusal, match="there is no anchor yet.*night --anchor new --stack cpu"):
        request.load_anchor(stack)


def test_a_commit_without_the_stack_is_refused(stack: Stack, tmp_path: Path) -> None:
    git(tmp_path / "root", "rm", "-r", "--quiet", "stacks")
    commit(tmp_path / "root")
    with pytest.raises(Refusal, match=r"has no stacks/cpu/requirements\.lock"):
        request.freeze(stack, "HEAD")


def test_a_project_has_no_anchor_here(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stacks.load("cpu")
    request.require_ours(stack)
    monkeypatch.setattr(projects, "current", object)
    with pytest.raises(Refusal, match="leave --project out"):
        request.require_ours(stack)
