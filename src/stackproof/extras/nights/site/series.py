"""The series that have a page: what nights tell of a figure, in three curves.

Everything is here as it is shown: rates where there are any, a day a night, "up" faster.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from stackproof.api.base import statistics, text
from stackproof.api.record import store
from stackproof.extras.nights.drift.findings import PlaceDrift
from stackproof.extras.nights.drift.nights import Measured, Night
from stackproof.extras.nights.drift.rules import SeriesKind
from stackproof.extras.nights.drift.series import LongTerm, Trend, long_term
from stackproof.extras.nights.drift.suspicions import Suspicion

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
        """The last point that there is."""
        return next((one for one in reversed(self.values) if not math.isnan(one.median)), _MISSING)


@dataclass(frozen=True)
class StateMark:
    """The state of the stack is another one from this point on; each phrase says what of it."""

    at: int
    phrases: tuple[str, ...]


@dataclass(frozen=True)
class SeriesView:
    """One figure at one place: `times` of the points, of each its record's file and a note, and its curves."""

    place: store.Place
    name: str
    subject: str
    preset: str
    unit: str
    times: tuple[datetime, ...]
    paths: tuple[Path, ...]
    notes: tuple[str, ...]
    counts: tuple[int, ...]
    curves: tuple[Curve, ...]
    states: tuple[StateMark, ...]
    steps: tuple[Suspicion, ...] = ()
    sentences: tuple[str, ...] = ()
    far: LongTerm | None = None

    @property
    def id(self) -> str:
        """The same for the same figure at the same place, so that links survive."""
        key = [self.place.stack, self.place.host, self.place.digest, self.name, self.unit, True]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]

    @property
    def page(self) -> str:
        """Its page."""
        return f"series/{self.id}.html"

    @property
    def now(self) -> statistics.Interval:
        """What users get now."""
        return self.curves[-1].newest

    @property
    def word(self) -> str:
        """What is to be said of it first."""
        words = [step.word for step in self.steps]
        return next((one for one in ("confirmed slower", "suspected") if one in words), "")


def of_nights(found: PlaceDrift) -> Iterator[SeriesView]:
    """Yield the figures of a place, as its nights tell them."""
    states = tuple(_states(found.nights))
    steps = (*found.confirmed, *found.refuted, *found.suspicions)
    for trend in found.trends:
        yield _of_trend(trend, states, tuple(one for one in steps if one.figure == trend.figure))


def _states(nights: Sequence[Night]) -> Iterator[StateMark]:
    for at, (before, after) in enumerate(pairwise(nights), 1):
        told = store.changes(before.state, after.state)
        phrases = [f"{group}: {phrase}" for group, those in told.items() if group != store.CODE for phrase in those]
        if before.anchor != after.anchor:
            phrases.append(f"anchor: {before.anchor[:12]} -> {after.anchor[:12]}")
        if phrases:
            yield StateMark(at, tuple(phrases))


def _of_trend(trend: Trend, states: tuple[StateMark, ...], steps: tuple[Suspicion, ...]) -> SeriesView:
    key, nights = trend.figure, trend.nights
    values = {kind: _intervals(trend, kind) for kind in SeriesKind}
    places = {night.path: at for at, night in enumerate(nights)}
    curves = [
        Curve(_TITLES[kind], _unit(kind, key.unit), kind is SeriesKind.RATIO or key.unit in text.RATES, values[kind], tuple(
            CurveMark(places[step.after.path], step.word, step.slower) for step in steps if step.kind is kind
        ))
        for kind in SeriesKind
    ]  # fmt: skip
    return SeriesView(
        trend.place, key.label, key.subject, key.preset, key.unit, tuple(night.started for night in nights),
        tuple(night.path for night in nights), tuple(_note(night) for night in nights),
        tuple(len(night.figures.get(key, {}).get(Measured.TODAY, ())) for night in nights), tuple(curves), states, steps,
        (*trend.problems, *(one.sentence for one in trend.links)), long_term(trend),
    )  # fmt: skip


def _note(night: Night) -> str:
    return f"left out: {night.disturbed}" if night.disturbed else ""


def _unit(kind: SeriesKind, unit: str) -> str:
    return "times as fast as the anchor" if kind is SeriesKind.RATIO else text.RATES.get(unit, unit)


def _intervals(trend: Trend, kind: SeriesKind) -> tuple[statistics.Interval, ...]:
    """Return each night's value, chained as the trend is, between the bounds of the median of its launches."""
    found = []
    for night, value in zip(trend.nights, trend.values[kind].tolist(), strict=True):
        if math.isnan(value):
            found.append(_MISSING)
            continue
        own = statistics.median_interval(_samples(night.figures[trend.figure], kind))
        scale = math.exp(value) / own.median
        found.append(
            _shown(statistics.Interval(math.exp(value), own.low * scale, own.high * scale), kind, trend.figure.unit)
        )
    return tuple(found)


def _samples(sides: Mapping[Measured, tuple[float, ...]], kind: SeriesKind) -> Sequence[float]:
    """Return the seconds of the launches, or the ratios of those that ran side by side."""
    today, anchor = sides[Measured.TODAY], sides.get(Measured.ANCHOR, ())
    if kind is SeriesKind.RATIO and len(today) == len(anchor):
        return [one / other for one, other in zip(today, anchor, strict=True)]
    return anchor if kind is SeriesKind.ANCHOR else today


def _shown(seconds: statistics.Interval, kind: SeriesKind, unit: str) -> statistics.Interval:
    """Return a rate, or the speed against the anchor, where seconds or a ratio of them stand; what has no rate stays seconds."""
    if kind is SeriesKind.RATIO:
        return statistics.Interval(1 / seconds.median, 1 / seconds.high, 1 / seconds.low)
    values = [text.rate(one, unit)[0] for one in (seconds.median, seconds.low, seconds.high)]
    return statistics.Interval(values[0], min(values[1:]), max(values[1:]))
