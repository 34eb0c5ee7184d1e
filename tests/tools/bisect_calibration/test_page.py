"""The page of a calibration: shares with their intervals, and what was spent."""

from __future__ import annotations

from tools.bisect_calibration import page
from tools.bisect_calibration.__main__ import asked_sets
from tools.bisect_calibration.worlds import CASES, Told


def test_tables_say_how_often_and_at_what_cost() -> None:
    told = [Told(frozenset({1}), runs, runs // 2) for runs in (10, 12, 20)]
    other = [Told(frozenset({1}), 6) for _ in range(3)]
    rows = {CASES[0]: {"ours": page.Row(told, [True] * 3), "other": page.Row(other, [True, False, False])}}
    text = page.tables(page.Results(rows, {(12, 1): {"ours": 6.0, "ddmin": 6.0}}, 3))
    assert "| 100.0% [29%, 100%]; 12 (20) runs, 6 (10) launches | 33.3% [1%, 91%]; 6 (6) runs |" in text
    assert "| 12 | 1 | 6 | 6 |" in text


def test_two_that_must_meet_take_fewer_tests_than_ddmin() -> None:
    assert asked_sets(40, 2, "splits", 20) < asked_sets(40, 2, "ddmin", 20)
