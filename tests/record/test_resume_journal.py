"""The journal: what was found out is never found out again, whatever killed the run; another search's journal is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.record.records import Verdict
from stackproof.record.resume import Journal

ABOUT = {"good": "a", "bad": "b"}


def never() -> dict[str, object]:
    """Fail if it is called."""
    raise AssertionError("it was known")


def test_what_is_known_is_read_and_not_found_out(tmp_path: Path) -> None:
    path = tmp_path / "run" / "journal.jsonl"
    first = Journal(path, "bisect", ABOUT)
    assert first.once("set one 0", lambda: {"seen": 1.5}, dict) == {"seen": 1.5} == first.once("set one 0", never, dict)
    again = Journal(path, "bisect", ABOUT)
    assert again.once("set one 0", never, lambda row: row["seen"] * 2) == 3.0
    again.once("set two 0", lambda: {"none": "no wheel"}, dict)
    assert set(Journal(path, "bisect", ABOUT).known) == {"set one 0", "set two 0"}


def test_a_line_that_was_cut_short_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, "bisect", ABOUT)
    journal.once("set one 0", lambda: {"seen": 1}, dict)
    with path.open("a") as stream:
        stream.write('{"key": "two", "to')
    again = Journal(path, "bisect", ABOUT)
    assert set(again.known) == {"set one 0"}
    again.once("set two 0", lambda: {"seen": 2}, dict)
    assert Journal(path, "bisect", ABOUT).known == {"set one 0": {"seen": 1}, "set two 0": {"seen": 2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torn", "no journal"),
        ("[" * 100_000 + "\n", ":1: is not JSON"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\n' + "[" * 100_000 + "\n", ":2: is not JSON"),
        ("[]\n", "no journal"),
        ('{"schema": "other"}\n', "no journal"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "c"}\n', "'bad' is 'c' then"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\nnot json\n', ":2: is not JSON"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\n{"key": "x"}\n', "'line 2' is nothing that"),
    ],
)
def test_what_is_no_journal_of_this_search_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(text)
    with pytest.raises(Refusal, match=words):
        Journal(path, "bisect", ABOUT)


def test_a_full_disk_ends_it_with_how_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, "bisect", ABOUT)
    journal.once("set one 0", lambda: {"seen": 0.0}, dict)
    journal.path = Path("/dev/full")
    with pytest.raises(Refusal, match="No space left.*make room"):
        journal.once("set two 0", dict, dict)
    assert set(Journal(path, "bisect", ABOUT).known) == {"set one 0"}


def test_what_was_found_out_on_a_full_disk_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, "bisect", ABOUT)
    with monkeypatch.context() as full, pytest.raises(Refusal, match="No space left"):
        full.setattr(files, "is_full", lambda folder: folder == tmp_path)
        journal.once("set one 0", lambda: {"seen": 1.0}, dict)
    assert Journal(path, "bisect", ABOUT).known == {}


def test_a_device_is_no_journal() -> None:
    with pytest.raises(Refusal, match="/dev/null: is no journal of `bisect`; name the journal.jsonl"):
        Journal(Path("/dev/null"), "bisect", ABOUT)


@pytest.mark.parametrize("row", [{"word": "banana", "reason": "it"}, {"reason": "it"}, {"word": 3, "reason": "it"}])
def test_what_no_bisection_writes_is_refused_and_the_file_stays(tmp_path: Path, row: dict[str, object]) -> None:
    path = tmp_path / "journal.jsonl"
    rows = [{"schema": "stackproof-bisect-1", **ABOUT}, {"key": "good 0", "told": row}]
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    before = path.read_bytes()
    with pytest.raises(Refusal, match=r"'good 0' is nothing that `bisect` writes .* left as it is"):
        Journal(path, "bisect", ABOUT).once("good 0", never, lambda known: Verdict(known["word"]))
    assert path.read_bytes() == before
