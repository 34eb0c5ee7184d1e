"""The statistics of the gate: from paired log-ratios, one per launch, to FASTER, SAME, SLOWER or INCONCLUSIVE.

A process can be fast or slow for its whole life, so inference is over launches. This module needs scipy, which the gate's own
environment has and a stack's has not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from scipy import stats

from stackproof.base.statistics import percent
from stackproof.gate.plan import Design
from stackproof.record.records import CellWord

_TRIM = 0.15
_POWER = 0.8
_FEWEST = 3


@dataclass(frozen=True)
class Estimate:
    """An effect and what is known of it, as logarithms of head over base: 0 is equal, positive is worse."""

    centre: float
    low: float
    high: float
    p_worse: float
    """One-sided: how likely such data are if the head is not worse."""
    p_better: float
    visible: float
    """The smallest effect that would be found with a power of 0.8 (minimum detectable effect)."""
    launches: int

    @property
    def shown(self) -> str:
        """The change and its interval in per cent."""
        return f"{percent(self.centre)} [{percent(self.low)}, {percent(self.high)}]"

    @property
    def turned(self) -> str:
        """The same of the inverse, where more is better: a rate that falls by 40 % is no change of +71 %."""
        return f"{percent(-self.centre)} [{percent(-self.high)}, {percent(-self.low)}]"


@dataclass(frozen=True)
class Ruling:
    """The verdict on one cell; `reason` says in words what decided it."""

    outcome: CellWord
    estimate: Estimate
    effect: float
    """The minimum effect, as a logarithm: less is not worth a word, and SAME means surely less than this."""
    reason: str

    @property
    def decided(self) -> bool:
        """Whether more launches would change nothing."""
        return self.outcome is not CellWord.INCONCLUSIVE

    @property
    def blind(self) -> bool:
        """Whether the noise hides the minimum effect itself: such a cell is reported and does not gate."""
        return self.outcome is CellWord.INCONCLUSIVE and self.estimate.visible > self.effect

    @property
    def calm(self) -> bool:
        """Whether the cell cannot resolve the minimum effect, and its estimate is nearer to no change than to that."""
        return self.blind and abs(self.estimate.centre) < self.effect / 2


def estimate(ratios: Sequence[float], alpha: float) -> Estimate:
    """Return the trimmed mean of the launches' log-ratios with its two-sided `1 - alpha` interval.

    One odd launch in ten is cut off on each side (Yuen 1974, Biometrika 61:165; Tukey and McLaughlin 1963). From fewer than three
    launches no spread can be told (ValueError).
    """
    if len(ratios) < _FEWEST:
        raise ValueError(f"{len(ratios)} launches: at least {_FEWEST} are needed")
    cut = int(_TRIM * len(ratios))
    ordered = sorted(ratios)
    kept = ordered[cut : len(ordered) - cut]
    centre, degrees = sum(kept) / len(kept), len(kept) - 1
    error = _spread(ordered, cut) / ((len(kept) / len(ordered)) * math.sqrt(len(ordered)))
    error = max(error, 1e-12)  # one of zero would be certain of anything
    reach = float(stats.t.ppf(1 - alpha / 2, degrees)) * error
    visible = reach + float(stats.t.ppf(_POWER, degrees)) * error
    worse, better = (float(stats.t.sf(side * centre / error, degrees)) for side in (1, -1))
    return Estimate(centre, centre - reach, centre + reach, worse, better, visible, len(ratios))


def underpowered(ratios: Sequence[float], effect: float, design: Design) -> bool:
    """Whether the minimum effect stays hidden after the last look even if the noise were half of what was seen.

    Launches that would not help are not asked for; to stop early because nothing can be shown makes no false alarm. The noise is
    the median absolute deviation of the log-ratios, which one odd launch does not move. `effect` is a fraction.
    """
    most = design.looks[-1]
    kept = most - 2 * int(_TRIM * most)
    noise = stats.median_abs_deviation(ratios, scale="normal") / 2
    spread = noise * (stats.t.ppf(1 - design.per_look / 2, kept - 1) + stats.t.ppf(_POWER, kept - 1))
    return float(spread * math.sqrt(most) / kept) > math.log1p(effect)


def rule(estimates: Mapping[str, Estimate], effects: Mapping[str, float], design: Design) -> dict[str, Ruling]:
    """Judge all cells together at one look, by name: log(head / base) where less is better, and minimum effects as fractions.

    False discoveries are controlled across cells (Benjamini and Hochberg 1995), for worse and for better.
    """
    worse = stats.false_discovery_control([each.p_worse for each in estimates.values()], method="bh")
    better = stats.false_discovery_control([each.p_better for each in estimates.values()], method="bh")
    limit = design.per_look / 2
    rows = zip(estimates.items(), worse <= limit, better <= limit, strict=True)
    return {name: _ruling(each, math.log1p(effects[name]), bool(up), bool(down)) for (name, each), up, down in rows}


def _ruling(estimate: Estimate, effect: float, worse: bool, better: bool) -> Ruling:
    shown, least = estimate.shown, percent(effect).lstrip("+")
    if worse and estimate.low > 0 and estimate.centre >= effect:
        return Ruling(CellWord.SLOWER, estimate, effect, f"{shown}: surely worse, and by at least {least}")
    if better and estimate.high < 0 and estimate.centre <= -effect:
        return Ruling(CellWord.FASTER, estimate, effect, f"{shown}: surely better, and by at least {least}")
    if -effect < estimate.low and estimate.high < effect:
        return Ruling(CellWord.SAME, estimate, effect, f"{shown}: surely within {least}")
    why = f"too near to {least}, from which on it counts, to say"
    if estimate.visible > effect:
        why = f"after {estimate.launches} launches noise still hides a change below {percent(estimate.visible).lstrip('+')}"
    return Ruling(CellWord.INCONCLUSIVE, estimate, effect, f"{shown}: {why}")


def _spread(ordered: Sequence[float], cut: int) -> float:
    low, high = ordered[cut], ordered[len(ordered) - cut - 1]
    return stdev(min(max(value, low), high) for value in ordered)
