"""The median's interval: what it covers, and that it does not shrink on samples that hang together."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from stackproof.base.statistics import drift, median_interval, rhythm, sign_autocorrelation

REPETITIONS = 400


def independent(dice: random.Random, count: int) -> list[float]:
    """Samples that know nothing of one another."""
    return [1 + dice.gauss(0, 0.05) for _ in range(count)]


def correlated(persistence: float) -> Callable[[random.Random, int], list[float]]:
    """Samples of an AR(1) process, whose median is 1 too."""

    def make(dice: random.Random, count: int) -> list[float]:
        state, samples = dice.gauss(0, 1), []
        for _ in range(count):
            state = persistence * state + math.sqrt(1 - persistence**2) * dice.gauss(0, 1)
            samples.append(1 + 0.05 * state)
        return samples

    return make


def coverage(make: Callable[[random.Random, int], list[float]], count: int) -> float:
    """Return how often the interval holds the true median."""
    dice = random.Random(count)
    found = [median_interval(make(dice, count)) for _ in range(REPETITIONS)]
    return sum(one.low <= 1.0 <= one.high for one in found) / REPETITIONS


@pytest.mark.parametrize("count", [6, 10, 33, 100, 400])
def test_covers_the_median_of_independent_samples(count: int) -> None:
    assert coverage(independent, count) >= 0.95 - 0.033


@pytest.mark.parametrize(("persistence", "count", "least"), [(0.3, 100, 0.92), (0.7, 100, 0.90), (0.9, 400, 0.88)])
def test_covers_the_median_of_correlated_samples(persistence: float, count: int, least: float) -> None:
    assert coverage(correlated(persistence), count) >= least


def test_a_shift_in_the_middle_widens_it() -> None:
    dice = random.Random(1)
    steady = [1 + dice.gauss(0, 0.01) for _ in range(200)]
    shifted = steady[:100] + [sample * 1.3 for sample in steady[100:]]
    assert median_interval(steady).relative < 0.005
    assert median_interval(shifted).relative > 0.1


def test_few_samples_give_their_range() -> None:
    found = median_interval([3.0, 1.0, 2.0])
    assert (found.low, found.median, found.high) == (1.0, 2.0, 3.0)


def test_no_samples_give_no_figure() -> None:
    found = median_interval([])
    assert math.isnan(found.median)
    assert not found.relative <= 1.0


def test_one_outlier_moves_nothing() -> None:
    dice = random.Random(2)
    samples = [1e-3 * (1 + dice.gauss(0, 0.01)) for _ in range(100)]
    clean, spoilt = median_interval(samples), median_interval([*samples, 1.0])
    assert spoilt.median == pytest.approx(clean.median, rel=0.01)
    assert spoilt.relative < 0.02


def test_signs_of_alternating_samples_are_opposed() -> None:
    assert sign_autocorrelation([1.0, 2.0] * 20) < -0.9
    assert sign_autocorrelation([1.0] * 20 + [2.0] * 20) > 0.8
    assert sign_autocorrelation([1.0, 2.0]) == 0.0


def test_drift_is_the_last_third_against_the_first() -> None:
    assert drift([1.0] * 10 + [1.05] * 10 + [1.1] * 10) == pytest.approx(0.1)
    assert drift([1.0, 2.0, 3.0]) == 0.0


@pytest.mark.parametrize("period", [2, 3, 7])
def test_slow_samples_that_keep_a_distance_have_a_rhythm(period: int) -> None:
    samples = [2.0 if number % period == 0 else 1.0 for number in range(8 * period)]
    samples = [one * (1 + 0.01 * (number % 5)) for number, one in enumerate(samples)]
    found = rhythm(samples[: -period + 1] if period == 2 else [*samples, 3.0])
    assert found is not None
    assert found[0] == period


def test_samples_that_are_slow_by_chance_have_none() -> None:
    assert rhythm([1.0] * 40) is None
    assert rhythm([1.0] * 20 + [2.0] * 15) is None
    assert rhythm([2.0 if n in (3, 4, 9, 17, 19, 30, 38) else 1.0 for n in range(50)]) is None
