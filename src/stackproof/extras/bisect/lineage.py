"""Which commit of a line is the first bad one: the probability of each, from all runs until now, and where to run next (Bayes)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from stackproof.extras.bisect.evidence import Weigher

GOOD = -1
"""The place of the good side."""
_LEAST = 1e-12


class RunsOfLine(Protocol):
    """All runs of a line until now."""

    def scores(self, count: int) -> list[float]:
        """Return for each of so many places how likely the runs are if it is the first bad one (logarithms, up to a constant)."""


@dataclass
class Signs:
    """Runs of single places that tell good from bad by themselves."""

    weigher: Weigher
    seen: dict[int, list[float]] = field(default_factory=dict)

    def scores(self, count: int) -> list[float]:
        """Add up the odds of the places that would be bad."""
        odds = {at: self.weigher.weigh(seen) for at, seen in self.seen.items()}
        return [sum(one for at, one in odds.items() if at >= first) for first in range(count)]


@dataclass
class Levels:
    """Launches: the logarithm of the time of each place that ran in it, side by side.

    Each launch has a level of its own, which is how a machine that drifts cancels. Neither the size of the step nor the noise is
    taken as known: both are integrated out (linear regression with one step, flat priors), the launches of the confirmation included.
    """

    launches: list[dict[int, float]] = field(default_factory=list)

    def scores(self, count: int) -> list[float]:
        """Return the marginal likelihood of a step at each place."""
        centred = []
        for launch in self.launches:
            mean = sum(launch.values()) / len(launch)
            centred.append({at: value - mean for at, value in launch.items()})
        freedom = sum(len(launch) - 1 for launch in centred)
        total = sum(value**2 for launch in centred for value in launch.values())
        return [self._score(first, centred, total, freedom) for first in range(count)]

    def _score(self, first: int, centred: Sequence[dict[int, float]], total: float, freedom: int) -> float:
        spread = moved = 0.0
        for launch in centred:
            bad = [value for at, value in launch.items() if at >= first]
            spread += len(bad) * (1 - len(bad) / len(launch))
            moved += sum(bad)
        left = total - moved**2 / max(spread, _LEAST)
        return -0.5 * math.log(max(spread, _LEAST)) - (freedom - 1) / 2 * math.log(max(left, _LEAST))


@dataclass
class Lineage:
    """A line of states after a good one, of which the last is known to be bad.

    Args:
        weights: how likely each is to be the first bad one before anything was run, up to a factor.
        evidence: what runs have said.
        sure: at which probability of an answer the search ends.
    """

    weights: Sequence[float]
    evidence: RunsOfLine
    sure: float = 0.95
    unresolved: dict[int, str] = field(default_factory=dict)
    """By place, why nothing can be said of it."""

    def posterior(self) -> list[float]:
        """Return how likely each is to be the first bad one."""
        scores = self.evidence.scores(len(self.weights))
        logs = [
            (math.log(weight) if weight > 0 else -math.inf) + score
            for weight, score in zip(self.weights, scores, strict=True)
        ]
        highest = max(logs)
        likely = [math.exp(one - highest) for one in logs]
        return [one / sum(likely) for one in likely]

    def blocks(self) -> list[range]:
        """Return the places that no run can tell apart, because what lies between them is unresolved."""
        ends = [at for at in range(len(self.weights) - 1) if at not in self.unresolved] + [len(self.weights) - 1]
        begins = [0] + [end + 1 for end in ends[:-1]]
        return [range(begin, end + 1) for begin, end in zip(begins, ends, strict=True)]

    def likeliest(self) -> tuple[range, float]:
        """Return the likeliest answer, and its probability."""
        posterior = self.posterior()
        masses = [(sum(posterior[at] for at in block), block) for block in self.blocks()]
        mass, block = max(masses, key=lambda one: one[0])
        return block, mass

    def ask(self, most: int = 1) -> list[int]:
        """Return the places that tell most when they run next, side by side; none once the answer is sure."""
        if self.likeliest()[1] >= self.sure:
            return []
        posterior = self.posterior()
        until = list(accumulate(posterior[:-1]))
        chosen: list[int] = []
        for part in range(1, most + 1):
            open_ = [at for at in range(len(until)) if at not in self.unresolved and at not in chosen]
            if open_:
                chosen.append(min(open_, key=lambda at: abs(until[at] - part / (most + 1))))
        return chosen
