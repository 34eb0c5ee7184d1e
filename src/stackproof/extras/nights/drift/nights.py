"""A night as its record tells it: today's side and the frozen one, measured in turns, and in which state the stack was.

A night is a record of the verb `night`. Its measurements are rows of one side each, `figures["side"]`; only today's have a version, so
that the record serves as `gate --base-record` too. Its provenance says which anchor it was, and what disturbed the night.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any

from stackproof.api.record import Measurement, Record, store

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
        """Return it as a row of a record; who writes a night writes its figures so."""
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
