"""The three series, and a new anchor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from stackproof.extras.nights.drift.scan import SeriesKind
from stackproof.extras.nights.drift.series import FigureKey, Measured, Trend, side_row, trends
from stackproof.record.records import Record
from tests.extras.nights.drift.nightly import KEY, Story, read, record, told

RATIO, _, RAW = SeriesKind


def one(records: list[Record]) -> Trend:
    """Return the only figure of these nights."""
    found = read(records)
    (trend,) = trends(found[0].place, found)
    return trend


def test_raw_is_ratio_and_anchor_together() -> None:
    trend = one([record(0, [3e-3] * 3, [2e-3] * 3)])
    ratio, anchor, raw = (float(trend.values[kind][0]) for kind in SeriesKind)
    assert ratio == pytest.approx(math.log(1.5)) and raw == pytest.approx(ratio + anchor)


def test_launches_are_paired() -> None:
    trend = one([record(0, [1.1, 2.2, 3.3], [1.0, 2.0, 3.0])])
    assert float(trend.values[RATIO][0]) == pytest.approx(math.log(1.1))


def test_a_disturbed_or_absent_night_is_missing() -> None:
    absent = record(2, [1.0], [1.0])
    other = side_row(FigureKey("other", "tiny", "s", "1"), Measured.TODAY, [1.0])
    absent = replace(absent, measurements=[other])
    rows = [
        record(0, [1.0], [1.0]),
        record(1, [1.0], [1.0], {"disturbed": "a neighbour"}),
        absent,
        record(3, [1.0], []),
    ]
    found = read(rows)
    trend = next(each for each in trends(found[0].place, found) if each.figure == KEY)
    assert np.isnan(trend.values[RAW]).tolist() == [False, True, True, False]
    assert np.isnan(trend.values[RATIO]).tolist() == [False, True, True, True]
    assert trend.usable == 2


def test_another_version_is_another_figure() -> None:
    newer = replace(KEY, version="2")
    rows = [side_row(newer, side, [5.0]) for side in (Measured.TODAY, Measured.ANCHOR)]
    trend = one([record(0, [1.0], [1.0]), replace(record(1, [1.0], [1.0]), measurements=rows)])
    assert trend.figure == newer and np.isnan(trend.values[RAW]).tolist() == [True, False]


def test_a_new_anchor_begins_anew() -> None:
    nights = told(Story(count=40))
    for night in nights[20:]:
        night.provenance["anchor"] = "b" * 64
    trend = one(nights)
    assert np.isnan(trend.values[RATIO]).tolist() == [True] * 20 + [False] * 20
    assert not np.isnan(trend.values[RAW]).any()
