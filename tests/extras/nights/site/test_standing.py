"""A stack in a word: what its card and its badge say, and that neither is green for a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from stackproof.extras.nights.site import shelf
from stackproof.extras.nights.site.matrix import matrix
from stackproof.extras.nights.site.standing import StackStanding, StackWord, standings
from stackproof.record.records import Record, Verdict
from tests.extras.nights.drift import nightly

from . import making
from .making import TODAY

GREEN, OLD = "#1a7f37", TODAY - timedelta(40)


def of(tmp_path: Path, *records: Record, stack: str = "cuda", nightly: Sequence[str] = ()) -> StackStanding:
    """Return how a stack stands after these records."""
    making.kept(tmp_path, records)
    runs = shelf.read(shelf.files([tmp_path]), [tmp_path]).runs
    found = standings(matrix(runs, making.STACKS, making.SUITES, TODAY, nightly=nightly), ("sim",))
    return next(one for one in found if one.stack == stack)


def part(record: Record, *suites: str) -> Record:
    """Return a run of these suites alone."""
    return replace(record, checks=[check for check in record.checks if check.group in suites])


@pytest.mark.parametrize(
    ("records", "word", "badge"),
    [
        ([making.suites("cuda", TODAY)], StackWord.PASSED, "4 of 4 suites passed, 2026-08-01"),
        ([part(making.suites("cuda", TODAY), "smoke")], StackWord.PARTLY, "1 of 4 suites passed, 2026-08-01"),
        ([making.suites("cuda", OLD), part(making.suites("cuda", TODAY), "smoke")], StackWord.PARTLY, "1 of 4 suites passed, 2026-08-01"),
        ([making.suites("cuda", TODAY, Verdict.KNOWN_ISSUE)], StackWord.KNOWN_ISSUE,
         "4 of 4 suites passed, 1 with known issues, 2026-08-01"),
        ([making.suites("cuda", TODAY, Verdict.FAILED)], StackWord.FAILED, "1 suite failed, 2026-08-01"),
        ([making.suites("cuda", TODAY, rehearsed=True)], StackWord.REHEARSED, "4 of 4 suites rehearsed, 2026-08-01"),
        ([making.suites("cuda", OLD)], StackWord.STALE, "stale since 2026-06-22"),
        ([making.suites("cuda", TODAY, pinned=False)], StackWord.PASSED, "4 of 4 suites passed, unpinned, 2026-08-01"),
        ([], StackWord.NEVER, "never run"),
    ],
)  # fmt: skip
def test_a_stack_is_as_good_as_all_suites_of_a_night(
    tmp_path: Path, records: list[Record], word: StackWord, badge: str
) -> None:
    found = of(tmp_path, *records)
    assert (found.word, found.badge) == (word, badge)


def test_the_day_is_that_of_the_oldest_proof(tmp_path: Path) -> None:
    before = making.suites("cuda", TODAY - timedelta(5))
    assert of(tmp_path, before, part(making.suites("cuda", TODAY), "smoke")).day == str(TODAY - timedelta(5))


def test_suites_that_no_night_runs_are_not_asked_for(tmp_path: Path) -> None:
    run = part(making.suites("cuda", TODAY), "smoke", "operators")
    assert of(tmp_path / "a", run, nightly=("smoke", "operators")).word is StackWord.PASSED
    bad = part(making.suites("cuda", TODAY, Verdict.FAILED), "models")
    assert of(tmp_path / "b", run, bad, nightly=("smoke", "operators")).word is StackWord.FAILED


def test_a_stack_that_was_only_measured_has_run(tmp_path: Path) -> None:
    nights = nightly.told(nightly.Story(2))
    found = of(tmp_path, *nights, stack=nights[0].stack)
    assert found.word is StackWord.UNVERIFIED and found.run is not None and "measured" in found.scope
