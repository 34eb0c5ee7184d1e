"""Curves: what is missing is not drawn, what is many is decimated without losing its ends, and noise looks as small as it is."""

from __future__ import annotations

import math
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import pytest

from stackproof.base.statistics import Interval
from stackproof.extras.nights.site.drawing import TALL, el, minutes_of, plot, span, ticks, value
from stackproof.extras.nights.site.model import Curve, CurveMark, StateMark
from tests.extras.nights.drift.nightly import BEGAN

_DAY = 1440
MISSING = Interval(math.nan, math.nan, math.nan)


def drawn(values: Sequence[float | None], marks: tuple[CurveMark, ...] = ()) -> str:
    """Return the plot of a figure with a value a night, each between bounds of one per cent."""
    points = tuple(MISSING if one is None else Interval(one, one * 0.99, one * 1.01) for one in values)
    curve = Curve("What users get", "it/s", True, points, marks)
    times = tuple(BEGAN + timedelta(days=day) for day in range(len(points)))
    states = (StateMark(1, ("driver: 1 -> 2",)),) if len(points) > 1 else ()
    return plot(times, states, curve)


def path(drawn: str, kind: str) -> str:
    """Return the path of one class."""
    found = re.search(rf'class="{kind}" d="([^"]*)"', drawn)
    assert found, drawn
    return found[1]


def corners(told: str) -> list[tuple[int, int]]:
    """Return the corners of a path, as a browser reads it."""
    return [(int(x), int(y)) for x, y in re.findall(r"[ML](\d+) (\d+)", told)]


def test_a_path_is_its_points() -> None:
    found = corners(path(drawn([10.0, 12.0, 8.0]), "line"))
    assert [x for x, _ in found] == [0, _DAY, 2 * _DAY]
    assert found[1][1] < found[0][1] < found[2][1]
    assert all(0 <= y <= TALL for _, y in found)


def test_what_is_missing_is_not_drawn() -> None:
    told = drawn([1.0, 1.0, None, None, None, 1.0, None, None, None, 1.0, 1.0])
    assert path(told, "line").count("M") == 3 and path(told, "band").count("z") == 3
    assert "h0" in path(told, "line")


def test_without_a_value_there_is_a_sentence() -> None:
    assert "No night has a value" in drawn([None, None])


@pytest.mark.parametrize("count", [1, 2, 149, 151, 400, 1799])
def test_a_point_lies_in_its_band(count: int) -> None:
    dice = random.Random(count)
    told = drawn([100 + dice.gauss(0, 2) for _ in range(count)])
    line, band = corners(path(told, "line")), corners(path(told, "band"))
    half = len(band) // 2
    for x, y in line:
        assert at(band[:half], x) <= y + 1 and at(band[half:][::-1], x) >= y - 1


def at(edge: Sequence[tuple[int, int]], x: int) -> float:
    """Return how high an edge is at a place."""
    for (left, one), (right, other) in pairwise(edge):
        if left <= x <= right and right > left:
            return one + (other - one) * (x - left) / (right - left)
    return edge[0][1]


def test_noise_looks_small() -> None:
    low, high = span([100.0, 100.1])
    assert low <= 95.1 and high >= 105.0


def test_marks_stand_on_their_points_and_open_ones_are_open() -> None:
    told = drawn([1.0, 2.0, 2.0], (CurveMark(1, "confirmed slower", True), CurveMark(2, "suspected", True)))
    assert told.count('class="hole"') == 1 and "<title>confirmed slower</title>" in told
    (spot,) = re.findall(r'class="mark worse confirmed" d="M(\d+) (\d+)h0"', told)
    assert (int(spot[0]), int(spot[1])) == corners(path(told, "line"))[1]


def test_a_state_is_a_numbered_rule() -> None:
    told = drawn([1.0, 1.0, 1.0])
    assert f'd="M{_DAY} 0v' in told and 'x="50.00%"' in told


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.95, 1.05), (812.0, 1003.0), (1e-9, 3e-9), (5.0, 5.0)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert len(found) <= 6 and all(low - 1e-12 <= one <= high + 1e-12 for one in found)


def test_points_stand_by_the_minute() -> None:
    assert minutes_of([BEGAN, BEGAN + timedelta(hours=5), BEGAN + timedelta(days=1)]) == [0, 300, _DAY]


def test_a_value_stands_between_its_bounds() -> None:
    assert value(Interval(1.23456, 1.2, 1.3)) == "1.235 [1.2, 1.3]"
    assert value(MISSING) == "" and "no number" in value(Interval(1.0, 0.5, math.inf))


HOSTILE = "<script>alert(1)</script> & \"'\x1b[31m\u202e"


def test_text_is_never_markup() -> None:
    drawn = el("text", HOSTILE, class_=HOSTILE)
    root = ET.fromstring(drawn)
    assert root.attrib["class"] == root.text and not list(root)
    assert "\x1b" not in drawn and "\u202e" not in drawn
