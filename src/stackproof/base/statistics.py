"""The median and how well it is known, and tests of equivalence, without scipy: this runs inside every stack's environment."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, stdev

Z_95 = 1.959964
"""A normal number lies within so many standard deviations of its mean with 95 %."""
MAD_SIGMA = 1.482602
"""Times this the median absolute deviation of normal numbers is their standard deviation."""
MEDIAN_ERROR = 1.253314
"""The standard error of a median of normal numbers over that of their mean."""
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


def robust_sigma(values: Sequence[float]) -> float:
    """Return the standard deviation of normal numbers of which less than half may be anything (Huber and Ronchetti, section 5.2)."""
    middle = median(values)
    return MAD_SIGMA * median([abs(value - middle) for value in values])


def _rank(count: int) -> int:
    if count > _EXACT:
        return max(0, math.floor((count - Z_95 * math.sqrt(count)) / 2) - 1)
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


def percent(logarithm: float) -> str:
    """Return a logarithm of a ratio as people read it, such as `+2.1 %`; of seconds, above 0 is slower."""
    return f"{100 * math.expm1(min(logarithm, 50.0)):+.1f} %"


@dataclass(frozen=True)
class Equivalence:
    """Two samples of pairs: the mean difference between its bounds, an interval of 1 - 2 alpha, held against the margin."""

    pairs: int
    mean: float
    low: float
    high: float
    margin: float
    alpha: float

    @property
    def holds(self) -> bool:
        """Whether the interval lies within the margin: then both one-sided tests reject at alpha."""
        return -self.margin < self.low and self.high < self.margin

    def sentence(self, what: str) -> str:
        """Return one sentence with the verdict, the interval and the margin."""
        word = "equivalent" if self.holds else "not shown to be equivalent"
        return (
            f"{what}: {word} over {self.pairs} seeds: mean difference {self.mean:+.1e}, {100 - 200 * self.alpha:.0f} % interval "
            f"{self.low:+.1e} to {self.high:+.1e}, margin {self.margin:g}"
        )


def tost(values: Sequence[float], others: Sequence[float], margin: float, alpha: float) -> Equivalence:
    """Compare paired values of one unit, three pairs or more; `margin` is in that unit and set before the values are seen.

    The null hypothesis is that the mean paired difference is at least the margin, in either direction; it is rejected when both one-sided
    tests reject (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987, https://doi.org/10.1007/BF01068419).
    """
    differences = [left - right for left, right in zip(values, others, strict=True)]
    if not all(map(math.isfinite, differences)):
        return Equivalence(len(differences), math.nan, -math.inf, math.inf, margin, alpha)
    mean, error = statistics.fmean(differences), stdev(differences) / math.sqrt(len(differences))
    half = student_quantile(1 - alpha, len(differences) - 1) * error
    return Equivalence(len(differences), mean, mean - half, mean + half, margin, alpha)


def student_quantile(probability: float, freedom: int) -> float:
    """Return t with P(T <= t) = probability from 0.5 to 0.98, within 0.2 % (Abramowitz and Stegun, 26.7.5; exact for 1 and 2)."""
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = statistics.NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term * freedom**-power for power, term in enumerate(terms, 1))
