"""The median and how well it is known, without scipy: this runs inside every stack's environment.

The interval is made of order statistics (Hahn and Meeker, Statistical Intervals, section 5.2): it assumes no distribution. Steps that
follow one another are not independent; the interval is widened by how much being above the median persists from one sample to
the next (an AR(1) reading of the sign's autocorrelation, whose sum over lags is (1 + r) / (1 - r)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

CONFIDENCE = 0.95
_EXACT = 60
"""Up to so many samples the binomial distribution is summed; beyond, the normal approximation is within one rank of it."""
_MOST_PERSISTENCE = 0.9


@dataclass(frozen=True)
class Interval:
    """A median between its bounds."""

    median: float
    low: float
    high: float

    @property
    def relative(self) -> float:
        """Half the width relative to the median; infinite where there is nothing to relate to."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else math.inf


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the median with an interval that holds the true one with this confidence.

    Under six samples no interval of 95 % exists; then it is the whole range, which says less than it seems. Of no samples
    everything is NaN.
    """
    if not samples:
        return Interval(math.nan, math.nan, math.nan)
    ordered, count = sorted(samples), len(samples)
    half = (count / 2 - _rank(count, confidence)) * math.sqrt(_inflation(samples))
    rank = max(0, math.floor(count / 2 - half))
    return Interval(median(ordered), ordered[rank], ordered[count - 1 - rank])


def _rank(count: int, confidence: float) -> int:
    """Return how many of the smallest (and largest) samples lie outside the interval of independent samples."""
    tail = (1 - confidence) / 2
    if count > _EXACT:
        return max(0, math.floor((count - NormalDist().inv_cdf(1 - tail) * math.sqrt(count)) / 2))
    total, rank = 0.0, 0
    while rank < count // 2 and (total := total + math.comb(count, rank) / 2**count) <= tail:
        rank += 1
    return rank


def _inflation(samples: Sequence[float]) -> float:
    """Return by how much correlation of neighbours multiplies the variance of the median; 1 where there is none."""
    persistence = min(sign_autocorrelation(samples), _MOST_PERSISTENCE)
    return (1 + persistence) / (1 - persistence) if persistence > 0 else 1.0


def sign_autocorrelation(samples: Sequence[float]) -> float:
    """Return the correlation of being above the median with being above it one sample later; 0 under eight samples."""
    if len(samples) < 8:
        return 0.0
    middle = median(samples)
    signs = [(sample > middle) - (sample < middle) for sample in samples]
    own = sum(sign * sign for sign in signs)
    return sum(a * b for a, b in itertools.pairwise(signs)) / own if own else 0.0


def drift(samples: Sequence[float]) -> float:
    """Return by what share the last third of the samples is slower than the first: above 0 for a card that throttles."""
    third = len(samples) // 3
    if third < 3:
        return 0.0
    return median(samples[-third:]) / median(samples[:third]) - 1
