"""Reference figures: what users measured by hand before there was stackproof, kept as tables with device, pins and source.

They are shown beside measured figures and never mixed with them: nobody verified the work that they timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from stackproof.base.places import REFERENCE
from stackproof.base.text import RATES, matches
from stackproof.base.toml import Key, OneOf, Table, Wrong

FOLDER = REFERENCE
_STORED = {shown: stored for stored, shown in RATES.items()}
_UNITS = (*RATES, *_STORED, "s")


@dataclass(frozen=True)
class ReferenceSource:
    """Who reported figures, of what."""

    title: str
    stack: str
    device: str
    source: str
    pins: Mapping[str, str]
    conditions: Mapping[str, str]


@dataclass(frozen=True)
class Reference:
    """One figure that somebody reported: seconds per unit of work, of one workload on all its ranks together."""

    of: ReferenceSource
    subjects: tuple[str, ...]
    """Patterns of the names of subjects that do the same work, whatever their number of ranks."""
    preset: Literal["tiny", "full"]
    ranks: int
    value: float
    reported: Annotated[str, OneOf(_UNITS), Key("unit")]

    def __post_init__(self) -> None:
        if not self.value > 0 or self.ranks < 1:
            raise Wrong("value", f"is {self.value} on {self.ranks} ranks; both must be above 0")

    @property
    def unit(self) -> str:
        """The unit as records store it: seconds per thing, where a rate was reported."""
        return _STORED.get(self.reported, self.reported)

    @property
    def seconds(self) -> float:
        return 1 / self.value if self.reported in _STORED else self.value

    def fits(self, subject: str, preset: str) -> bool:
        return preset == self.preset and matches(subject, self.subjects)


def find(subject: str, preset: str, unit: str) -> tuple[Reference, ...]:
    """Return the reference figures of a subject: those in the same stored unit, else in whatever unit they were reported."""
    references = tuple(row for row in load_all() if row.fits(subject, preset))
    return tuple(row for row in references if row.unit == unit) or references


@cache
def load_all(folder: Path = FOLDER) -> tuple[Reference, ...]:
    """Return every reference figure, in the order of files and rows."""
    return tuple(row for path in sorted(folder.glob("*.toml")) for row in load(path))


def load(path: Path) -> tuple[Reference, ...]:
    """Return the figures of one file; refuse what is missing, misspelt or of an unknown unit."""
    table = Table.load(path)
    rows = table.tables("figure")
    source = table.row(ReferenceSource)
    return tuple(row.row(Reference, of=source) for row in rows)
