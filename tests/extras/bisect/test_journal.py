"""The journal: what was found out is never found out again, whatever killed the run; another search's journal is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.extras.bisect.journal import Journal
from stackproof.extras.bisect.journal_rows import fits

ABOUT = {"good": "a", "bad": "b"}


def never() -> dict[str, object]:
    """Fail if it is called."""
    raise AssertionError("it was known")


def test_what_is_known_is_read_and_not_found_out(tmp_path: Path) -> None:
    path = tmp_path / "run" / "journal.jsonl"
    first = Journal(path, ABOUT)
    assert first.once("set one 0", lambda: {"seen": 1.5}) == {"seen": 1.5} == first.once("set one 0", never)
    again = Journal(path, ABOUT)
    assert again.resumed and not first.resumed
    assert again.once("set one 0", never) == {"seen": 1.5}
    again.once("set two 0", lambda: {"none": "no wheel"})
    assert set(Journal(path, ABOUT).known) == {"set one 0", "set two 0"}


def test_a_line_that_was_cut_short_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, ABOUT)
    journal.once("set one 0", lambda: {"seen": 1})
    with path.open("a") as stream:
        stream.write('{"key": "two", "to')
    again = Journal(path, ABOUT)
    assert set(again.known) == {"set one 0"}
    again.once("set two 0", lambda: {"seen": 2})
    assert Journal(path, ABOUT).known == {"set one 0": {"seen": 1}, "set two 0": {"seen": 2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torn", "no journal"),
        ("[" * 100_000 + "\n", ":1: is damaged"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\n' + "[" * 100_000 + "\n", ":2: is damaged"),
        ("[]\n", "no journal"),
        ('{"schema": "other"}\n', "no journal"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "c"}\n', "its bad is 'c'"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\nnot json\n', ":2: is damaged"),
        ('{"schema": "stackproof-bisect-1", "good": "a", "bad": "b"}\n{"key": "x"}\n', ":2: is nothing that"),
    ],
)
def test_what_is_no_journal_of_this_search_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(text)
    with pytest.raises(Refusal, match=words):
        Journal(path, ABOUT)


def test_a_full_disk_ends_it_with_how_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, ABOUT)
    journal.once("set one 0", lambda: {"seen": 0.0})
    journal.path = Path("/dev/full")
    with pytest.raises(Refusal, match="No space left.*make room"):
        journal.once("set two 0", dict)
    assert set(Journal(path, ABOUT).known) == {"set one 0"}


def test_what_was_found_out_on_a_full_disk_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, ABOUT)
    with monkeypatch.context() as full, pytest.raises(Refusal, match="No space left"):
        full.setattr(files, "is_full", lambda folder: folder == tmp_path)
        journal.once("set one 0", lambda: {"seen": 1.0})
    assert Journal(path, ABOUT).known == {}


def test_a_device_is_no_journal() -> None:
    with pytest.raises(Refusal, match="/dev/null: is no journal of `bisect`; name the journal.jsonl"):
        Journal(Path("/dev/null"), ABOUT)


GOOD_ROWS = [
    ("good 0", {"word": "good", "reason": "it is"}),
    ("bad 3 again 1", {"word": "nothing", "reason": "125"}),
    ("set 0a1b 0", {"word": "failed", "reason": "x"}),
    ("set 0a1b 0", {"seen": 0.1, "level": -4.0}),
    ("set 0a1b 0", {"none": "cannot be built"}),
    ("ending 2", {"seen": 1.0}),
    ("commits 0a1b 4", {"levels": {"-1": -4.0, "3": -3.9}}),
    ("commits 0a1b 4", {"none": {"3": "does not import"}}),
    ("commits 0a1b 4", {"seen": 0.0}),
    ("handshake", {"told": {"base": {"facts": {}, "subjects": []}}}),
    ("handshake", {"ended": "no torch"}),
    ("deadline", {"scale": 0.5}),
    (
        "ends 0",
        {"seen": {"gemm": {"base": {"blocks": [0.1]}}}, "counted": True, "lost": [["x", "head", "crashed", "it"]]},
    ),
]


@pytest.mark.parametrize(("key", "told"), GOOD_ROWS)
def test_what_a_bisection_writes_is_read(key: str, told: dict[str, object]) -> None:
    assert fits(key, told)
    assert not fits(key, {**told, "more": 1}) and not fits("other 0", told) and not fits(key, {})


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("good 0", {"word": "banana", "reason": "it is"}),
        ("good 0", {"word": "good", "reason": 3}),
        ("set 0a1b 0", {"seen": "much"}),
        ("set 0a1b 0", {"seen": float("nan")}),
        ("set 0a1b 0", {"seen": True}),
        ("commits 0a1b 4", {"levels": {"x": 1.0}}),
        ("ends 0", {"seen": {"gemm": {"base": {"blocks": [-1]}}}, "counted": True, "lost": []}),
        ("ends 0", {"seen": {"gemm": {"base": {"blocks": [1], "y": 1}}}, "counted": True, "lost": []}),
        ("ends 0", {"seen": {}, "counted": True, "lost": [["x", "head", "banana", "it"]]}),
        ("handshake", {"told": {"base": {}}}),
    ],
)
def test_what_no_bisection_writes_is_refused_and_the_file_stays(
    tmp_path: Path, key: str, told: dict[str, object]
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(
        json.dumps({"schema": "stackproof-bisect-1", **ABOUT}) + "\n" + json.dumps({"key": key, "told": told}) + "\n{"
    )
    before = path.read_bytes()
    with pytest.raises(Refusal, match=r"journal.jsonl:2: is nothing that `bisect` writes .* left as it is"):
        Journal(path, ABOUT)
    assert path.read_bytes() == before
