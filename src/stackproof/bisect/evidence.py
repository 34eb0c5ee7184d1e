"""What runs say of one set of changes: good, bad or neither, by log odds that are added up until they are far enough apart.

Three kinds of runs: a time beside the good side, a failure that comes and goes, and what is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

CERTAIN = 60.0
"""Log odds of what is exact."""
_TAILS = 5.0
"""Degrees of freedom of Student's t: the noise is known from a few launches, and one process in many is odd for its whole life."""
_LEAST_NOISE = 1 / 8
"""Of the effect: launches that agree by chance must not make a single later one decisive."""
_JEFFREYS = 0.5


class SetWord(str, Enum):
    """What is said of the good side with a set of changes."""

    GOOD = "good"
    BAD = "bad"
    UNRESOLVED = "unresolved"


class Weigher(Protocol):
    """How much the runs of one set speak for bad: the logarithm of how much likelier they are if it is bad than if it is good."""

    @property
    def fewest(self) -> int:
        """How many runs it takes at least."""

    def weigh(self, seen: Sequence[float]) -> float:
        """Return the log odds of all runs of one set together, each told as a number."""


def bound(error: float, steps: int) -> float:
    """Return the log odds at which a step is decided, if `error` is split evenly over so many steps."""
    share = error / max(steps, 1)
    return math.log((1 - share) / share)


@dataclass(frozen=True)
class Slowdown:
    """Log-ratios of a candidate beside the good side: none of the effect, or a part of it.

    `shares`: the parts of the whole effect that a bad set may have, all as likely; half of it where two culprits may share it.
    """

    effect: float
    noise: float
    shares: tuple[float, ...] = (0.5, 1.0)
    fewest: int = 2

    @classmethod
    def seen(cls, ratios: Sequence[float], centre: float, shares: tuple[float, ...] = (0.5, 1.0)) -> Slowdown:
        """Learn the noise of one launch from those in which both ends were confirmed."""
        mean = sum(ratios) / len(ratios)
        spread = math.sqrt(sum((one - mean) ** 2 for one in ratios) / max(len(ratios) - 1, 1))
        return cls(centre, max(spread, _LEAST_NOISE * abs(centre)), shares)

    def weigh(self, seen: Sequence[float]) -> float:
        """Weigh each part of the effect against none of it."""
        parts = [sum(self._log(one - share * self.effect) for one in seen) for share in self.shares]
        highest = max(parts)
        bad = highest + math.log(sum(math.exp(part - highest) for part in parts) / len(parts))
        return bad - sum(self._log(one) for one in seen)

    def _log(self, distance: float) -> float:
        """Return the log density of Student's t at a distance, without what cancels."""
        return -(_TAILS + 1) / 2 * math.log1p((distance / self.noise) ** 2 / _TAILS)


@dataclass(frozen=True)
class FailureRate:
    """Runs that fail (1) or do not (0), at rates of which the ends tell: failures and runs of each (Beta-Bernoulli)."""

    good: tuple[int, int]
    bad: tuple[int, int]
    fewest: int = 1

    def weigh(self, seen: Sequence[float]) -> float:
        """Compare how likely so many failures are at the rate of either end, over all that the rate may be."""
        failed = sum(one > 0 for one in seen)
        return _likely(failed, len(seen), *self.bad) - _likely(failed, len(seen), *self.good)


def _likely(failed: int, runs: int, before: int, of: int) -> float:
    """Return the log probability of failures in runs after others were seen (beta-binomial, Jeffreys), without what cancels."""
    a, b = before + _JEFFREYS, of - before + _JEFFREYS
    return _log_beta(a + failed, b + runs - failed) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@dataclass(frozen=True)
class Exact:
    """What is exact: a clean run (0) is good; a bad one (1) is bad once it is `repeated`, and at most two of three must agree."""

    repeated: bool = True
    fewest: int = 1

    def weigh(self, seen: Sequence[float]) -> float:
        """Return all or nothing."""
        bad = sum(one > 0 for one in seen)
        clean = len(seen) - bad
        if not seen:
            return 0.0
        if bad > self.repeated:
            return CERTAIN
        return -CERTAIN if seen[0] <= 0 or clean > 1 else 0.0


@dataclass(frozen=True)
class Settled:
    """What was said of one set, after how many runs; `reason` is why it is unresolved."""

    word: SetWord
    runs: int
    odds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class NoAnswer:
    """A run that says nothing of the set, because it could not be built, imported or run, and why."""

    reason: str


def settle(weigher: Weigher, run: Callable[[int], float | NoAnswer], limit: float, most: int) -> Settled:
    """Run until the log odds pass the limit on either side; `run` is told how many there were before."""
    seen: list[float] = []
    odds = 0.0
    while (abs(odds) < limit or len(seen) < weigher.fewest) and len(seen) < most:
        one = run(len(seen))
        if isinstance(one, NoAnswer):
            return Settled(SetWord.UNRESOLVED, len(seen) + 1, odds, one.reason)
        seen.append(one)
        odds = weigher.weigh(seen)
    if abs(odds) < limit:
        return Settled(SetWord.UNRESOLVED, len(seen), odds, f"{len(seen)} runs leave it open")
    return Settled(SetWord.BAD if odds > 0 else SetWord.GOOD, len(seen), odds)
