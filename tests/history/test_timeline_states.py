"""States: a driver is a commit, the same commits from the same records, and a message that says what changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.history import timeline
from stackproof.history.timeline import Entry, entries
from stackproof.record.records import Record

from . import making


def told(*records: Record) -> list[Entry]:
    """Return the entries of records."""
    return entries({Path(str(number)): record for number, record in enumerate(records)})


def git(repository: Path, *arguments: str) -> str:
    """Ask the repository."""
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def driver(day: float, version: str) -> Record:
    """Return a record of a day with a driver."""
    return making.with_facts(making.record(day), {"driver.nvidia-smi": version})


def test_a_stay_lasts_while_nothing_changes() -> None:
    (chain,) = timeline.stays(
        told(driver(0, "550.1"), driver(1, "550.1"), driver(2, "560.1"), driver(3, "550.1"))
    ).values()
    assert [len(stay.entries) for stay in chain] == [2, 1, 1]


def test_places_have_histories_of_their_own() -> None:
    chains = timeline.stays(told(making.record(0), making.record(1, host="other"), making.record(2)))
    assert sorted(len(chain[0].entries) for chain in chains.values()) == [1, 2]


def test_each_state_is_a_commit_that_says_what_changed(tmp_path: Path) -> None:
    chains = timeline.stays(told(driver(0, "550.1"), driver(1, "560.1"), making.record(2, host="other")))
    hashes = timeline.write(chains, tmp_path / "repository")
    name = next(name for name, chain in chains.items() if len(chain) == 2)
    lines = git(tmp_path / "repository", "log", "--reverse", "--format=%H %s", name).splitlines()
    assert [line.split()[0] for line in lines] == hashes[name]
    assert lines[1].split(" ", 1)[1] == "driver: nvidia-smi: 550.1 -> 560.1"
    manifest = json.loads(git(tmp_path / "repository", "show", f"{name}:state.json"))
    assert manifest["driver"]["driver.nvidia-smi"] == "560.1"
    assert git(tmp_path / "repository", "log", "-1", "--format=%at", name) == str(int(making.BEGAN.timestamp()) + 86400)


def test_the_same_records_make_the_same_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chains = timeline.stays(told(driver(0, "550.1"), driver(1, "560.1")))
    first = timeline.write(chains, tmp_path / "one")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    assert timeline.write(chains, tmp_path / "two") == first
    assert timeline.write(chains, tmp_path / "two") == first


def test_later_states_leave_the_earlier_commits_alone(tmp_path: Path) -> None:
    runs = [driver(day, f"550.{day}") for day in range(3)]
    before = timeline.write(timeline.stays(told(*runs[:2])), tmp_path / "repository")
    after = timeline.write(timeline.stays(told(*runs)), tmp_path / "repository")
    assert next(iter(after.values()))[:2] == next(iter(before.values()))


def test_any_text_can_be_a_fact(tmp_path: Path) -> None:
    odd = "1.0\ncommit refs/heads/main\n\udc80 \u4e2d\u6587"
    chains = timeline.stays(told(driver(0, "550.1"), driver(1, odd)))
    hashes = timeline.write(chains, tmp_path / "repository")
    assert len(next(iter(hashes.values()))) == 2
    assert git(tmp_path / "repository", "for-each-ref", "--format=%(refname:short)").splitlines() == list(chains)


def test_absent_git_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Refusal, match="git is not installed"):
        timeline.write({}, tmp_path / "repository")


def test_an_empty_store_has_an_empty_history(tmp_path: Path) -> None:
    assert timeline.write({}, tmp_path / "repository") == {}
