"""What runs say of a set: near the effect it is bad, near nothing good, and what cannot be run is neither."""

from __future__ import annotations

import math

import pytest

from stackproof.extras.bisect.evidence import (
    CERTAIN,
    Exact,
    FailureRate,
    NoAnswer,
    SetWord,
    Slowdown,
    below,
    bound,
    settle,
)

DUEL = Slowdown(0.05, 0.01)


@pytest.mark.parametrize(("ratio", "bad"), [(0.05, True), (0.08, True), (0.03, True), (0.0, False), (-0.05, False)])
def test_a_time_is_bad_where_it_is_nearer_to_a_part_of_the_effect(ratio: float, bad: bool) -> None:
    assert (DUEL.weigh([ratio] * 3) > 0) is bad


def test_one_launch_decides_nothing() -> None:
    assert settle(DUEL, lambda _: 0.05, 1.0, 14, []).runs == 2


def test_the_noise_is_never_taken_to_be_nothing() -> None:
    assert Slowdown.learnt([0.08] * 6, 0.08).noise == pytest.approx(0.01)
    assert Slowdown.learnt([0.05, 0.07], 0.06).noise == pytest.approx(0.02 / math.sqrt(2))


def test_the_error_is_split_over_the_steps() -> None:
    assert math.exp(bound(0.05, 1)) == pytest.approx(19)
    assert math.exp(bound(0.05, 10)) == pytest.approx(199)


def test_what_is_exact_takes_one_run() -> None:
    assert [Exact().weigh(seen) for seen in ([0.0], [1.0], [0.0, 1.0])] == [-CERTAIN, CERTAIN, CERTAIN]


def test_a_failure_that_comes_and_goes_is_weighed_by_its_rate() -> None:
    rate = FailureRate((0, 10), (8, 10))
    failed, clean = rate.weigh([1.0]), rate.weigh([0.0])
    assert failed > 2 and -2 < clean < 0
    assert rate.weigh([0.0] * 6) < -5 and rate.weigh([0.0, 0.0, 1.0, 1.0]) > 0


def test_runs_without_a_failure_say_which_rate_they_would_have_shown() -> None:
    assert below(20) == pytest.approx(0.139, abs=0.001) and below(300) == pytest.approx(0.01, abs=0.001)


def test_settling_stops_as_soon_as_it_is_sure() -> None:
    assert settle(DUEL, lambda _: 0.05, bound(0.05, 6), 14, []).word is SetWord.BAD
    good = settle(DUEL, lambda _: 0.0, bound(0.05, 6), 14, [])
    assert good.word is SetWord.GOOD and 1 < good.runs < 6
    lost = settle(DUEL, lambda number: 0.05 if number == 0 else NoAnswer("torch does not import"), 20.0, 14, [])
    assert (lost.word, lost.runs, lost.reason) == (SetWord.UNRESOLVED, 2, "torch does not import")
    assert settle(DUEL, lambda number: 0.0125, 50.0, 3, []).reason == "3 runs leave it open"
