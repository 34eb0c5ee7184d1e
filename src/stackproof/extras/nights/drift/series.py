"""Nights as their records tell them, and three series a figure: today over the anchor, the anchor, and what users get.

A night's measurements are rows of one side each, `figures["side"]`; only today's have a version.
Values are logarithms; NaN where a night is missing, was disturbed, or did not measure the figure. A new anchor begins ratio and anchor
anew. What creeps,
or is left behind by a new anchor, no scan of forty nights sees; so how far each figure has come since the first anchor is stated too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from stackproof.api.base import statistics
from stackproof.api.record import Measurement, Record, store
from stackproof.extras.nights.drift.scan import SeriesKind, Values, table

VERB = "night"
ANCHOR, DISTURBED = "anchor", "disturbed"
"""Facts of a night: its anchor's commit, and why a night does not count."""
SIDE, VERSION = "side", "subject version"


class Measured(str, Enum):
    """Whose samples a row holds."""

    TODAY = "today"
    ANCHOR = "anchor"


@dataclass(frozen=True, order=True)
class FigureKey:
    """What was measured; another version is another figure."""

    subject: str
    preset: str
    unit: str
    version: str

    @property
    def label(self) -> str:
        return f"{self.subject} ({self.preset})"


@dataclass(frozen=True)
class Night:
    """One night at one place. `figures`: seconds per unit of work of each side, a sample a round, in the order they were taken."""

    path: Path
    started: datetime
    place: store.Place
    state: store.State
    anchor: str
    disturbed: str
    figures: Mapping[FigureKey, Mapping[Measured, tuple[float, ...]]]

    @property
    def day(self) -> str:
        return f"{self.started:%Y-%m-%d}"


def side_row(key: FigureKey, side: Measured, samples: Sequence[float]) -> Measurement:
    """Return what a night measured of one side of one figure, a sample a round of all sides, as a row of its record."""
    figures: dict[str, Any] = {SIDE: side.value, VERSION: key.version}
    return Measurement(
        workload=key.subject, preset=key.preset, dtype="", world_size=1, metric=VERB, unit=key.unit,
        value=median(samples), samples=list(samples), note=f"{VERB}, {side.value}",
        version=key.version if side is Measured.TODAY else "", figures=figures,
    )  # fmt: skip


def night(path: Path, record: Record) -> Night | None:
    """Return what a record of the verb `night` tells; None where it has no figure of today's side, whose verdict says why.

    A sample that is no positive number (NaN, infinity, zero) leaves its figure of that night out: it is missing, not zero.
    """
    facts = record.provenance
    figures: dict[FigureKey, dict[Measured, tuple[float, ...]]] = {}
    for row in record.measurements:
        if (side := _side(row)) and row.countable:
            version = str(row.figures.get(VERSION, row.version))
            key = FigureKey(row.workload, row.preset, row.unit, version)
            figures.setdefault(key, {})[side] = tuple(row.samples)
    if not any(Measured.TODAY in sides for sides in figures.values()):
        return None
    return Night(
        path, datetime.fromisoformat(record.started), store.place(facts), store.state(facts), str(facts.get(ANCHOR, "")),
        str(facts.get(DISTURBED, "")), figures,
    )  # fmt: skip


def nights(loaded: store.Loaded) -> list[Night]:
    """Return the nights of a store that measured something, oldest first and each once."""
    records = store.distinct(loaded.records).items()
    read = (night(path, record) for path, record in records if record.verb == VERB)
    return sorted((night for night in read if night), key=lambda night: night.started)


def by_place(nights: Iterable[Night]) -> dict[store.Place, list[Night]]:
    """Return the nights of each place: another host, card or stack is another story."""
    groups: dict[store.Place, list[Night]] = {}
    for night in nights:
        groups.setdefault(night.place, []).append(night)
    return groups


def _side(row: Measurement) -> Measured | None:
    word = row.figures.get(SIDE)
    return next((side for side in Measured if side.value == word), None)


@dataclass(frozen=True)
class Trend:
    """The three series of one figure at one place, a value a night."""

    place: store.Place
    figure: FigureKey
    nights: tuple[Night, ...]
    values: Mapping[SeriesKind, Values]

    @property
    def usable(self) -> int:
        return int((~np.isnan(self.values[SeriesKind.RAW])).sum())


def trends(place: store.Place, nights: Sequence[Night]) -> list[Trend]:
    """Return the series of every figure of one place in its latest version; `nights` are oldest first."""
    newest: dict[tuple[str, str, str], FigureKey] = {}
    for night in nights:
        newest |= {(key.subject, key.preset, key.unit): key for key in night.figures}
    return [_trend(place, key, nights) for key in sorted(newest.values())]


def _trend(place: store.Place, key: FigureKey, nights: Sequence[Night]) -> Trend:
    rows = np.array([_values(night, key) for night in nights])
    changed = [at for at, (night, after) in enumerate(pairwise(nights), 1) if night.anchor != after.anchor]
    rows[: max(changed, default=0), :2] = np.nan
    return Trend(place, key, tuple(nights), dict(zip(SeriesKind, rows.T, strict=True)))


def _values(night: Night, key: FigureKey) -> tuple[float, float, float]:
    sides = night.figures.get(key, {})
    today, anchor = sides.get(Measured.TODAY, ()), sides.get(Measured.ANCHOR, ())
    if night.disturbed or not today:
        return math.nan, math.nan, math.nan
    raw = median(map(math.log, today))
    return (_ratio(today, anchor), median(map(math.log, anchor)), raw) if anchor else (math.nan, math.nan, raw)


def _ratio(head: Sequence[float], base: Sequence[float]) -> float:
    """Return the median log-ratio of launches that ran side by side; that of the medians where they do not pair."""
    if len(head) != len(base):
        return math.log(median(head)) - math.log(median(base))
    return median(math.log(seconds) - math.log(other) for seconds, other in zip(head, base, strict=True))


@dataclass(frozen=True)
class LongTerm:
    """What users get in the last nights over what the first anchor took in its first, as a logarithm with its 95 % interval."""

    figure: FigureKey
    since: str
    nights: int
    size: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the change is as large as a step has to be, and no noise."""
        return abs(self.size) >= table().scan.effect and (self.low > 0 or self.high < 0)

    @property
    def sentence(self) -> str:
        size = f"{statistics.percent(self.size)} [{statistics.percent(self.low)}, {statistics.percent(self.high)}]"
        way = f"{'slower' if self.size > 0 else 'faster'} than the first anchor on {self.since}"
        if not self.clear:
            way = f"against the first anchor on {self.since}, within noise"
        return f"{size} {way}"


def long_term(trend: Trend) -> LongTerm | None:
    """Return how far a figure has come; nothing before there are twice as many nights as a step needs before it."""
    fewest = table().scan.fewest
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
    reach = statistics.Z_95 * error
    return LongTerm(trend.figure, since.day, len(there), size, size - reach, size + reach)


def _first_anchor(trend: Trend, fewest: int) -> list[float]:
    """Return what the first anchor took in its first nights, as logarithms of seconds."""
    usable = [night for night in trend.nights if not night.disturbed and _anchor(night, trend.figure)]
    first = [night for night in usable if night.anchor == usable[0].anchor][:fewest]
    return [median(map(math.log, _anchor(night, trend.figure))) for night in first]


def _anchor(night: Night, key: FigureKey) -> tuple[float, ...]:
    return night.figures.get(key, {}).get(Measured.ANCHOR, ())


def _error(values: list[float]) -> float:
    return statistics.MEDIAN_ERROR * max(statistics.robust_sigma(values), table().scan.floor) / math.sqrt(len(values))
