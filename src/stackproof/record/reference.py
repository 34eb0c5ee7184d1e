"""Reference figures: what users measured by hand before there was stackproof, kept as tables with device, pins and source.

They are shown beside measured figures and never mixed with them: nobody verified the work that they timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from stackproof import ROOT
from stackproof.base.toml import Table
from stackproof.base.units import RATES

FOLDER = ROOT / "results" / "reference"
_STORED = {shown: stored for stored, shown in RATES.items()}
_UNITS = (*RATES, *_STORED, "s")


@dataclass(frozen=True)
class Reference:
    """One figure that somebody reported: seconds per unit of work, of one workload on all its ranks together."""

    title: str
    stack: str
    device: str
    source: str
    pins: Mapping[str, str]
    conditions: Mapping[str, str]
    subjects: tuple[str, ...]
    """Patterns of the names of subjects that do the same work, whatever their number of ranks."""
    preset: str
    ranks: int
    seconds: float
    unit: str

    def fits(self, subject: str, preset: str) -> bool:
        """Whether the figure is of this work."""
        return preset == self.preset and any(fnmatchcase(subject, pattern) for pattern in self.subjects)


def find(subject: str, preset: str, unit: str) -> tuple[Reference, ...]:
    """Return the reference figures of a subject: those in the same stored unit, else in whatever unit they were reported."""
    found = tuple(row for row in load_all() if row.fits(subject, preset))
    return tuple(row for row in found if row.unit == unit) or found


@cache
def load_all(folder: Path = FOLDER) -> tuple[Reference, ...]:
    """Return every reference figure, in the order of files and rows."""
    return tuple(row for path in sorted(folder.glob("*.toml")) for row in load(path))


def load(path: Path) -> tuple[Reference, ...]:
    """Return the figures of one file; refuse what is missing, misspelt or of an unknown unit."""
    with Table.load(path) as table:
        title, stack = table.take("title", str), table.take("stack", str)
        device, source = table.take("device", str), table.take("source", str)
        pins, conditions = table.mapping("pins"), table.mapping("conditions")
        rows = [_figure(row) for row in table.tables("figure")]
    return tuple(Reference(title, stack, device, source, pins, conditions, *row) for row in rows)


def _figure(table: Table) -> tuple[tuple[str, ...], str, int, float, str]:
    with table:
        subjects, preset = table.strings("subjects"), table.take("preset", str, allowed=("tiny", "full"))
        ranks, value = table.take("ranks", int), table.take("value", float)
        unit = table.take("unit", str, allowed=_UNITS)
    if not value > 0 or ranks < 1:
        raise table.refuse("value", f"is {value} on {ranks} ranks; both must be above 0")
    return (subjects, preset, ranks, *((1 / value, _STORED[unit]) if unit in _STORED else (value, unit)))
