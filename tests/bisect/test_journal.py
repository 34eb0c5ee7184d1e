"""The journal: what was found out is never found out again, whatever killed the run; another search's journal is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.bisect.journal import Journal

ABOUT = {"good": "a", "bad": "b"}


def never() -> dict[str, object]:
    """Fail if it is called."""
    raise AssertionError("it was known")


def test_what_is_known_is_read_and_not_found_out(tmp_path: Path) -> None:
    """In the same journal, and in one that goes on."""
    path = tmp_path / "run" / "journal.jsonl"
    first = Journal(path, ABOUT)
    assert first.once("one", lambda: {"seen": 1.5}) == {"seen": 1.5} == first.once("one", never)
    again = Journal(path, ABOUT)
    assert again.resumed and not first.resumed
    assert again.once("one", never) == {"seen": 1.5}
    again.once("two", lambda: {"seen": None})
    assert set(Journal(path, ABOUT).known) == {"one", "two"}


def test_a_line_that_was_cut_short_is_lost_alone(tmp_path: Path) -> None:
    """A kill in the middle of writing costs that row, and the file can be appended to."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, ABOUT)
    journal.once("one", lambda: {"seen": 1})
    with path.open("a") as stream:
        stream.write('{"key": "two", "to')
    again = Journal(path, ABOUT)
    assert set(again.known) == {"one"}
    again.once("two", lambda: {"seen": 2})
    assert Journal(path, ABOUT).known == {"one": {"seen": 1}, "two": {"seen": 2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torn", "no journal"),
        ("[]\n", "no journal"),
        ('{"schema": "other"}\n', "no journal"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "c"}\n', "its bad is 'c'"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\nnot json\n', ":2: is damaged"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\n{"key": "x"}\n', "is damaged"),
    ],
)
def test_what_is_no_journal_of_this_search_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """One sentence names the file and what is wrong."""
    path = tmp_path / "journal.jsonl"
    path.write_text(text)
    with pytest.raises(Refusal, match=words):
        Journal(path, ABOUT)


def test_a_full_disk_ends_it_with_how_to_go_on(tmp_path: Path) -> None:
    """What cannot be kept is said, and what was kept is still there."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, ABOUT)
    journal.once("one", dict)
    journal.path = Path("/dev/full")
    with pytest.raises(Refusal, match="No space left.*--continue"):
        journal.once("two", dict)
    assert set(Journal(path, ABOUT).known) == {"one"}
