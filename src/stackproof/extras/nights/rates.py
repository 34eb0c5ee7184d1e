"""The history as rates: the points of each figure at each place, which neighbours differ, and both as a table.

Stored are seconds, shown are rates, and "worse" is said of what people see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from stackproof.api.base import advice, processes, statistics, text
from stackproof.api.record import outline, store
from stackproof.api.runs import timeline

_MOST_CHANGES = 10
_HEADS = ("what", "preset", "now", "±", "since before")


@dataclass(frozen=True)
class Point:
    """A figure in one state: the median of all its samples in seconds per unit, with its 95 % interval."""

    when: datetime
    seconds: statistics.Interval
    because: str
    """What of the state changed since the point before."""
    busy: bool = False
    """Whether others used the host whenever it was measured."""


@dataclass(frozen=True)
class Change:
    """What lies between two neighbouring points of a series."""

    key: timeline.SeriesKey
    before: Point
    after: Point

    @property
    def ratio(self) -> float:
        """How many times as fast it is: below 1 is worse, whichever way the figure is shown."""
        return self.before.seconds.median / self.after.seconds.median

    @property
    def busy(self) -> bool:
        """Whether others used the host while one of the two was measured."""
        return self.before.busy or self.after.busy

    @property
    def worse(self) -> bool:
        return self.ratio < 1

    @property
    def flagged(self) -> bool:
        """Whether the figures differ by the share of `data/history.toml` and their intervals do not overlap.

        A flag is a hint to look: a pull request is judged by the gate, which measures both sides in turn. What was measured on a busy
        host is no hint: it says how busy the host was.
        """
        before, after = self.before.seconds, self.after.seconds
        apart = before.high < after.low or after.high < before.low
        return not self.busy and apart and abs(self.ratio - 1) >= store.rules().share


@dataclass(frozen=True)
class Series:
    """The points of one figure at one place, oldest first; all of one version."""

    key: timeline.SeriesKey
    version: str
    points: tuple[Point, ...]

    @property
    def steps(self) -> list[Change]:
        """What lies between each two neighbours, oldest first; nothing while there is one point only."""
        return [Change(self.key, before, after) for before, after in pairwise(self.points)]


@dataclass(frozen=True)
class History:
    """Everything at one place: its states in order, and its series."""

    place: store.Place
    stays: tuple[timeline.Stay, ...]
    series: tuple[Series, ...]

    @property
    def changes(self) -> list[Change]:
        """All flagged steps, newest first."""
        steps = [step for series in self.series for step in series.steps if step.flagged]
        return sorted(steps, key=lambda step: step.after.when, reverse=True)


def histories(entries: Iterable[timeline.Entry]) -> list[History]:
    """Return the history of each place, in alphabetical order."""
    return sorted(map(_history, timeline.stays(entries).values()), key=lambda history: history.place.label)


def _history(chain: list[timeline.Stay]) -> History:
    points: dict[timeline.SeriesKey, list[tuple[str, Point]]] = {}
    for number, stay in enumerate(chain):
        because = timeline.subject(chain[number - 1] if number else None, stay)
        for pool in timeline.pooled(stay.entries):
            point = Point(pool.started, statistics.median_interval(pool.samples), because, pool.busy)
            points.setdefault(pool.key, []).append((pool.version, point))
    series = []
    for key, pairs in sorted(points.items(), key=lambda row: (row[0].subject, row[0].preset, row[0].unit)):
        version = pairs[-1][0]
        series.append(Series(key, version, tuple(point for of, point in pairs if of == version)))
    return History(chain[0].place, tuple(chain), tuple(series))


def parts(histories: Sequence[History], stack: str = "NAME") -> Iterator[outline.Part]:
    """Yield a table of each place, and its changes; `stack`: the one that was asked for."""
    for history in histories:
        title = f"{history.place.label}: {text.counted(len(history.stays), 'state')}"
        yield outline.TextTable(_HEADS, [_row(series) for series in history.series], title, right=(2, 3, 4), wide=(0,))
        for step in history.changes[:_MOST_CHANGES]:
            yield outline.TextLine(outline.Span(_sentence(step), "red" if step.worse else "green"))
    if not histories:
        yield outline.TextLine(f"there are no figures yet; `{advice.command(stack, 'bench')}` makes some")


def _row(series: Series) -> tuple[outline.Cell, ...]:
    unit, newest = series.key.unit, series.points[-1].seconds
    return (
        series.key.subject,
        outline.Span(series.key.preset, "dim"),
        text.shown(newest.median, unit),
        outline.Span(f"{newest.relative:.1%}", "dim"),
        _moved(series.steps),
    )


def _moved(steps: Sequence[Change]) -> outline.Span:
    if not steps:
        return outline.Span("first", "dim")
    step = steps[-1]
    style = ("bold red" if step.worse else "green") if step.flagged else "dim"
    return outline.Span(f"{step.ratio - 1:+.1%}{f' ({processes.BUSY})' if step.busy else ''}", style)


def _sentence(step: Change) -> str:
    before, after = (text.shown(point.seconds.median, step.key.unit) for point in (step.before, step.after))
    word = "worse" if step.worse else "better"
    figure = f"{step.key.subject} ({step.key.preset}): {before} -> {after}"
    return f"{step.after.when:%Y-%m-%d}  {step.ratio - 1:+.1%} {word}  {figure}; {step.after.because}"
