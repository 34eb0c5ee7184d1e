"""The statistics of the gate: what they promise is tried on simulated launches."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from stackproof.base.statistics import student_quantile
from stackproof.gate.interleave import Observed
from stackproof.gate.plan import Design
from stackproof.gate.statistics import Ruling, estimate, rule, underpowered
from stackproof.record.records import CellWord

DESIGN = Design()
EFFECT = 0.05


def _launches(slowdown: float, count: int, noise: float, seed: int) -> list[float]:
    dice = random.Random(seed)
    return [math.log1p(slowdown) + dice.gauss(0, noise) for _ in range(count)]


def _ruled(cells: dict[str, list[float]], effect: float = EFFECT) -> dict[str, Ruling]:
    found = {name: estimate(ratios, DESIGN.per_look) for name, ratios in cells.items()}
    return rule(found, dict.fromkeys(cells, effect), DESIGN)


def _outcome(slowdown: float, noise: float = 0.01, count: int = 14, seed: int = 1) -> CellWord:
    return _ruled({"a": _launches(slowdown, count, noise, seed)})["a"].outcome


@pytest.mark.parametrize(
    ("slowdown", "outcome"),
    [(0.0, CellWord.SAME), (0.01, CellWord.SAME), (0.08, CellWord.SLOWER), (-0.08, CellWord.FASTER)],
)
def test_the_four_words_mean_what_they_say(slowdown: float, outcome: CellWord) -> None:
    assert _outcome(slowdown) is outcome


def test_noise_above_the_minimum_effect_is_blind_and_says_so() -> None:
    ruling = _ruled({"a": _launches(0.0, 14, 0.2, 3)})["a"]
    assert ruling.outcome is CellWord.INCONCLUSIVE
    assert ruling.blind
    assert "noise still hides a change below" in ruling.reason


@pytest.mark.parametrize(("noise", "given_up"), [(0.01, 0.0), (0.03, 0.1), (0.20, 0.8)])
def test_launches_that_would_not_help_are_not_asked_for(noise: float, given_up: float) -> None:
    share = sum(underpowered(_launches(0.0, DESIGN.looks[0], noise, seed), EFFECT, DESIGN) for seed in range(200)) / 200
    assert share >= given_up if noise > EFFECT else share <= given_up


def test_one_odd_launch_gives_nothing_up() -> None:
    assert not underpowered([0.0, 0.01, -0.01, 0.4], EFFECT, DESIGN)


def test_a_change_at_the_threshold_is_not_the_same() -> None:
    same = sum(_outcome(EFFECT, 0.01, seed=seed) is CellWord.SAME for seed in range(200))
    assert same <= 4, f"{same} of 200"  # one look errs on this side once in 600; five or more of 200 has p < 1e-4


def test_a_significant_change_below_the_minimum_effect_does_not_fail() -> None:
    assert _outcome(0.02, 0.001) is CellWord.SAME


def test_one_launch_that_is_slow_for_good_does_not_decide() -> None:
    ratios = [*_launches(0.0, 13, 0.005, 5), 0.16]
    assert _ruled({"a": ratios})["a"].outcome is CellWord.SAME


def test_equal_sides_fail_at_most_one_suite_in_a_hundred() -> None:
    dice, failed, runs = random.Random(11), 0, 300
    for _ in range(runs):
        cells = {str(cell): [dice.gauss(0, 0.03) for _ in range(14)] for cell in range(8)}
        for look in DESIGN.looks:
            ruled = _ruled({name: ratios[:look] for name, ratios in cells.items()}, 0.005)
            if any(one.outcome is CellWord.SLOWER for one in ruled.values()):
                failed += 1
                break
    assert failed <= 8, (
        f"{failed} of {runs} gates without a change failed"
    )  # 1 % promised; 8 or more of 300 has p < 0.02


def test_the_interval_is_that_of_a_trimmed_mean() -> None:
    ratios = _launches(0.03, 10, 0.02, 7)
    found = estimate(ratios, 0.01)
    low, high = stats.mstats.trimmed_mean_ci(ratios, limits=(0.1, 0.1), alpha=0.01)
    assert found.low == pytest.approx(low, rel=1e-9)
    assert found.high == pytest.approx(high, rel=1e-9)


def test_rounds_pair_first_with_first() -> None:
    times = [1.00, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07]  # base, head, head, base, twice
    base, head = [times[0], times[3], times[4], times[7]], [times[1], times[2], times[5], times[6]]
    assert abs(Observed(head).log_ratio(Observed(base))) < 1e-4


@pytest.mark.parametrize(("base", "head"), [([1.0], [1.0]), ([1.0, 1.0], [1.0]), ([], []), ([1.0, 0.0], [1.0, 1.0])])
def test_blocks_that_do_not_pair_are_refused(base: list[float], head: list[float]) -> None:
    with pytest.raises(ValueError):
        Observed(head).log_ratio(Observed(base))


@pytest.mark.parametrize("freedom", [1, 2, 7, 31, 400])
def test_the_student_t_of_environments_without_scipy_is_scipys(freedom: int) -> None:
    for probability in (0.6, 0.9, 0.975):
        assert math.isclose(student_quantile(probability, freedom), stats.t.ppf(probability, freedom), rel_tol=2e-3)
