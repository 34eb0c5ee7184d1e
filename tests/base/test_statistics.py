"""The median's interval: what it covers, and that it does not shrink on samples that hang together."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from stackproof.base.statistics import (
    drift,
    median_interval,
    robust_sigma,
    sign_autocorrelation,
    student_quantile,
    tost,
)

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


# scipy.stats.t.ppf(probability, freedom) and scipy.stats.t.sf(t, freedom).
QUANTILES = {
    (0.9, 1): 3.0776835372078066,
    (0.95, 1): 6.313751514800932,
    (0.95, 3): 2.353363434801823,
    (0.975, 3): 3.182446305284263,
    (0.95, 2): 2.919985580355516,
    (0.975, 4): 2.7764451051977987,
    (0.95, 7): 1.894578605061305,
    (0.9, 9): 1.3830287383964925,
    (0.95, 15): 1.7530503556925547,
    (0.95, 120): 1.6576508993473795,
}


@pytest.mark.parametrize(("probability", "freedom"), QUANTILES)
def test_quantiles_are_scipys(probability: float, freedom: int) -> None:
    assert math.isclose(student_quantile(probability, freedom), QUANTILES[probability, freedom], rel_tol=2e-3)


def pairs(shift: float, spread: float, count: int = 16) -> tuple[list[float], list[float]]:
    """Return paired values whose differences have about this mean and deviation."""
    dice = random.Random(3)
    other = [dice.gauss(1, 0.2) for _ in range(count)]
    return [value + shift + dice.gauss(0, spread) for value in other], other


@pytest.mark.parametrize("sign", [1, -1])
def test_a_shift_beyond_the_margin_is_not_equivalent(sign: int) -> None:
    assert not tost(*pairs(sign * 0.05, 0.01), margin=0.03, alpha=0.05).holds
    assert tost(*pairs(sign * 0.01, 0.01), margin=0.03, alpha=0.05).holds


def test_noise_is_not_evidence_of_equivalence() -> None:
    verdict = tost(*pairs(0.0, 0.2), margin=0.03, alpha=0.05)
    assert not verdict.holds
    assert "not shown to be equivalent over 16 seeds" in verdict.sentence("the loss")


def test_at_the_margin_it_errs_as_often_as_alpha_says() -> None:
    dice = random.Random(11)
    runs = [[dice.gauss(0.03, 0.01) for _ in range(8)] for _ in range(2000)]
    wrong = sum(tost(run, [0.0] * 8, margin=0.03, alpha=0.05).holds for run in runs)
    assert 60 < wrong < 140


@pytest.mark.parametrize(("shift", "holds"), [(0.0, True), (0.02, True), (0.04, False), (-0.04, False)])
def test_differences_without_spread_are_decided(shift: float, holds: bool) -> None:
    assert tost([1.0 + shift] * 8, [1.0] * 8, margin=0.03, alpha=0.05).holds is holds


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_not_equivalent(wrong: float) -> None:
    assert not tost([wrong, *[1.0] * 7], [1.0] * 8, margin=0.03, alpha=0.05).holds


def test_few_outliers_do_not_move_the_robust_spread() -> None:
    draw = random.Random(1)
    values = [draw.gauss(5.0, 2.0) for _ in range(2001)]
    assert robust_sigma(values) == pytest.approx(2.0, rel=0.06)
    assert robust_sigma([*values, *[1e9] * 200]) == pytest.approx(2.0, rel=0.25)
