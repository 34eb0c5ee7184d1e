"""Nights from records: both sides by figure, what is no number left out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from stackproof.extras.nights.drift import series
from stackproof.extras.nights.drift.series import Measured, Night, night
from stackproof.record import reading, records, store
from tests.extras.nights.drift.nightly import KEY, read, record


def test_both_sides_come_back_from_the_file(tmp_path: Path) -> None:
    records.write(record(0, [1e-3] * 3, [2e-3] * 3), tmp_path / "x.record.json")
    found = night(tmp_path / "x.record.json", reading.read(tmp_path / "x.record.json"))
    assert isinstance(found, Night)
    assert found.figures[KEY] == {Measured.TODAY: (1e-3,) * 3, Measured.ANCHOR: (2e-3,) * 3}
    assert (found.anchor, found.place.host, found.disturbed) == ("a" * 64, "box", "")


@pytest.mark.parametrize("odd", [math.nan, math.inf, 0.0])
@pytest.mark.parametrize("side", ["today", "anchor"])
def test_what_is_no_time_is_missing(odd: float, side: str) -> None:
    bad, good = [1e-3, odd, 1e-3], [1e-3] * 3
    told = record(0, bad, good) if side == "today" else record(0, good, bad)
    found = night(Path("x"), told)
    if side == "today":
        assert found is None
    else:
        assert isinstance(found, Night) and set(found.figures[KEY]) == {Measured.TODAY}


def test_a_night_that_measured_nothing_is_in_no_series() -> None:
    made = record(0, [1e-3], [1e-3])
    made.measurements = []
    assert series.nights(store.Loaded({Path("x.json"): made}, [])) == []


def test_places_do_not_mix() -> None:
    found = read([record(0, [1.0], [1.0]), record(1, [1.0], [1.0], {"host": "other"})])
    assert sorted(place.host for place in series.by_place(found)) == ["box", "other"]
