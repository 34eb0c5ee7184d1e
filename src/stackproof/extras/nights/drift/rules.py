"""The table of nights (`data/drift.toml`): what the scan looks at, how anchors are chained, and the truth table of causes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from stackproof.api.base import places, toml
from stackproof.api.record import store
from stackproof.extras.nights.drift.scan import ScanRules

FILE = places.DATA / "drift.toml"


class Cause(str, Enum):
    """Who to ask."""

    CODE = "code"
    WHEELS = "wheels"
    DRIVER = "driver"
    MACHINE = "machine"
    UNKNOWN = "unknown"


class SeriesKind(str, Enum):
    """What of a figure is followed: today over the anchor, the anchor alone, and what users get."""

    RATIO = "ratio"
    ANCHOR = "anchor"
    RAW = "raw"


@dataclass(frozen=True)
class CauseRow:
    """One row of the truth table."""

    moved: tuple[SeriesKind, ...]
    changed: tuple[Cause, ...]
    causes: tuple[Cause, ...]
    why: str


@dataclass(frozen=True)
class _Moved:
    score: float


@dataclass(frozen=True)
class _Nights:
    nights: int


@dataclass(frozen=True)
class DriftRules:
    """The whole table."""

    scan: ScanRules
    moved: _Moved
    chain: _Nights
    refuted: _Nights
    told: _Nights
    groups: Mapping[str, tuple[str, ...]]
    cause: tuple[CauseRow, ...]

    def changed(self, before: store.State, after: store.State) -> frozenset[Cause]:
        """Return which classes of causes differ between two states."""
        groups = store.changes(before, after)
        return frozenset(Cause(name) for name, members in self.groups.items() if any(one in groups for one in members))

    def blame(self, moved: Collection[SeriesKind], changed: Collection[Cause]) -> CauseRow:
        """Return the row of the truth table for the series that moved and the classes that changed; `raw` decides nothing."""
        parts = {kind for kind in moved if kind is not SeriesKind.RAW}
        return next(row for row in self.cause if set(row.moved) == parts and set(row.changed) <= set(changed))


@cache
def rules() -> DriftRules:
    """Load the table."""
    return toml.Table.load(FILE).row(DriftRules)
