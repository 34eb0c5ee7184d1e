"""How far a figure has come since the first anchor, step or no step: what creeps, or is left behind by a new anchor, is stated here.

A scan looks back forty nights and each anchor forgets what was before it; users keep the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

import numpy as np

from stackproof.api.base import percent
from stackproof.extras.nights.drift.nights import FigureKey, Measured, Night
from stackproof.extras.nights.drift.rules import SeriesKind, rules
from stackproof.extras.nights.drift.scan import Values
from stackproof.extras.nights.drift.series import Trend

_Z = 1.959964
_MAD, _OF_MEDIANS = 1.4826, 1.2533


@dataclass(frozen=True)
class LongTerm:
    """What users get in the last nights over what the first anchor took in its first, as a logarithm with its 95 % interval.

    `parts`: how far the chained series came in the same time; a series that begins anew later is not there.
    """

    figure: FigureKey
    since: str
    nights: int
    size: float
    low: float
    high: float
    parts: dict[SeriesKind, float]

    @property
    def clear(self) -> bool:
        """Whether it is worth a word: as large as a step has to be, and no noise."""
        return abs(self.size) >= rules().scan.effect and (self.low > 0 or self.high < 0)

    @property
    def sentence(self) -> str:
        """Say it, with who moved: today over the anchor is code and wheels, the anchor alone driver and machine."""
        size = f"{percent(self.size)} [{percent(self.low)}, {percent(self.high)}]"
        way = "slower than the first anchor" if self.size > 0 else "faster than the first anchor"
        told = (
            f"{size} {way} on {self.since}"
            if self.clear
            else f"{size} against the first anchor on {self.since}, within noise"
        )
        parts = ", ".join(f"{kind.value} {percent(part)}" for kind, part in self.parts.items())
        return f"{told}{f' ({parts})' if parts else ''}"


def long_term(trend: Trend) -> LongTerm | None:
    """Return how far a figure has come; nothing before there are twice as many nights as a step needs before it."""
    fewest = rules().scan.fewest
    raw = trend.values[SeriesKind.RAW]
    there = np.flatnonzero(~np.isnan(raw))
    if len(there) < 2 * fewest:
        return None
    base = _first_anchor(trend, fewest)
    if len(base) < fewest:
        return None
    last = raw[there[-fewest:]].tolist()
    size, error = median(last) - median(base), math.hypot(_error(base), _error(last))
    since = trend.nights[int(there[0])]
    parts = {
        kind: part for kind in (SeriesKind.RATIO, SeriesKind.ANCHOR)
        if (part := _moved(trend.values[kind], there[0], fewest)) is not None
    }  # fmt: skip
    return LongTerm(trend.figure, since.day, len(there), size, size - _Z * error, size + _Z * error, parts)


def _first_anchor(trend: Trend, fewest: int) -> list[float]:
    """Return what the first anchor took in its first nights, as logarithms of seconds that nothing was chained to."""
    usable = [night for night in trend.nights if not night.disturbed and _anchor(night, trend.figure)]
    first = [night for night in usable if night.anchor == usable[0].anchor][:fewest]
    return [median(map(math.log, _anchor(night, trend.figure))) for night in first]


def _anchor(night: Night, key: FigureKey) -> tuple[float, ...]:
    return night.figures.get(key, {}).get(Measured.ANCHOR, ())


def _error(values: list[float]) -> float:
    """Return the standard error of the median of these nights, from how far they lie from it."""
    middle = median(values)
    spread = max(_MAD * median(abs(one - middle) for one in values), rules().scan.floor)
    return _OF_MEDIANS * spread / math.sqrt(len(values))


def _moved(values: Values, begin: int, fewest: int) -> float | None:
    """Return how far a series came from its first nights to its last; nothing where it begins anew after the first night."""
    there = np.flatnonzero(~np.isnan(values))
    if len(there) < 2 * fewest or there[0] > begin:
        return None
    return float(np.median(values[there[-fewest:]]) - np.median(values[there[:fewest]]))
