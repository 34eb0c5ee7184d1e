"""What git prints about a folder, and the sentence where it cannot say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackproof.base import git
from stackproof.base.errors import Refusal

WHO = ("-c", "user.name=x", "-c", "user.email=x@y")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git.output(folder, "init", "--quiet")
    git.output(folder, *WHO, "commit", "--quiet", "--allow-empty", "-m", "first")
    return folder


def test_output_is_what_git_prints(repository: Path) -> None:
    assert git.output(repository, "log", "-1", "--format=%s") == "first\n"
    blob = git.output(repository, "hash-object", "-w", "--stdin", stdin=b"\xff\r\n\0").strip()
    assert git.output_bytes(repository, "cat-file", "blob", blob) == b"\xff\r\n\0"


def test_another_repository_in_the_environment_redirects_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.output(tmp_path, "init", "--quiet", "--bare", "other.git")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert git.output(repository, "log", "-1", "--format=%s") == "first\n"
    assert git.output(repository, "status", "--porcelain") == ""


def test_what_git_cannot_say_is_one_sentence(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(Refusal, match=r"alone is in no git repository, .*; clone it"):
        git.output(alone, "log")
    with pytest.raises(Refusal, match=r"^git log failed in .*repository: .*bad revision 'nowhere'$"):
        git.output(repository, "log", "nowhere", "--")
    with pytest.raises(Refusal, match="longer than 0 s"):
        git.output(repository, "log", seconds=0.0)
    assert git.try_output(alone, "log") is None
    monkeypatch.setenv("PATH", "")
    with pytest.raises(git.GitMissingError, match="install git"):
        git.output(repository, "log")
    assert git.try_output(repository, "log") is None


@pytest.mark.parametrize(("changed", "said"), [(False, "abc"), (True, "abc (with local changes)")])
def test_local_changes_are_told_with_the_commit(changed: bool, said: str) -> None:
    assert git.as_recorded("abc", changed) == said
    assert git.is_reachable(said) is not changed


def test_nobody_can_go_back_to_what_is_unknown() -> None:
    assert not git.is_reachable(git.UNKNOWN)


def test_a_linked_folder_is_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "linked").symlink_to(tmp_path / "there", target_is_directory=True)
    assert list(git.blobs_on_disk(tmp_path, ["src"])) == ["src/linked"]


def test_what_is_called_git_and_prints_besides_names_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "git"
    wrapper.write_text("#!/bin/sh\necho Loading module\n", encoding="utf-8")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert (git.head(tmp_path), git.blobs_of_commit(tmp_path, ["."])) == ("", {})
