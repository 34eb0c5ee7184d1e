"""The day of a record: a clock that is ahead, or has gone back, is found out by one rule."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from stackproof.record import dated
from stackproof.record.records import Figure, Record
from stackproof.record.store import Loaded

TODAY = date(2026, 8, 1)


def began(started: str, **facts: Figure) -> Record:
    """Return a record that began then."""
    return Record("night", "cuda", started, provenance=facts)


@pytest.mark.parametrize(
    ("started", "committed", "why"),
    [
        ("2026-08-01T23:59:59.000+00:00", "", ""),
        ("2026-08-02T00:30:00.000+02:00", "", ""),
        ("2026-08-02T00:00:00.000+00:00", "", "after 2026-08-01"),
        ("2036-08-01T03:00:00.000+00:00", "", "after 2026-08-01"),
        ("2026-07-30T03:00:00.000+00:00", "2026-07-29T20:00:00+02:00", ""),
        ("2026-07-30T03:00:00.000+00:00", "2026-07-30T20:00:00+02:00", ""),
        ("1970-01-01T00:10:00.000+00:00", "2026-07-29T20:00:00+02:00", "before the commit was made that it measured (2026-07-29)"),
        ("2026-07-30T03:00:00.000+00:00", "yesterday", ""),
        ("2026-13-41T03:00:00.000+00:00", "", ""),
    ],
)  # fmt: skip
def test_a_day_that_cannot_be_true_is_doubted(started: str, committed: str, why: str) -> None:
    told = dated.doubt(began(started, **({dated.COMMITTED: committed} if committed else {})), TODAY)
    assert (why in told) if why else told == ""


def test_a_store_is_read_without_them(tmp_path: Path) -> None:
    good, bad = began("2026-07-30T03:00:00.000+00:00"), began("2030-01-01T00:00:00.000+00:00")
    loaded = Loaded({tmp_path / "good": good, tmp_path / "bad": bad}, ["one before"])
    found = dated.true(loaded, TODAY)
    assert list(found.records) == [tmp_path / "good"]
    assert found.problems[0] == "one before" and "bad: began on 2030-01-01" in found.problems[1]
    assert "set the clock" in found.problems[1]
    assert dated.true(found, TODAY) is found
