"""What a calibration plants, and how often: `doses.toml` beside this module, read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stackproof.base.toml import Table

FILE = Path(__file__).with_name("doses.toml")


@dataclass(frozen=True)
class Dose:
    """One kind of gate: equal sides, or a fault of a size."""

    name: str
    drill: str
    gates: int
    worse: float | None
    """The share that is planted; None where only measuring tells."""


@dataclass(frozen=True)
class Calibration:
    """All doses, on which subjects and how long one gate may take."""

    subjects: tuple[str, ...]
    minutes: float
    doses: tuple[Dose, ...]


@cache
def load() -> Calibration:
    """Return what is declared; a slip in the file is refused by key."""
    with Table.load(FILE) as table:
        with table.table("calibration") as row:
            subjects, minutes = row.strings("subjects"), row.take("minutes", float)
        return Calibration(subjects, minutes, tuple(map(_dose, table.tables("dose"))))


def _dose(row: Table) -> Dose:
    with row:
        worse = row.take("worse", float, -1.0)
        return Dose(
            row.take("name", str), row.take("drill", str), row.take("gates", int), worse if worse >= 0 else None
        )
