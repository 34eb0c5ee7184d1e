"""The line between two ends in a repository: commits by first parent, what is not committed, and what git cannot say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.bisect.endpoints import LOCAL, Repository
from stackproof.gate import variants


def git(folder: Path, *words: str) -> str:
    """Return what git prints."""
    named = ["-c", "user.name=n", "-c", "user.email=e@e", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *named, *words], capture_output=True, text=True, check=True).stdout


def commit(folder: Path, name: str) -> str:
    """Add a file and return its commit."""
    (folder / name).write_text(name, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"Add {name}")
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def mine(tmp_path: Path) -> Repository:
    """A repository with one commit."""
    folder = tmp_path / "mine"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first")
    return Repository(folder, (":/",), ours=False)


def test_what_is_not_committed_comes_last(mine: Repository) -> None:
    good = variants.resolved("HEAD", mine.folder)
    second = commit(mine.folder, "second")
    assert mine.between(good, second) == [second]
    assert mine.between(good, "") == [second, LOCAL]
    assert mine.between(second, "") == [LOCAL]
    assert mine.subjects((second, LOCAL)) == {second: "Add second"}


@pytest.mark.parametrize("place", ["second", "new"])
def test_a_file_that_is_changed_or_new_makes_it_no_commit(mine: Repository, place: str) -> None:
    good = commit(mine.folder, "second")
    (mine.folder / "results" / "local").mkdir(parents=True)
    (mine.folder / "results" / "local" / "record.json").write_text("{}", encoding="utf-8")
    assert variants.clean_head(mine.folder, mine.paths) == good
    (mine.folder / place).write_text("other", encoding="utf-8")
    assert variants.clean_head(mine.folder, mine.paths) == ""
    assert variants.clean_head(mine.folder, ("first",)) == good


def test_a_shallow_clone_is_told_what_it_lacks(mine: Repository, tmp_path: Path) -> None:
    commit(mine.folder, "second")
    git(mine.folder, "tag", "v0", "HEAD~1")
    commit(mine.folder, "third")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{mine.folder}", "cut")
    git(tmp_path / "cut", "fetch", "-q", "--depth", "1", "origin", "tag", "v0")
    cut = Repository(tmp_path / "cut", (":/",), ours=False)
    good, bad = (variants.resolved(name, cut.folder) for name in ("v0", "HEAD"))
    with pytest.raises(Refusal, match="git fetch --unshallow"):
        cut.between(good, bad)
