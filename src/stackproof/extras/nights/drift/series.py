"""Nights as their records tell them, and three series a figure: today over the anchor, the anchor, and what users get; anchors chained.

A night's measurements are rows of one side each, `figures["side"]`; only today's have a version.
Values are logarithms; NaN where a night is missing, was disturbed, or did not measure the figure. What creeps,
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
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from stackproof.api.base import statistics
from stackproof.api.record import Measurement, Record, store
from stackproof.extras.nights.drift.scan import SeriesKind, Values, table

VERB = "night"
ANCHOR, FORMER, DISTURBED = "anchor", "anchor.former", "disturbed"
"""Facts of a night: its anchor's digest (commit, lock, workloads), the former's while both are measured, why a night does not count."""
SIDE, VERSION = "side", "subject version"


class Measured(str, Enum):
    """Whose samples a row holds."""

    TODAY = "today"
    ANCHOR = "anchor"
    FORMER = "former anchor"


@dataclass(frozen=True, order=True)
class FigureKey:
    """What was measured; another version is another figure."""

    subject: str
    preset: str
    ranks: int
    unit: str
    version: str

    @property
    def label(self) -> str:
        """How people read it."""
        ranks = f", {self.ranks} ranks" if self.ranks > 1 else ""
        return f"{self.subject} ({self.preset}{ranks})"


@dataclass(frozen=True)
class Night:
    """One night at one place. `figures`: seconds per unit of work of each side, a sample a round, in the order they were taken."""

    path: Path
    started: datetime
    place: store.Place
    state: store.State
    anchor: str
    former: str
    disturbed: str
    figures: Mapping[FigureKey, Mapping[Measured, tuple[float, ...]]]

    @property
    def day(self) -> str:
        """The date in UTC."""
        return f"{self.started:%Y-%m-%d}"


@dataclass(frozen=True)
class NightSide:
    """What a night measured of one side of one figure: seconds per unit of work, a sample a round of all sides."""

    key: FigureKey
    dtype: str
    side: Measured
    samples: tuple[float, ...]

    def row(self) -> Measurement:
        """Return the figure as a row of a record, in the form in which a night writes it."""
        key, today = self.key, self.side is Measured.TODAY
        figures: dict[str, Any] = {SIDE: self.side.value, VERSION: key.version}
        return Measurement(
            workload=key.subject, preset=key.preset, dtype=self.dtype, world_size=key.ranks, metric=VERB, unit=key.unit,
            value=median(self.samples), samples=list(self.samples), note=f"{VERB}, {self.side.value}",
            version=key.version if today else "", figures=figures,
        )  # fmt: skip


def night(path: Path, record: Record) -> Night | str:
    """Return what a record of the verb `night` tells, or in one sentence why it tells nothing.

    A sample that is no positive number (NaN, infinity, zero) leaves its figure of that night out: it is missing, not zero.
    """
    facts = record.provenance
    if not (anchor := str(facts.get(ANCHOR, ""))):
        return f"{path}: names no anchor in its provenance, so that its figures compare with nothing; it was skipped"
    figures: dict[FigureKey, dict[Measured, tuple[float, ...]]] = {}
    for row in record.measurements:
        if (side := _side(row)) and row.countable:
            version = str(row.figures.get(VERSION, row.version))
            key = FigureKey(row.workload, row.preset, row.world_size, row.unit, version)
            figures.setdefault(key, {})[side] = tuple(row.samples)
    if not any(Measured.TODAY in sides for sides in figures.values()):
        return f"{path}: holds no figure of today's side; it was skipped"
    return Night(
        path, datetime.fromisoformat(record.started), store.place(facts), store.state(facts), anchor,
        str(facts.get(FORMER, "")), str(facts.get(DISTURBED, "")), figures,
    )  # fmt: skip


def nights(loaded: store.Loaded) -> tuple[list[Night], list[str]]:
    """Return the nights of a store, oldest first and each once, and a sentence for each record that is none."""
    told = [night(path, record) for path, record in store.distinct(loaded.records).items() if record.verb == VERB]
    found = [one for one in told if isinstance(one, Night)]
    return sorted(found, key=lambda one: one.started), [one for one in told if isinstance(one, str)]


def by_place(found: Iterable[Night]) -> dict[store.Place, list[Night]]:
    """Return the nights of each place: another host, card or stack is another story."""
    groups: dict[store.Place, list[Night]] = {}
    for one in found:
        groups.setdefault(one.place, []).append(one)
    return groups


def _side(row: Measurement) -> Measured | None:
    word = row.figures.get(SIDE)
    return next((side for side in Measured if side.value == word), None)


_FEWEST_PAIRS = 2
"""Standard errors of a 95 % interval of normal numbers."""


@dataclass(frozen=True)
class AnchorLink:
    """How two anchors compare, from the nights that measured both: `shift` is log(anchor / former), between its 95 % bounds."""

    former: str
    anchor: str
    shift: float
    error: float
    low: float
    high: float
    nights: int

    @property
    def sentence(self) -> str:
        """Return a sentence that says by how much the anchor changed: that is never silent."""
        told = f"{100 * math.expm1(self.shift):+.2f} % [{100 * math.expm1(self.low):+.2f}, {100 * math.expm1(self.high):+.2f}]"
        return f"anchor {self.former[:12]} -> {self.anchor[:12]}: chained by {told} over {self.nights} nights that measured both"


@dataclass(frozen=True)
class Trend:
    """The three series of one figure at one place, a value a night; `links` chain its anchors, `problems` say where none did."""

    place: store.Place
    figure: FigureKey
    nights: tuple[Night, ...]
    values: Mapping[SeriesKind, Values]
    links: tuple[AnchorLink, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def usable(self) -> int:
        """How many nights count."""
        return int((~np.isnan(self.values[SeriesKind.RAW])).sum())


def trends(place: store.Place, nights: Sequence[Night]) -> list[Trend]:
    """Return the series of every figure of one place in its latest version; `nights` are oldest first."""
    newest: dict[tuple[str, str, int, str], FigureKey] = {}
    for night in nights:
        newest |= {(key.subject, key.preset, key.ranks, key.unit): key for key in night.figures}
    return [_trend(place, key, nights) for key in sorted(newest.values())]


def _trend(place: store.Place, key: FigureKey, nights: Sequence[Night]) -> Trend:
    rows = np.array([_values(night, key) for night in nights])
    links, problems = list[AnchorLink](), list[str]()
    shift = 0.0
    for place_of, (night, after) in reversed(list(enumerate(pairwise(nights)))):
        if night.anchor != after.anchor:
            link = _link(nights, key, night.anchor, after.anchor)
            if link is None or link.nights < table().chain.nights:
                rows[: place_of + 1, :2] = np.nan
                problems.append(_unlinked(key, night, after, link))
                break
            links.append(link)
            shift += link.shift
        rows[place_of, :2] += (-shift, shift)
    columns = dict(zip(SeriesKind, rows.T, strict=True))
    return Trend(place, key, tuple(nights), columns, tuple(links), tuple(problems))


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
    return median(math.log(one) - math.log(other) for one, other in zip(head, base, strict=True))


def _link(nights: Sequence[Night], key: FigureKey, former: str, anchor: str) -> AnchorLink | None:
    """Return how two anchors compare, from the undisturbed nights that measured both; nothing where they are fewer than two."""
    both = [
        night.figures.get(key, {}) for night in nights
        if not night.disturbed and night.anchor == anchor and night.former == former
    ]  # fmt: skip
    found = [
        _ratio(one[Measured.ANCHOR], one[Measured.FORMER])
        for one in both
        if {Measured.ANCHOR, Measured.FORMER} <= set(one)
    ]
    if len(found) < _FEWEST_PAIRS:
        return None
    shift, error = fmean(found), stdev(found) / math.sqrt(len(found))
    reach = statistics.student_quantile(0.975, len(found) - 1) * error
    return AnchorLink(former, anchor, shift, error, shift - reach, shift + reach, len(found))


def _unlinked(key: FigureKey, night: Night, after: Night, link: AnchorLink | None) -> str:
    had = link.nights if link else 0
    return (
        f"{key.label}: the anchor changed from {night.anchor[:12]} to {after.anchor[:12]} on {after.day}, and {had} of "
        f"{table().chain.nights} nights measured both; ratio and anchor begin anew there"
    )


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
        """Whether the change is as large as a step has to be, and no noise."""
        return abs(self.size) >= table().scan.effect and (self.low > 0 or self.high < 0)

    @property
    def sentence(self) -> str:
        """Return a sentence that says what moved: today over the anchor is code and wheels, the anchor alone driver and machine."""
        size = f"{statistics.percent(self.size)} [{statistics.percent(self.low)}, {statistics.percent(self.high)}]"
        way = f"{'slower' if self.size > 0 else 'faster'} than the first anchor on {self.since}"
        if not self.clear:
            way = f"against the first anchor on {self.since}, within noise"
        parts = ", ".join(f"{kind.value} {statistics.percent(part)}" for kind, part in self.parts.items())
        return f"{size} {way}{f' ({parts})' if parts else ''}"


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
    parts = {
        kind: part for kind in (SeriesKind.RATIO, SeriesKind.ANCHOR)
        if (part := _moved_by(trend.values[kind], there[0], fewest)) is not None
    }  # fmt: skip
    return LongTerm(
        trend.figure, since.day, len(there), size, size - statistics.Z_95 * error, size + statistics.Z_95 * error, parts
    )


def _first_anchor(trend: Trend, fewest: int) -> list[float]:
    """Return what the first anchor took in its first nights, as logarithms of seconds that nothing was chained to."""
    usable = [night for night in trend.nights if not night.disturbed and _anchor(night, trend.figure)]
    first = [night for night in usable if night.anchor == usable[0].anchor][:fewest]
    return [median(map(math.log, _anchor(night, trend.figure))) for night in first]


def _anchor(night: Night, key: FigureKey) -> tuple[float, ...]:
    return night.figures.get(key, {}).get(Measured.ANCHOR, ())


def _error(values: list[float]) -> float:
    return statistics.MEDIAN_ERROR * max(statistics.robust_sigma(values), table().scan.floor) / math.sqrt(len(values))


def _moved_by(values: Values, begin: int, fewest: int) -> float | None:
    there = np.flatnonzero(~np.isnan(values))
    if len(there) < 2 * fewest or there[0] > begin:
        return None
    return float(np.median(values[there[-fewest:]]) - np.median(values[there[:fewest]]))
