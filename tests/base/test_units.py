"""Seconds are stored and rates are shown, with the direction right."""

from __future__ import annotations

import pytest

from stackproof.base import units


@pytest.mark.parametrize(
    ("unit", "seconds", "expected"),
    [
        ("s/sample", 0.25, (4.0, "samples/s")),
        ("s/token", 0.001, (1000.0, "tokens/s")),
        ("s/iteration", 2.0, (0.5, "it/s")),
        ("s/GB", 0.1, (10.0, "GB/s")),
        ("s/TFLOP", 0.002, (500.0, "TFLOP/s")),
        ("bytes", 5.0, (5.0, "bytes")),
        ("s/GB", 0.0, (0.0, "s/GB")),
    ],
)
def test_seconds_are_shown_as_rates(unit: str, seconds: float, expected: tuple[float, str]) -> None:
    figure, word = units.rate(seconds, unit)
    assert figure == pytest.approx(expected[0])
    assert word == expected[1]


@pytest.mark.parametrize("unit", units.RATES)
def test_slower_is_a_lower_rate(unit: str) -> None:
    assert units.rate(2.0, unit)[0] < units.rate(1.0, unit)[0]


def test_plain_seconds_stay() -> None:
    assert units.rate(2.0, "s") == (2.0, "s")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.50 s"), (0.0125, "12.50 ms"), (4.2e-6, "4.20 us"), (5e-9, "5.00 ns"), (0.0, "0.00 ns")],
)
def test_seconds_are_told_in_a_fitting_part(seconds: float, text: str) -> None:
    assert units.shown(seconds, "s") == text
