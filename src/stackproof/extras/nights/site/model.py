"""All that the pages show, worked out once: runs, matrix, nights and series, and which runs have a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from stackproof.api.base import text
from stackproof.api.record import store
from stackproof.extras.nights.drift.findings import Drift, drift_of
from stackproof.extras.nights.site import records_index, series
from stackproof.extras.nights.site.records_index import IndexedRun, RecordsIndex
from stackproof.extras.nights.site.series import SeriesView
from stackproof.extras.nights.site.stack_status import CellState, StackMatrix, matrix

_NEWEST = 5
"""Runs of one verb at one place that have a page for being new; older ones have one if something points at them."""
_LOUD = (CellState.FAILED, CellState.STALE)


@dataclass(frozen=True)
class SiteModel:
    """What a site is about. `kept`: the runs that have a page, newest first."""

    index: RecordsIndex
    folders: tuple[Path, ...]
    matrix: StackMatrix
    drift: Drift
    views: tuple[SeriesView, ...]
    kept: Mapping[Path, IndexedRun]
    doubles: tuple[str, ...] = ()

    def shown(self, text: object) -> str:
        """Return text without the folders of this machine."""
        return records_index.shown(str(text), self.folders)

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong with the records."""
        return tuple(self.shown(one) for one in dict.fromkeys((*self.index.problems, *self.drift.problems)))

    @property
    def sentence(self) -> str:
        """What matters, in one sentence, the worst first: what is red or old, slowdowns, what was never seen on its card."""
        told = [f"{_count(number, 'suite')} {state.value}" for state in _LOUD if (number := self.matrix.count(state))]
        told.append(", ".join(self._steps()))
        never = [name for name in self.matrix.never_on_card if name not in self.doubles]
        device = f"{_count(len(never), 'stack')} never ran on {'its' if len(never) == 1 else 'their'} device"
        told.append(f"{device} ({', '.join(never)})" if never else "every stack has run on its device")
        sentence = "; ".join(told)
        return f"{sentence[0].upper()}{sentence[1:]}."

    def _steps(self) -> Iterator[str]:
        """Yield what nights tell; that no slowdown is confirmed is said only where nights of these days could have shown one."""
        slower = sum(len(one.slowdowns) for one in self.drift.places)
        suspected = sum(len(one.suspicions) for one in self.drift.places)
        newest = max((one.nights[-1].started.date() for one in self.drift.places), default=None)
        if newest is None:
            yield "no night has been measured yet, so nothing is known of slowdowns"
            return
        lacking = min(one.lacking for one in self.drift.places)
        if lacking:
            yield f"{text.counted(lacking, 'more night')} needed before a slowdown can be seen"
        else:
            earlier = sum(step.slower for one in self.drift.places for step in one.confirmed) - slower
            yield f"{_count(slower, 'confirmed slowdown')}{f' (and {earlier} earlier)' if earlier > 0 else ''}"
            yield f"{suspected or 'none'} suspected"
        lost = sum(far.clear and far.size > 0 for one in self.drift.places for far in one.long_terms)
        if lost:
            yield f"{_count(lost, 'figure')} slower than the first anchor was"
        if (self.matrix.today - newest).days > self.matrix.days:
            yield f"no night since {newest}"


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def model(
    found: RecordsIndex,
    folders: Sequence[Path],
    stacks: Sequence[str],
    suites: Sequence[str],
    today: date,
    days: int,
    doubles: Sequence[str] = (),
    nightly: Sequence[str] = (),
) -> SiteModel:
    """Return what a site of these runs shows as of a day."""
    loaded = store.dated(found.loaded(), today)
    drift = drift_of(loaded)
    views = [view for one in drift.places for view in series.of_nights(one)]
    cells = matrix(found.runs, stacks, suites, today, days, nightly)
    kept = _kept(found, cells, drift)
    return SiteModel(found, tuple(folders), cells, drift, tuple(views), kept, tuple(doubles))


def _kept(found: RecordsIndex, cells: StackMatrix, drift: Drift) -> dict[Path, IndexedRun]:
    """Return the runs that have a page: the newest of each kind, those that prove a cell, and those that steps name."""
    wanted = {cell.run.path for cell in cells.cells.values() if cell.run} | set(_named(drift))
    seen: dict[tuple[str, str, str], int] = {}
    for run in reversed(found.runs):
        kind = _kind(run)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= _NEWEST:
            wanted.add(run.path)
    return {run.path: run for run in reversed(found.runs) if run.path in wanted}


def _named(drift: Drift) -> Iterator[Path]:
    for place in drift.places:
        for step in (*place.settled, *place.suspicions):
            yield from ((step.gate.path,) if step.gate else ())
            yield from (step.before.path, step.after.path)


def _kind(run: IndexedRun) -> tuple[str, str, str]:
    facts = run.record.provenance
    return run.record.verb, run.record.stack, f"{facts.get('host')} {facts.get('rehearsed')} {facts.get('devices')}"
