"""The scan: what moves a figure is seen, what does not is not, whatever the unit."""

from __future__ import annotations

import numpy as np
import pytest

from stackproof.extras.nights.drift.scan import Steps, Values, at_split, scan, table

LIMITS = table().scan


def quiet(rows: int, nights: int, seed: int = 1, noise: float = 0.01) -> Values:
    """Return series without a step."""
    return np.random.default_rng(seed).normal(0, noise, (rows, nights))


def look(values: Values) -> Steps:
    """Return what is seen tonight."""
    return scan(values, LIMITS)


def test_a_quiet_series_stays_quiet_in_any_order() -> None:
    series = np.random.default_rng(3).permuted(np.tile(quiet(1, 80), (300, 1)), axis=1)
    assert look(series).suspected.mean() <= 0.01
    step = series.copy()
    step[:, 60:] += 0.03
    assert look(step).suspected.mean() > 0.99


@pytest.mark.parametrize("factor", [1e-9, 3.7, 1e6])
def test_units_do_not_matter(factor: float) -> None:
    values = quiet(50, 60)
    values[:25, 50:] += 0.03
    one, other = look(values), look(values + np.log(factor))
    for name in ("score", "size", "error"):
        assert np.allclose(getattr(one, name), getattr(other, name), atol=1e-9)
    assert (one.after == other.after).all() and (one.suspected == other.suspected).all()


def test_faster_is_slower_mirrored() -> None:
    values = quiet(50, 60)
    values[:, 55:] += 0.02
    one, other = look(values), look(-values)
    assert np.allclose(one.score, -other.score) and (one.suspected == other.suspected).all()


def test_a_night_without_a_value_is_missing_not_zero() -> None:
    whole = quiet(40, 70)
    holes = np.full((40, 100), np.nan)
    dice = np.random.default_rng(5)
    for row in range(40):
        holes[row, np.sort(dice.choice(100, 70, replace=False))] = whole[row]
    one, other = look(whole), look(holes)
    assert np.allclose(one.score, other.score) and (one.after == other.after).all()
    assert not look(np.full((3, 50), np.nan)).suspected.any()


@pytest.mark.parametrize("nights", range(LIMITS.fewest + 1))
def test_too_few_nights_say_nothing(nights: int) -> None:
    values = quiet(5, nights)
    if nights:
        values[:, -1] += 1.0
    found = look(values)
    assert not found.suspected.any() and not found.score.any()
    longer = quiet(5, LIMITS.fewest + 1)
    longer[:, -1] += 1.0
    assert look(longer).suspected.all()


@pytest.mark.parametrize("size", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("place", [62, 75, 90])
def test_the_night_of_a_step_lies_among_those_that_are_named(size: float, place: int) -> None:
    values = quiet(200, 100, seed=place)
    values[:, place:] += size
    found = look(values)
    within = (found.latest <= 100 - place) & (found.earliest >= 100 - place)
    assert found.suspected.mean() > 0.9 and within.mean() > 0.85


def test_one_bad_night_is_tonights_suspicion_and_then_nothing() -> None:
    values = quiet(100, 80)
    values[:, 60] += 0.08
    tonight = look(values[:, :61])
    assert tonight.suspected.mean() > 0.95 and (tonight.after[tonight.suspected] == 1).all()
    assert look(values[:, :66]).suspected.mean() < 0.03


def test_nights_that_hang_together_are_trusted_less() -> None:
    noise, dice = np.zeros((100, 100)), np.random.default_rng(7)
    for night in range(1, 100):
        noise[:, night] = 0.6 * noise[:, night - 1] + dice.normal(0, 0.008, 100)
    split = np.full(100, 20)
    free, tied = at_split(quiet(100, 100), split, LIMITS)[2], at_split(noise, split, LIMITS)[2]
    assert np.median(tied) > 1.3 * np.median(free)


def test_a_step_that_is_not_worth_a_word_is_none() -> None:
    values = np.zeros((2, 50))
    values[0, 40:] += LIMITS.effect / 2
    values[1, 40:] += LIMITS.effect * 2
    assert look(values).suspected.tolist() == [False, True]
    assert np.isfinite(look(np.zeros((1, 50))).score).all()
