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

    Heavy tails exceed it more often, which is why nobody is drained before a duel.
    """
    each = -math.expm1(math.log1p(-family) / max(looks, 1))
    return NormalDist().inv_cdf(1 - each)
