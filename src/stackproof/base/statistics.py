"""The median and how well it is known, without scipy: this runs inside every stack's environment."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, stdev

_Z = 1.959964
_EXACT = 60
"""Up to so many samples the binomial distribution is summed; beyond, the normal approximation is within one rank of it."""
_MOST_PERSISTENCE = 0.95
_BATCHES = 10
_STUDENT = 2.262157
"""Student's t at 97.5 % for nine degrees of freedom."""


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


def median_interval(samples: Sequence[float]) -> Interval:
    """Return the median with an interval that holds the true one with 95 % confidence.

    Two intervals are made and the wider one counts. The first is of order statistics (Hahn and Meeker, Statistical Intervals, section
    5.2): it assumes no distribution, but samples that know nothing of one another. A neighbour that wakes up, or a card that gets warm,
    slows many in a row; so it is widened by how much being above the median persists from one sample to the next. For what persists
    longer, the second is of the medians of ten consecutive batches, nearly independent (batch means: Law, Simulation Modeling and
    Analysis, section 9.5.3).

    Under six samples no such interval exists; then it is the whole range, which says less than it seems. Of no samples
    everything is NaN.
    """
    if not samples:
        return Interval(math.nan, math.nan, math.nan)
    ordered, count, middle = sorted(samples), len(samples), median(samples)
    half = _batched(samples)
    rank = max(0, math.floor(count / 2 - (count / 2 - _rank(count)) * math.sqrt(_inflation(samples))))
    low, high = ordered[rank], ordered[count - 1 - rank]
    return Interval(middle, min(low, max(middle - half, 0.0)), max(high, middle + half))


def _rank(count: int) -> int:
    """Return how many of the smallest (and largest) samples lie outside the interval of independent samples."""
    if count > _EXACT:
        return max(0, math.floor((count - _Z * math.sqrt(count)) / 2) - 1)
    total, rank = 0.0, 0
    while rank < count // 2 and (total := total + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    return max(0, rank - 1)


def _inflation(samples: Sequence[float]) -> float:
    """Return by how much the correlation of neighbours multiplies the variance of the median; 1 where there is none.

    The variance grows with the correlation of being above the median, summed over all lags: (1 + r) / (1 - r) of an AR(1) process.
    """
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


def _batched(samples: Sequence[float]) -> float:
    """Return half the width by the medians of ten batches; 0 under four samples a batch, which have none worth the name."""
    size = len(samples) // _BATCHES
    if size < 4:
        return 0.0
    medians = [median(samples[number * size : (number + 1) * size]) for number in range(_BATCHES)]
    return _STUDENT * stdev(medians) / math.sqrt(_BATCHES)


def drift(samples: Sequence[float]) -> float:
    """Return by what share the last third of the samples is slower than the first: above 0 for a card that throttles."""
    third = len(samples) // 3
    if third < 3:
        return 0.0
    return median(samples[-third:]) / median(samples[:third]) - 1


_SLOW = 1.25
"""From so many times the lower quartile on a sample is slow."""
_LEAST_SLOW = 4
_REGULAR = 0.6


def rhythm(samples: Sequence[float]) -> tuple[int, float] | None:
    """Return by which distance slow samples recur, and how many times the others they take; None where they keep no distance.

    A median says nothing of a step that is slow each third time. There must be four at least, and six in ten of them as far from
    the one before as the others.
    """
    if len(samples) < 2 * _LEAST_SLOW:
        return None
    usual = sorted(samples)[len(samples) // 4]
    limit = _SLOW * usual
    slow = [number for number, one in enumerate(samples) if one > limit]
    gaps = [after - before for before, after in itertools.pairwise(slow)]
    if len(slow) < _LEAST_SLOW:
        return None
    gap = max(set(gaps), key=gaps.count)
    if gap < 2 or gaps.count(gap) < _REGULAR * len(gaps):
        return None
    return gap, median([samples[number] for number in slow]) / usual


def percent(logarithm: float) -> str:
    """Return a logarithm of a ratio as people read it, such as `+2.1 %`; of seconds, above 0 is slower."""
    return f"{100 * math.expm1(min(logarithm, 50.0)):+.1f} %"
