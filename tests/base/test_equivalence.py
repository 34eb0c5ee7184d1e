"""The equivalence test, held against values of Student's t that scipy 1.15 gave, and against what it must not conclude."""

from __future__ import annotations

import math
import random

import pytest

from stackproof.base.equivalence import incomplete_beta, student_quantile, student_tail, tost
from stackproof.base.errors import Refusal

# scipy.stats.t.ppf(probability, freedom) and scipy.stats.t.sf(t, freedom).
QUANTILES = {
    (0.9, 1): 3.0776835372078066,
    (0.95, 1): 6.313751514800932,
    (0.999, 1): 318.3088389855419,
    (0.95, 2): 2.919985580355516,
    (0.975, 4): 2.7764451051977987,
    (0.95, 7): 1.894578605061305,
    (0.999, 7): 4.785289628649168,
    (0.9, 9): 1.3830287383964925,
    (0.95, 15): 1.7530503556925547,
    (0.999, 31): 3.374899280415178,
    (0.95, 120): 1.6576508993473795,
}
TAILS = {
    (0.0, 3): 0.5,
    (0.5, 1): 0.3524163823495668,
    (12.0, 1): 0.02646467605958987,
    (1.7, 7): 0.06646444839127759,
    (4.0, 7): 0.0025949566746484064,
    (12.0, 7): 3.179155189092547e-06,
    (12.0, 15): 2.1613670567235807e-09,
    (0.5, 40): 0.309907367616724,
    (12.0, 40): 3.912085652127985e-15,
}


@pytest.mark.parametrize(("probability", "freedom"), QUANTILES)
def test_quantiles_are_scipys(probability: float, freedom: int) -> None:
    assert math.isclose(student_quantile(probability, freedom), QUANTILES[probability, freedom], rel_tol=1e-10)


@pytest.mark.parametrize(("t", "freedom"), TAILS)
def test_tails_are_scipys(t: float, freedom: int) -> None:
    assert math.isclose(student_tail(t, freedom), TAILS[t, freedom], rel_tol=1e-10)
    assert math.isclose(student_tail(-t, freedom) + student_tail(t, freedom), 1.0)


def test_the_beta_function_ends_where_it_must() -> None:
    assert (0.0, 1.0) == (incomplete_beta(0.0, 3.0, 2.0), incomplete_beta(1.0, 3.0, 2.0))
    assert math.isclose(incomplete_beta(0.3, 4.0, 1.0), 0.3**4)
    assert math.isclose(incomplete_beta(0.7, 2.5, 6.0), 1 - incomplete_beta(0.3, 6.0, 2.5))


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


def test_the_interval_says_the_same_as_the_p_value() -> None:
    for shift in (0.0, 0.02, 0.024, 0.026, 0.028, 0.05):
        verdict = tost(*pairs(shift, 0.01), margin=0.03, alpha=0.05)
        assert verdict.holds == (-0.03 < verdict.low and verdict.high < 0.03)


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


@pytest.mark.parametrize(
    ("count", "margin", "alpha", "words"),
    [
        (2, 0.1, 0.05, "2 pairs says nothing"),
        (8, 0.0, 0.05, "positive number"),
        (8, math.nan, 0.05, "positive number"),
        (8, 0.1, 0.5, "between 0 and 0.5"),
    ],
)
def test_a_test_that_cannot_conclude_is_refused(count: int, margin: float, alpha: float, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        tost([1.0] * count, [1.0] * count, margin, alpha)


def test_values_without_a_partner_are_refused() -> None:
    with pytest.raises(Refusal, match="there are 3 and 4 values"):
        tost([1.0] * 3, [1.0] * 4, 0.1, 0.05)
