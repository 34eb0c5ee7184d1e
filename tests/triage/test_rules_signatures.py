"""Signatures are read strictly, and each of them is judged as itself in its examples and not in its near-misses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.triage import rules
from stackproof.triage.rules import CONSEQUENCE, FAULT, KINDS, NOISE, Signature

from .making import report, signatures, write

ROW = """
[[signature]]
id = "some-fault"
kind = "fault"
title = "a title"
patterns = ['a fault \\d+']
cause = "Because."
remedy = "Do this."
link = "https://example.org/1"
certainty = "certain"
examples = ["a fault 1"]
near_misses = ["a fault of yours"]
"""


def load(folder: Path, text: str) -> tuple[Signature, ...]:
    """Load signatures from a text."""
    write(folder, text, "some.toml")
    return rules.load_all.__wrapped__(folder)


def test_a_row_is_a_signature(tmp_path: Path) -> None:
    (row,) = load(tmp_path, ROW)
    assert (row.id, row.kind, row.context) == ("some-fault", "fault", ())
    assert row.probe.match("x a fault 12")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "fault"', 'kind = "falt"', "'falt' (did you mean 'fault'?)"),
        ('kind = "fault"', 'kind = "fault"\ncolour = "red"', "'signature[0].colour' is not a known key"),
        ("patterns = ['a fault", "patterns = ['(a fault", "no regular expression"),
        ('examples = ["a fault 1"]', "examples = []", "is empty"),
        ('certainty = "certain"', 'certainty = "certain"\ncontext = ["a?"]', "need not contain any fixed text"),
        ("\n[[signature]]", f"{ROW}\n[[signature]]", "which another row has"),
        ("[[signature]]", "[[signatur]]", "'signatur' is not a known key"),
    ],
)
def test_refusals_name_file_row_and_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        load(tmp_path, ROW.replace(old, new, 1))
    assert str(caught.value).startswith(f"{tmp_path / 'some.toml'}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_there_are_enough_of_each_kind_and_their_words_are_whole() -> None:
    rows = rules.load_all()
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.id) and row.link.startswith("https://") for row in rows)
    assert not [row.id for row in rows for text in (row.title, row.cause, row.remedy) if not text or "\n" in text]
    assert len(rows) >= 60
    assert {row.kind for row in rows} == set(KINDS)


def test_every_requirement_of_a_failure_has_a_signature() -> None:
    needed = {"A2", "A9", "B4", "B5", "B6", "C3", "C4", "C5", "C6", "C7", "D1", "D2", "D3", "D4", "E2"}
    assert needed - {row.requirement for row in rules.load_all()} == set()


EXAMPLES = [(row, text) for row in rules.load_all() for text in row.examples]
NEAR_MISSES = [(row, text) for row in rules.load_all() for text in row.near_misses]


def names(cases: list[tuple[Signature, str]]) -> list[str]:
    """Return a name for each case."""
    return [f"{row.id}-{n}" for n, (row, _) in enumerate(cases)]


@pytest.mark.parametrize(("row", "text"), EXAMPLES, ids=names(EXAMPLES))
def test_example_is_judged_as_this_one(tmp_path: Path, row: Signature, text: str) -> None:
    judgement = report(tmp_path, text.encode()).judgement
    root = judgement.root.signature if judgement.root else None
    if row.kind == NOISE:
        assert (root, row.id in signatures(judgement)) == (None, True)
    else:
        assert row.kind in (FAULT, CONSEQUENCE)
        assert root == row.id


@pytest.mark.parametrize("row", rules.load_all(), ids=lambda row: row.id)
def test_numbers_are_whole_tokens(row: Signature) -> None:
    for line in (line for text in row.examples for line in text.splitlines()):
        if (found := row.probe.match(line)) and line[found.end() - 1].isdigit():
            for more in ("7", ".5", "e3"):
                longer = row.probe.match(line[: found.end()] + more + line[found.end() :])
                assert longer is None or longer.end() != found.end()


@pytest.mark.parametrize(("row", "text"), NEAR_MISSES, ids=names(NEAR_MISSES))
def test_near_miss_is_not_taken_for_this_one(tmp_path: Path, row: Signature, text: str) -> None:
    assert row.id not in signatures(report(tmp_path, (text or "\n").encode()).judgement)


@pytest.mark.parametrize("row", rules.load_all(), ids=lambda row: row.id)
def test_pattern_takes_no_time_on_a_long_line(row: Signature) -> None:
    import time

    longest = max(row.examples, key=len)
    line = (longest.replace("\n", " ") * 400)[:8192]
    for text in (line, line[:-3] + "\x00", "a" * 8192, "(" * 8192, " " * 8192):
        began = time.process_time()
        row.probe.match(text)
        assert time.process_time() - began < 5
