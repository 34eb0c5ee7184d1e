"""All that the pages show, worked out once: runs, matrix and nights, the curves of each figure, and which runs have a page."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from stackproof.api.base import statistics, text
from stackproof.api.record import store
from stackproof.extras.nights.drift.findings import Drift, PlaceDrift, Suspicion, drift_of
from stackproof.extras.nights.drift.scan import SeriesKind
from stackproof.extras.nights.drift.series import LongTerm, Measured, Night, Trend, long_term
from stackproof.extras.nights.site import stack_status
from stackproof.extras.nights.site.stack_status import DAYS, IndexedRun, ProofState, RecordsIndex, StackMatrix, matrix

_MISSING = statistics.Interval(math.nan, math.nan, math.nan)
_TITLES = {
    SeriesKind.RATIO: "Today against the anchor: code and wheels",
    SeriesKind.ANCHOR: "The anchor alone: machine and driver",
    SeriesKind.RAW: "Today alone: what users get",
}


@dataclass(frozen=True)
class CurveMark:
    """Something that is said of one point: a step that was confirmed, suspected or refuted."""

    at: int
    word: str
    worse: bool


@dataclass(frozen=True)
class Curve:
    """One line with the band of its intervals, a value a point; NaN where there is none. `up`: whether higher is better."""

    title: str
    unit: str
    up: bool
    values: tuple[statistics.Interval, ...]
    marks: tuple[CurveMark, ...] = ()

    @property
    def newest(self) -> statistics.Interval:
        return next((value for value in reversed(self.values) if not math.isnan(value.median)), _MISSING)


@dataclass(frozen=True)
class StateMark:
    """The state of the stack is another one from this point on; each phrase says what of it."""

    at: int
    phrases: tuple[str, ...]


@dataclass(frozen=True)
class SeriesView:
    """One figure at one place with what pages show of it: its curves, changes of state, and steps."""

    trend: Trend
    curves: tuple[Curve, ...]
    states: tuple[StateMark, ...]
    steps: tuple[Suspicion, ...]

    @property
    def name(self) -> str:
        return self.trend.figure.label

    @property
    def place(self) -> store.Place:
        return self.trend.place

    @property
    def times(self) -> tuple[datetime, ...]:
        return tuple(night.started for night in self.trend.nights)

    @cached_property
    def far(self) -> LongTerm | None:
        return long_term(self.trend)

    @property
    def id(self) -> str:
        """The same for the same figure at the same place, so that links survive."""
        key = [self.place.stack, self.place.host, self.place.digest, self.name, self.trend.figure.unit, True]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]

    @property
    def page(self) -> str:
        return f"series/{self.id}.html"

    @property
    def now(self) -> statistics.Interval:
        return self.curves[-1].newest

    @property
    def word(self) -> str:
        words = [step.word for step in self.steps]
        return next((value for value in ("confirmed slower", "suspected") if value in words), "")


def of_nights(drift: PlaceDrift) -> Iterator[SeriesView]:
    states = tuple(_states(drift.nights))
    steps = (*drift.confirmed, *drift.refuted, *drift.suspicions)
    for trend in drift.trends:
        yield _of_trend(trend, states, tuple(step for step in steps if step.figure == trend.figure))


def _states(nights: Sequence[Night]) -> Iterator[StateMark]:
    for at, (before, after) in enumerate(pairwise(nights), 1):
        groups = store.changes(before.state, after.state)
        phrases = [f"{group}: {phrase}" for group, those in groups.items() if group != store.CODE for phrase in those]
        if before.anchor != after.anchor:
            phrases.append(f"anchor: {before.anchor[:12]} -> {after.anchor[:12]}")
        if phrases:
            yield StateMark(at, tuple(phrases))


def _of_trend(trend: Trend, states: tuple[StateMark, ...], steps: tuple[Suspicion, ...]) -> SeriesView:
    places, curves = {night.path: at for at, night in enumerate(trend.nights)}, list[Curve]()
    for kind in SeriesKind:
        marks = [CurveMark(places[step.after.path], step.word, step.slower) for step in steps if step.kind is kind]
        rate = text.RATES.get(trend.figure.unit)
        unit = "times as fast as the anchor" if kind is SeriesKind.RATIO else rate or trend.figure.unit
        up = kind is SeriesKind.RATIO or rate is not None
        curves.append(Curve(_TITLES[kind], unit, up, _intervals(trend, kind), tuple(marks)))
    return SeriesView(trend, tuple(curves), states, steps)


def _intervals(trend: Trend, kind: SeriesKind) -> tuple[statistics.Interval, ...]:
    """Return each night's value, between the bounds of the median of its launches."""
    intervals = []
    for night, value in zip(trend.nights, trend.values[kind].tolist(), strict=True):
        if math.isnan(value):
            intervals.append(_MISSING)
            continue
        own = statistics.median_interval(_samples(night.figures[trend.figure], kind))
        scale = math.exp(value) / own.median
        intervals.append(
            _shown(statistics.Interval(math.exp(value), own.low * scale, own.high * scale), kind, trend.figure.unit)
        )
    return tuple(intervals)


