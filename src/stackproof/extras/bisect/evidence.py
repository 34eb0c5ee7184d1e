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
    """Runs that fail (1) or do not (0), beside those that are known: failures and runs of good and of bad sets (Beta-Bernoulli).

    Half of all good sides never fail and half of all bad ones always do; of the rest every rate is as likely as any other.
    """

    good: tuple[int, int]
    bad: tuple[int, int]
    fewest: int = 2

    def weigh(self, seen: Sequence[float]) -> float:
        """Compare how likely so many failures are of a bad set, over all that its rate may be, and of a good one."""
        failed = sum(one > 0 for one in seen)
        as_bad = _after(self.bad[0], self.bad[1] - self.bad[0], failed, len(seen) - failed)
        return as_bad - _after(self.good[1] - self.good[0], self.good[0], len(seen) - failed, failed)


def _after(usual: int, odd: int, more_usual: int, more_odd: int) -> float:
    """Return the log probability of runs after others, of which the odd kind may never come."""
    return _likely(usual + more_usual, odd + more_odd) - _likely(usual, odd)


def _likely(usual: int, odd: int) -> float:
    """Return the log probability of such runs, twice: half for an odd kind that never comes, half for a rate of which nothing is known."""
    at_a_rate = _log_beta(usual + 1, odd + 1)
    return at_a_rate if odd else math.log1p(math.exp(at_a_rate))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def below(runs: int, error: float = 0.05) -> float:
    """Return the rate of failure that so many runs without one would have shown, but for the error."""
    return float(1 - error ** (1 / max(runs, 1)))


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


def settle(
    weigher: Weigher, run: Callable[[int], float | NoAnswer], limit: float, most: int, seen: list[float]
) -> Settled:
    """Run until the log odds pass the limit on either side; `run` is told how many there were before, and `seen` is added to."""
    odds = weigher.weigh(seen) if seen else 0.0
    while (abs(odds) < limit or len(seen) < weigher.fewest) and len(seen) < most:
        one = run(len(seen))
        if isinstance(one, NoAnswer):
            return Settled(SetWord.UNRESOLVED, len(seen) + 1, odds, one.reason)
        seen.append(one)
        odds = weigher.weigh(seen)
    if abs(odds) < limit:
        return Settled(SetWord.UNRESOLVED, len(seen), odds, f"{len(seen)} runs leave it open")
    return Settled(SetWord.BAD if odds > 0 else SetWord.GOOD, len(seen), odds)
