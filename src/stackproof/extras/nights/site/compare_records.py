"""Two records side by side: facts that differ first, then ratios with intervals and how many minimum effects each is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stackproof.api.base import Interval, median_interval
from stackproof.api.gate import plan
from stackproof.api.record import Measurement, Record, group_of
from stackproof.extras.nights.drift.nights import SIDE

_GROUPS = ("driver", "toolkit", "wheels", "settings", "code", "host", "place", "")
"""Facts in the order in which they explain most."""
FEWEST = 30
"""So many figures are shown, though they differ by less than a gate would speak of."""
CAUTION = (
    "Two runs at two times: what differs may be the machine. A gate measures both in turn; figures are seconds, so above 1 is slower. "
    "A factor of 1 is the smallest change that the gate would speak of."
)


@dataclass(frozen=True)
class FigureSummary:
    """One figure of a record: seconds for each unit of work, between bounds."""

    unit: str
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class FigureRatio:
    """The second record's figure over the first one's; `factor` counts minimum effects, and is 0 where the interval holds 1."""

    name: str
    before: FigureSummary
    after: FigureSummary
    ratio: float
    low: float
    high: float
    factor: float


def interval(row: Measurement) -> Interval:
    """Return the median of a measurement between the bounds that it was stored with, or those of its samples."""
    low, high = row.figures.get("low"), row.figures.get("high")
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 < low <= row.value <= high < math.inf:
        return Interval(row.value, low, high)
    usable = row.samples and all(math.isfinite(one) and one > 0 for one in row.samples)
    return median_interval(row.samples) if usable else Interval(row.value, row.value, row.value)


def figures(record: Record) -> dict[str, FigureSummary]:
    """Return the figures that can be compared, by what they are of."""
    found = {}
    for row in record.measurements:
        bounds = interval(row)
        if 0 < bounds.low <= bounds.median <= bounds.high < math.inf:
            ranks = f", {row.world_size} ranks" if row.world_size > 1 else ""
            side = f", {row.figures[SIDE]}" if row.figures.get(SIDE) else ""
            name = f"{row.workload} {row.metric} ({row.preset}, {row.dtype}{ranks}{side}) in {row.unit}"
            found[name] = FigureSummary(row.unit, bounds.median, bounds.low, bounds.high)
    return found


def effect(record: Record) -> float:
    """Return the smallest change that the gate would speak of on such a device."""
    return plan.load().effect("", str(record.provenance.get("verified on", "other")))


def ratios(before: Record, after: Record) -> list[FigureRatio]:
    """Return the ratio of each figure that both have, those first that stand out most."""
    one, other = figures(before), figures(after)
    least = math.log1p(max(effect(before), effect(after)))
    found = [_ratio(name, one[name], other[name], least) for name in one if name in other]
    return sorted(found, key=lambda row: (-row.factor, row.name))


def _ratio(name: str, before: FigureSummary, after: FigureSummary, least: float) -> FigureRatio:
    """Return a ratio whose interval adds the variances of both logarithms."""
    middle = math.log(after.seconds / before.seconds)
    half = math.hypot(*(math.log(one.high / one.low) / 2 for one in (before, after)))
    factor = abs(middle) / least if abs(middle) > half else 0.0
    return FigureRatio(name, before, after, math.exp(middle), math.exp(middle - half), math.exp(middle + half), factor)


def facts(before: Record, after: Record) -> list[tuple[str, str, str, str]]:
    """Return what differs: group, fact, and both values, in the order in which groups explain most."""
    one, other = before.provenance, after.provenance
    rows = [
        (group_of(name) or "", name, str(one.get(name, "absent")), str(other.get(name, "absent")))
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]
    return sorted(rows, key=lambda row: (_GROUPS.index(row[0]) if row[0] in _GROUPS else len(_GROUPS), row[1]))
