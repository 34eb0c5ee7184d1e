"""Series of rates: what a person reads of the history of each place - now, before, and which change made a difference.

Stored are seconds, shown are rates; here, as everywhere, "worse" is said of what people see. A flag is a hint to look: a pull
request is judged by the gate, which measures both sides in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from ..measuring.statistics import Interval, median_interval
from .entries import Entry, Key, pooled
from .identity import Place, rules
from .states import Stay, stays, subject


@dataclass(frozen=True)
class Point:
    """A figure in one state: the median of all its samples in seconds per unit, with its 95 % interval."""

    when: datetime
    commit: str
    state: str
    seconds: Interval
    because: str
    """What of the state changed since the point before."""


@dataclass(frozen=True)
class Change:
    """A difference between two neighbouring points that is larger than their noise; `share` is of the shown figure."""

    place: Place
    key: Key
    before: Point
    after: Point

    @property
    def ratio(self) -> float:
        """How many times as fast it is: below 1 is worse, whichever way the figure is shown."""
        return self.before.seconds.median / self.after.seconds.median

    @property
    def worse(self) -> bool:
        """Whether the change is for the worse."""
        return self.ratio < 1


@dataclass(frozen=True)
class Series:
    """The points of one figure at one place, oldest first; all of one version."""

    place: Place
    key: Key
    version: str
    points: tuple[Point, ...]

    @property
    def newest(self) -> Point:
        """The point that "now" is."""
        return self.points[-1]

    @property
    def last(self) -> Change | None:
        """The newest point against the one before; nothing while there is one point only."""
        return Change(self.place, self.key, *self.points[-2:]) if len(self.points) > 1 else None

    @property
    def changes(self) -> list[Change]:
        """Return every flagged step between neighbours, oldest first."""
        pairs = zip(self.points, self.points[1:])  # noqa: B905 - one shorter on purpose
        return [step for before, after in pairs if flagged(step := Change(self.place, self.key, before, after))]


@dataclass(frozen=True)
class History:
    """Everything at one place: its states in order, and its series."""

    place: Place
    stays: tuple[Stay, ...]
    series: tuple[Series, ...]

    @property
    def changes(self) -> list[Change]:
        """All flagged steps, newest first."""
        found = [step for one in self.series for step in one.changes]
        return sorted(found, key=lambda step: step.after.when, reverse=True)


def flagged(step: Change) -> bool:
    """Whether the figures differ by the share of `fixtures/history.toml` and their intervals do not overlap."""
    before, after = step.before.seconds, step.after.seconds
    apart = before.high < after.low or after.high < before.low
    return apart and abs(step.ratio - 1) >= rules().share


def span(values: Sequence[float]) -> tuple[float, float]:
    """Return the range to draw values in: theirs, or what a flag would need on both sides of the middle, so that noise looks small."""
    middle, share = median(values), rules().share
    return min(*values, middle * (1 - share)), max(*values, middle * (1 + share))


def histories(entries: Iterable[Entry]) -> list[History]:
    """Return the history of each place, in alphabetical order."""
    found = [_history(chain) for chain in stays(entries).values()]
    return sorted(found, key=lambda one: one.place.label)


def _history(chain: list[Stay]) -> History:
    points: dict[Key, list[tuple[str, Point]]] = {}
    for number, stay in enumerate(chain):
        because = subject(chain[number - 1] if number else None, stay)
        for one in pooled(stay.entries):
            point = Point(one.started, stay.state.commit, stay.state.digest[:8], median_interval(one.samples), because)
            points.setdefault(one.key, []).append((one.version, point))
    place = chain[0].place
    series = [_series(place, key, found) for key, found in sorted(points.items(), key=lambda row: _order(row[0]))]
    return History(place, tuple(chain), tuple(series))


def _series(place: Place, key: Key, found: list[tuple[str, Point]]) -> Series:
    version = found[-1][0]
    return Series(place, key, version, tuple(point for of, point in found if of == version))


def _order(key: Key) -> tuple[str, str, str]:
    return key.subject, key.preset, key.unit
