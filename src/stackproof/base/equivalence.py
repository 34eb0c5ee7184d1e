"""Two one-sided t-tests (TOST): evidence that two trainings end alike, which a failed test for a difference is not.

Student's t is computed here, because the suites run in stacks' environments, which have no scipy (docs/decisions.md).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from stackproof.base.errors import Refusal

_TINY = 1e-300
_FEWEST = 3


@dataclass(frozen=True)
class Equivalence:
    """The outcome: mean paired difference, its confidence interval at 1 - 2 alpha, and the larger one-sided p-value."""

    pairs: int
    mean: float
    low: float
    high: float
    p: float
    margin: float
    alpha: float

    @property
    def holds(self) -> bool:
        """Whether the trainings are equivalent: the interval lies within the margin."""
        return self.p < self.alpha

    def sentence(self, what: str) -> str:
        """Say it in one sentence with the figures and the margin."""
        word = "equivalent" if self.holds else "not shown to be equivalent"
        return (
            f"{what}: {word} over {self.pairs} seeds: mean difference {self.mean:+.1e}, {100 - 200 * self.alpha:.0f} % interval "
            f"{self.low:+.1e} to {self.high:+.1e}, margin {self.margin:g}, p = {self.p:.1e}"
        )


def tost(one: Sequence[float], other: Sequence[float], margin: float, alpha: float) -> Equivalence:
    """Compare paired values of one unit; `margin` is in that unit and set before the values are seen.

    The null hypothesis is that the mean paired difference is at least the margin, in either direction; it is rejected when both one-sided
    tests reject (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987, https://doi.org/10.1007/BF01068419).

    Raises:
        Refusal: fewer than three pairs, sequences of different length, a margin that is not positive, alpha outside (0, 0.5).
    """
    _require_sane(one, other, margin, alpha)
    differences = [left - right for left, right in zip(one, other, strict=True)]
    if not all(map(math.isfinite, differences)):
        return Equivalence(len(differences), math.nan, -math.inf, math.inf, 1.0, margin, alpha)
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(len(differences))
    freedom = len(differences) - 1
    half = student_quantile(1 - alpha, freedom) * error
    p = max(_above(mean + margin, error, freedom), _above(margin - mean, error, freedom))
    return Equivalence(len(differences), mean, mean - half, mean + half, p, margin, alpha)


def _above(distance: float, error: float, freedom: int) -> float:
    """Return the p-value of `distance > 0`; without any spread it is certain."""
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return student_tail(distance / error, freedom)


def _require_sane(one: Sequence[float], other: Sequence[float], margin: float, alpha: float) -> None:
    if len(one) != len(other):
        raise Refusal(f"an equivalence test needs pairs, and there are {len(one)} and {len(other)} values")
    if len(one) < _FEWEST:
        raise Refusal(f"an equivalence test of {len(one)} pairs says nothing; give it {_FEWEST} at least")
    if not margin > 0 or not math.isfinite(margin):
        raise Refusal(f"the margin of an equivalence test is {margin}; it must be a positive number")
    if not 0 < alpha < 0.5:
        raise Refusal(f"alpha of an equivalence test is {alpha}; it must lie between 0 and 0.5")


def student_tail(t: float, freedom: int) -> float:
    """Return P(T > t) of Student's t with `freedom` degrees of freedom, accurate to about 1e-12 relative."""
    half = 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)
    return half if t >= 0 else 1 - half


@cache
def student_quantile(probability: float, freedom: int) -> float:
    """Return t with P(T <= t) = probability, for 0.5 <= probability < 1, by bisection to the last bits."""
    low, high, tail = 0.0, 1.0, 1 - probability
    while student_tail(high, freedom) > tail:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if student_tail(middle, freedom) > tail else (low, middle)
    return high


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction (https://dlmf.nist.gov/8.17#v)."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on this side of the mean only
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """Return 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22 by the modified Lentz method."""
    value, numerator, denominator = 1.0, 1.0, 0.0
    for n in range(1, 1000):
        m = n // 2
        step = (
            m * (b - m) * x / ((a + n - 1) * (a + n))
            if n % 2 == 0
            else -(a + m) * (a + b + m) * x / ((a + n - 1) * (a + n))
        )
        denominator = 1 / ((1 + step * denominator) or _TINY)
        numerator = (1 + step / numerator) or _TINY
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            return value
    raise ArithmeticError(f"the continued fraction of I_{x}({a}, {b}) did not converge")
