"""The cells of a gate: what every launch adds to them, and what is said of each at a look."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from stackproof.gate import changed
from stackproof.gate.changed import Sameness
from stackproof.gate.interleave import PROCESS, Conditions, Launch, Lost, Observed
from stackproof.gate.plan import Design, GatePlan
from stackproof.gate.statistics import Ruling, estimate, rule, underpowered
from stackproof.record.records import Figure

TIME = "time"
BASE, HEAD = "base", "head"
Pairs = Sequence[tuple[dict[str, int], dict[str, int]]]
"""Counters of base and head, for each launch that counted."""
_FEWEST = 3


@dataclass
class Cell:
    """One thing that is compared: a logarithm of head over base for each launch, and once it is decided, the ruling."""

    subject: str
    what: str
    effect: float
    ratios: list[float] = field(default_factory=list)
    ruling: Ruling | None = None
    aside: bool = False
    """Whether it asks for no launches of its own, and gates only where it is decided."""
    underpowered: bool = False
    """Even the maximum number of launches cannot resolve the minimum effect: it asks for no more of them."""

    @property
    def name(self) -> str:
        """The name of its check: `gate/gemm-float32::time`."""
        return f"gate/{self.subject}::{self.what}"

    @property
    def decided(self) -> bool:
        """Whether more launches would change nothing."""
        return self.ruling is not None and self.ruling.decided

    def figures(self) -> dict[str, Figure]:
        """Return what a record keeps of it; ratios are head over base, below 1 is better."""
        values: dict[str, Figure] = {"launches": len(self.ratios), "minimum effect": self.effect}
        if self.ruling is not None:
            estimate = self.ruling.estimate
            values |= {
                "ratio": math.exp(estimate.centre),
                "ratio, low": math.exp(max(estimate.low, -50.0)),
                "ratio, high": math.exp(min(estimate.high, 50.0)),
                "minimum detectable effect": math.expm1(min(estimate.visible, 50.0)),
            }
        return values | {f"launch {number}": math.exp(ratio) for number, ratio in enumerate(self.ratios)}


class ComparedCells(dict[str, Cell]):
    """What is compared, by the name of its check; all are judged together."""

    def add(self, fresh: Cell, ratio: float) -> None:
        """Append what one launch says of a cell, which may be its first word."""
        cell = self.setdefault(fresh.name, fresh)
        if not cell.decided:
            cell.ratios.append(ratio)

    def look(self, design: Design) -> None:
        """Judge all cells together; those that are decided stay as they are, and stay in the family of tests."""
        estimates = {
            name: estimate(each.ratios, design.per_look) for name, each in self.items() if len(each.ratios) >= _FEWEST
        }
        effects = {name: self[name].effect for name in estimates}
        for name, ruling in (rule(estimates, effects, design) if estimates else {}).items():
            if not (cell := self[name]).decided:
                cell.ruling = ruling
                cell.underpowered = ruling.blind and underpowered(cell.ratios, cell.effect, design)

    def open(self, alike: Collection[str] = ()) -> list[Cell]:
        """Return the cells that still ask for launches.

        `alike`: subjects that launched the same on equal software. Once half of the times are judged, one of these that noise hides
        asks for no more, unless it looks as if it had moved.
        """
        times = [cell.decided for cell in self.values() if cell.what == TIME]
        spared = set(alike) if times and 2 * sum(times) >= len(times) else set()
        asking = [cell for cell in self.values() if not (cell.decided or cell.aside or cell.underpowered)]
        return [cell for cell in asking if not (cell.subject in spared and cell.ruling and cell.ruling.calm)]


@dataclass
class Results:
    """All that was seen of both sides: cells, what was lost, and what was counted exactly."""

    plan: GatePlan
    kind: str
    """The type of device, which decides the minimum effect."""
    cells: ComparedCells = field(default_factory=ComparedCells)
    lost: dict[str, Lost] = field(default_factory=dict)
    missing: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Figures that the base has and the head has not, by the name of the check: subject, figure, reason."""
    counted: dict[str, list[tuple[dict[str, int], dict[str, int]]]] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    computed: dict[str, Sameness] = field(default_factory=dict)
    """By subject, whether both sides compute the same from equal seeds."""
    units: dict[str, str] = field(default_factory=dict)
    """By subject, in what the work that was done in the timed blocks differs; empty where it is the same to the unit."""
    same_torch: bool = True
    same_software: bool = False
    """Whether the sides have the same wheels, drivers and variables, so that equal counts mean equal work."""
    ended: str = ""
    """Why there were no more launches, where it is not that all is decided."""
    interrupted: bool = False
    """Whether it was stopped from outside; what was seen until then counts."""

    def __post_init__(self) -> None:
        self.conditions = Conditions(self.plan.conditions)

    def add(self, launch: Launch, lost: Iterable[Lost]) -> None:
        """Take over what one launch saw."""
        self.launches.append(launch)
        self.ended = f"the minutes were over in {launch.late}" if launch.late else ""
        self.lost |= {entry.subject: entry for entry in lost}
        for subject, sides in launch.seen.items():
            if BASE in sides and HEAD in sides:
                self._add_subject(subject, sides[BASE], sides[HEAD], launch.counted)

    def _add_subject(self, subject: str, base: Observed, head: Observed, counted: bool) -> None:
        """What is computed is compared in the first launch, what was done in every one, and one that differs is enough."""
        if head.blocks:
            self.cells.add(Cell(subject, TIME, self.plan.effect(subject, self.kind)), head.log_ratio(base))
        if base.computed and head.computed:
            self.computed[subject] = head.compared(base)
        if base.units or head.units:
            self.units[subject] = self.units.get(subject) or changed.units(base.units, head.units)
        for name, row in self.plan.quantities.items():
            before, after = base.quantities.get(name, 0.0), head.quantities.get(name, 0.0)
            cell = Cell(subject, name, row.effect(self.kind), aside=row.aside)
            if before > 0 and after > 0:
                self.cells.add(cell, math.log(after / before))
            elif before > 0:
                self.missing[cell.name] = (subject, name, f"the base gives {before:g} {row.unit}, the head nothing")
        if counted and base.counters:
            self.counted.setdefault(subject, []).append((base.counters, head.counters))
        for name in self.plan.count.names:
            if counted and name in base.counters and name not in head.counters:
                reason = f"the base counts {base.counters[name]}, the head nothing"
                self.missing[f"gate/{subject}::{name}"] = (subject, name, reason)

    def seen(self) -> set[str]:
        """Return the subjects whose time was measured and that are not lost."""
        return {cell.subject for cell in self.cells.values() if cell.what == TIME} - set(self.lost)

    def alike(self) -> set[str]:
        """Return the subjects that did the same on both sides, as far as it can be counted, on the same software."""
        if not self.same_software:
            return set()
        return {PROCESS, *(name for name, pairs in self.counted.items() if all(base == head for base, head in pairs))}

    def undecided(self) -> list[str]:
        """Return the subjects that still have a cell to decide, in order; a lost one is decided."""
        asking = dict.fromkeys(cell.subject for cell in self.cells.open(self.alike()))
        return [subject for subject in asking if subject not in self.lost]


def counters_of(pairs: Pairs, known: Iterable[str]) -> list[str]:
    """Return the counters that both sides gave in every launch, in the plan's order."""
    return [name for name in known if all(name in side for pair in pairs for side in pair)]
