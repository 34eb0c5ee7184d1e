"""What is trained to show convergence: the table `fixtures/convergence.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import ROOT
from ..tables import Table

TABLE = ROOT / "fixtures" / "convergence.toml"


@dataclass(frozen=True)
class Course:
    """A short training of a workload: its steps, and the share of the first loss that the last must be under.

    `whole_batch`: whether the mean of the ranks' gradients is the gradient of the global batch.
    """

    workload: str
    steps: int
    falls_to: float
    whole_batch: bool


@dataclass(frozen=True)
class Trial:
    """The equivalence test: trainings from so many seeds, and the margin of the final loss, which is in the loss's own unit."""

    workload: str
    seeds: int
    scale: int
    epochs: int
    alpha: float
    margin: float


@dataclass(frozen=True)
class Plan:
    """The whole table."""

    courses: tuple[Course, ...]
    trial: Trial

    def course(self, workload: str) -> Course:
        """Return the course of a workload that the table has."""
        return next(course for course in self.courses if course.workload == workload)


@cache
def plan(path: Path = TABLE) -> Plan:
    """Load the table once; each row says why it is as it is."""
    with Table.load(path) as table:
        courses = tuple(_course(row) for row in table.tables("course"))
        trial = _trial(table.table("equivalence"))
    return Plan(courses, trial)


def _course(table: Table) -> Course:
    with table as row:
        row.take("reason", str)
        return Course(
            row.take("workload", str),
            row.take("steps", int),
            row.take("falls_to", float),
            row.take("whole_batch", bool),
        )


def _trial(table: Table) -> Trial:
    with table as row:
        row.take("reason", str)
        found = Trial(
            row.take("workload", str),
            row.take("seeds", int),
            row.take("scale", int),
            row.take("epochs", int),
            row.take("alpha", float),
            row.take("margin", float),
        )
    if found.seeds < 8:
        raise table.refuse("seeds", f"is {found.seeds}; eight at least say something about the next one")
    return found
