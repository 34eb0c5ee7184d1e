"""Which of many equal hosts is odd: robust z of logarithms, and the limit beyond which one is odd with a family-wise error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import TypeVar

Key = TypeVar("Key")

_CONSISTENT = 1.4826022
"""Times this the median absolute deviation of normal numbers is their standard deviation."""


@dataclass(frozen=True)
class RobustSpread:
    """The middle of a group and how far its hosts are from it, in logarithms of seconds."""

    centre: float
    scale: float

    def z(self, seconds: float) -> float:
        """Return by how many spreads a host is slower (above 0) or faster."""
        return (math.log(seconds) - self.centre) / self.scale

    def ratio(self, seconds: float) -> float:
        """Return a host's seconds over the median's."""
        return math.exp(math.log(seconds) - self.centre)


def spread(seconds: Sequence[float], floor: float) -> RobustSpread:
    """Return median and spread of a group; equal hosts are taken to differ by the floor at least.

    A half of the hosts may be anything before either moves without bound (Huber and Ronchetti, Robust Statistics, section 5.2).
    """
    logs = [math.log(one) for one in seconds]
    centre = median(logs)
    scale = _CONSISTENT * median([abs(one - centre) for one in logs])
    return RobustSpread(centre, max(scale, floor))


def limit(family: float, looks: int) -> float:
    """Return the z that the largest of so many looks exceeds by chance with this probability (Sidak 1967), if their noise is normal.

    Heavy tails exceed it more often, which is why suspects are swept again before anybody is drained.
    """
    each = -math.expm1(math.log1p(-family) / max(looks, 1))
    return NormalDist().inv_cdf(1 - each)


@dataclass(frozen=True)
class TwoModes:
    """Figures of a group as two populations: the medians of both, how many are in the slower one, and their distance over their spread."""

    fast: float
    slow: float
    slower: int
    distance: float

    @property
    def apart(self) -> float:
        """Return by which share the slower ones are slower."""
        return self.slow / self.fast - 1


_CUTS = 16
_QUARTILES = 1.3489795
"""The distance of the quartiles of normal numbers over their standard deviation."""


def modes(seconds: Sequence[float], share: float, floor: float) -> TwoModes:
    """Return the two halves, of this share of all at least, that stand furthest apart (Ashman's D, of medians and quartiles).

    Normal figures reach 2.4 in a large group, and more in a small one; two populations that do not overlap reach 5 and more.
    """
    ordered = sorted(map(math.log, seconds))
    least = max(2, math.ceil(share * len(ordered)))
    span = len(ordered) - 2 * least
    cuts = sorted({least + span * number // _CUTS for number in range(_CUTS + 1)})
    return max((_cut(ordered, at, floor) for at in cuts), key=lambda one: one.distance)


def _cut(ordered: Sequence[float], at: int, floor: float) -> TwoModes:
    low, middle, high = ordered[:at], median(ordered[:at]), median(ordered[at:])
    widths = [(_quantile(one, 0.75) - _quantile(one, 0.25)) / _QUARTILES for one in (low, ordered[at:])]
    wide = max(math.hypot(*widths) / math.sqrt(2), floor)
    slower = sum(one > (middle + high) / 2 for one in ordered)
    return TwoModes(math.exp(middle), math.exp(high), slower, (high - middle) / wide)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    at = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    after = ordered[min(at + 1, len(ordered) - 1)]
    return ordered[at] + (place - at) * (after - ordered[at])