def _samples(sides: Mapping[Measured, tuple[float, ...]], kind: SeriesKind) -> Sequence[float]:
    today, anchor = sides[Measured.TODAY], sides.get(Measured.ANCHOR, ())
    if kind is SeriesKind.RATIO and len(today) == len(anchor):
        return [value / other for value, other in zip(today, anchor, strict=True)]
    return anchor if kind is SeriesKind.ANCHOR else today


def _shown(seconds: statistics.Interval, kind: SeriesKind, unit: str) -> statistics.Interval:
    """Return a rate, or the speed against the anchor, where seconds or a ratio of them stand; what has no rate stays seconds."""
    if kind is SeriesKind.RATIO:
        return statistics.Interval(1 / seconds.median, 1 / seconds.high, 1 / seconds.low)
    values = [text.rate(value, unit)[0] for value in (seconds.median, seconds.low, seconds.high)]
    return statistics.Interval(values[0], min(values[1:]), max(values[1:]))


_NEWEST = 5
"""Runs of one verb at one place that have a page for being new; older ones have one if something points at them."""
_LOUD = (ProofState.FAILED, ProofState.STALE)


@dataclass(frozen=True)
class SiteOrder:
    """What a site is made of, and as of which day; `days` is for how long a record proves anything."""

    folders: tuple[Path, ...]
    stacks: tuple[str, ...]
    suites: tuple[str, ...]
    today: date
    days: int = DAYS
    doubles: tuple[str, ...] = ()
    """Stacks that have no card to run on, so that nobody waits for it."""
    nightly: tuple[str, ...] = ()
    """Suites that a night runs; none: all of them are."""


@dataclass(frozen=True)
class SiteModel:
    """What a site is about. `kept`: the runs that have a page, newest first."""

    order: SiteOrder
    index: RecordsIndex
    matrix: StackMatrix
    drift: Drift
    views: tuple[SeriesView, ...]
    kept: Mapping[Path, IndexedRun]

    def shown(self, text: object) -> str:
        """Return text without the folders of this machine."""
        return stack_status.shown(str(text), self.order.folders)

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(self.shown(word) for word in dict.fromkeys((*self.index.problems, *self.drift.problems)))

    @property
    def sentence(self) -> str:
        """What matters, in one sentence, the worst first: what is red or old, slowdowns, what was never seen on its card."""
        states = [cell.state for cell in self.matrix.cells.values()]
        lines = [f"{_count(number, 'suite')} {state.value}" for state in _LOUD if (number := states.count(state))]
        newest = max((place.nights[-1].started.date() for place in self.drift.places), default=None)
        none = "no night has left figures yet, so nothing is known of slowdowns"
        lines.append(f"nights: {self.drift.headline}" if newest else none)
        if newest and (self.matrix.today - newest).days > self.matrix.days:
            lines.append(f"no night since {newest}")
        never = [name for name in self.matrix.never_on_card if name not in self.order.doubles]
        device = f"nothing is proved of {_count(len(never), 'stack')} on {'its' if len(never) == 1 else 'their'} device"
        lines.append(f"{device} ({', '.join(never)})" if never else "every stack has run on its device")
        sentence = "; ".join(lines)
        return f"{sentence[0].upper()}{sentence[1:]}."


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def model(index: RecordsIndex, order: SiteOrder) -> SiteModel:
    loaded = store.Loaded({run.path: run.record for run in index.runs}, list(index.problems))
    drift = drift_of(loaded)
    views = [view for place in drift.places for view in of_nights(place)]
    cells = matrix(index.runs, order.stacks, order.suites, order.today, order.days, order.nightly)
    return SiteModel(order, index, cells, drift, tuple(views), _kept(index, cells, drift))


def _kept(index: RecordsIndex, cells: StackMatrix, drift: Drift) -> dict[Path, IndexedRun]:
    """Return the runs that have a page: the newest of each kind, those that prove a cell, and those that steps name."""
    wanted = {cell.run.path for cell in cells.cells.values() if cell.run} | set(_named(drift))
    seen = Counter[tuple[str, str, store.Place]]()
    for run in reversed(index.runs):
        kind = run.record.verb, run.record.stack, run.place
        seen[kind] += 1
        if seen[kind] <= _NEWEST:
            wanted.add(run.path)
    return {run.path: run for run in reversed(index.runs) if run.path in wanted}


def _named(drift: Drift) -> Iterator[Path]:
    for place in drift.places:
        for step in (*place.settled, *place.suspicions):
            yield from ((step.gate.path,) if step.gate else ())
            yield from (step.before.path, step.after.path)
