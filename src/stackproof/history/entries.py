"""Entries: what a record adds to histories - a place, a state, a commit, and figures that have a version."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..records import Measurement, Record, Verdict
from .identity import Place, State, place, state

_LOCAL_CHANGES = " (with local changes)"


@dataclass(frozen=True)
class Key:
    """What is measured: figures of different keys have nothing to do with each other."""

    subject: str
    preset: str
    unit: str


@dataclass(frozen=True)
class Entry:
    """The figures of one run in one state of one place."""

    place: Place
    state: State
    started: datetime
    figures: Mapping[Key, Measurement]

    @property
    def commit(self) -> str:
        """The commit, or "" where the code had local changes or was of no repository: nobody can go back to that."""
        commit = self.state.commit
        return "" if commit == "unknown" or commit.endswith(_LOCAL_CHANGES) else commit


@dataclass(frozen=True)
class Pooled:
    """The samples of one figure over all runs of one state, in seconds per unit and in the order they were taken."""

    key: Key
    version: str
    samples: tuple[float, ...]
    started: datetime


def entry(record: Record) -> Entry | None:
    """Return what a record adds; nothing if none of its figures has a version.

    A subject may be told in several units, which are multiples of each other: the first is the one with a history.
    """
    figures: dict[Key, Measurement] = {}
    seen = set()
    for row in record.measurements:
        if row.version and (row.workload, row.preset) not in seen and _usable(row):
            seen.add((row.workload, row.preset))
            figures[Key(row.workload, row.preset, row.unit)] = row
    if not figures:
        return None
    facts = record.provenance
    return Entry(place(facts), state(facts), datetime.fromisoformat(record.started), figures)


def entries(records: Mapping[Path, Record]) -> list[Entry]:
    """Return what these records add, in the order in which they were started.

    A run in which some benchmarks failed counts: each figure was verified before it was taken.
    """
    found = [one for record in records.values() if record.verdict is not Verdict.MISMATCHED and (one := entry(record))]
    return sorted(found, key=lambda one: one.started)


def pooled(group: Iterable[Entry]) -> list[Pooled]:
    """Return each figure of a group of entries with all its samples; of several versions only the latest counts."""
    rows: dict[Key, list[tuple[datetime, Measurement]]] = {}
    for one in group:
        for key, row in one.figures.items():
            rows.setdefault(key, []).append((one.started, row))
    return [_pool(key, found) for key, found in rows.items()]


def _pool(key: Key, found: list[tuple[datetime, Measurement]]) -> Pooled:
    version = found[-1][1].version
    samples = tuple(sample for _, row in found if row.version == version for sample in row.samples)
    return Pooled(key, version, samples, found[-1][0])


def _usable(row: Measurement) -> bool:
    """A word for a number (nan, inf) is a finding of its run, no point of a history."""
    return all(math.isfinite(sample) and sample > 0 for sample in row.samples)
