"""The three series, and anchors that are chained."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from stackproof.extras.nights.drift.scan import SeriesKind, table
from stackproof.extras.nights.drift.series import FORMER, FigureKey, Measured, NightSide, Trend, trends
from stackproof.record.records import Record
from tests.extras.nights.drift.nightly import KEY, Story, judged, read, record, told

RATIO, ANCHOR, RAW = SeriesKind
CHAIN = table().chain.nights


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
    other = NightSide(FigureKey("other", "tiny", 1, "s", "1"), "", Measured.TODAY, (1.0,)).row()
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
    rows = [NightSide(newer, "", side, (5.0,)).row() for side in (Measured.TODAY, Measured.ANCHOR)]
    trend = one([record(0, [1.0], [1.0]), replace(record(1, [1.0], [1.0]), measurements=rows)])
    assert trend.figure == newer and np.isnan(trend.values[RAW]).tolist() == [True, False]


def anchored(both: int, change: float = 0.3, size: float = 0.0) -> list[Record]:
    """Return 40 nights; on the 20th there is a new anchor, slower by `change`, and so many nights measure the former beside it."""
    found = []
    for day, each in enumerate(told(Story(count=40, code=(30, size)))):
        if day >= 20:
            each.provenance["anchor"] = "b" * 64
            rows = {row.figures["side"]: row for row in each.measurements}
            if day < 20 + both:
                each.provenance[FORMER] = "a" * 64
                each.measurements.append(NightSide(KEY, "", Measured.FORMER, tuple(rows["anchor"].samples)).row())
            slower = tuple(sample * math.exp(change) for sample in rows["anchor"].samples)
            each.measurements[each.measurements.index(rows["anchor"])] = NightSide(
                KEY, "", Measured.ANCHOR, slower
            ).row()
        found.append(each)
    return found


def test_a_new_anchor_is_chained_and_said() -> None:
    trend, plain = one(anchored(CHAIN)), one(told(Story(count=40)))
    (link,) = trend.links
    assert link.nights == CHAIN and link.low <= 0.3 <= link.high and "chained by +34.99 %" in link.sentence
    assert np.allclose(trend.values[RATIO] + 0.3, plain.values[RATIO])
    assert np.allclose(trend.values[ANCHOR] - 0.3, plain.values[ANCHOR])
    assert judged(anchored(CHAIN)).suspicions == ()


def test_a_step_after_a_chained_anchor_is_found() -> None:
    (step,) = judged(anchored(CHAIN, size=0.05)).suspicions
    assert (step.kind, step.causes[0].value, step.after.started.day) == (RATIO, "code", 31)


@pytest.mark.parametrize("both", [0, 1, CHAIN - 1])
def test_an_anchor_that_was_not_chained_begins_anew_and_says_so(both: int) -> None:
    trend = one(anchored(both))
    assert np.isnan(trend.values[RATIO]).tolist() == [True] * 20 + [False] * 20
    assert not np.isnan(trend.values[RAW]).any()
    assert f"and {both if both > 1 else 0} of {CHAIN} nights measured both" in trend.problems[0]
