"""The cells of a gate: what every launch adds to them, and what is said of each at a look."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..records import Figure
from .duel import Launch, Lost
from .judging import Design, Outcome, Ruling, paired, percent, rule
from .plan import GatePlan

TIME = "time"


@dataclass
class Cell:
    """One thing that is compared: its log-ratios, one a launch, and once it is decided, the ruling."""

    subject: str
    what: str
    effect: float
    ratios: list[float] = field(default_factory=list)
    ruling: Ruling | None = None

    @property
    def name(self) -> str:
        """The name of its check: `gate/gemm-float32::time`."""
        return f"gate/{self.subject}::{self.what}"

    def figures(self) -> dict[str, Figure]:
        """Return what a record keeps of it; ratios are head over base, below 1 is better."""
        found: dict[str, Figure] = {"launches": len(self.ratios), "minimum effect": self.effect}
        if self.ruling is not None:
            one = self.ruling.estimate
            found |= {
                "ratio": math.exp(one.centre),
                "ratio, low": math.exp(one.low),
                "ratio, high": math.exp(one.high),
                "minimum detectable effect": math.expm1(min(one.visible, 50.0)),
            }
        return found | {f"launch {number}": math.exp(ratio) for number, ratio in enumerate(self.ratios)}


@dataclass
class Board:
    """All cells, what was lost, and what was counted exactly."""

    plan: GatePlan
    kind: str
    """The type of device, which decides the minimum effect."""
    cells: dict[str, Cell] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    counted: dict[str, list[tuple[dict[str, int], dict[str, int]]]] = field(default_factory=dict)
    proved: dict[str, str] = field(default_factory=dict)
    launches: int = 0
    facts: dict[str, Figure] = field(default_factory=dict)
    same_torch: bool = True

    def add(self, launch: Launch, lost: list[Lost]) -> None:
        """Take over what one launch saw."""
        self.launches += 1
        self.lost |= {one.subject: one for one in lost}
        self.proved |= launch.proved
        for subject in launch.base:
            effect = self.plan.effect(subject, self.kind)
            self._append(subject, TIME, effect, paired(launch.base[subject], launch.head[subject]))
        for subject, counters in launch.counters.items():
            self.counted.setdefault(subject, []).append(counters)
        self._add_quantities(launch)
        self._add_facts(launch)

    def _add_facts(self, launch: Launch) -> None:
        """Keep what the sides said of themselves."""
        base, head = launch.facts
        self.same_torch = base.get("torch") == head.get("torch")
        for side, facts in (("base", base), ("head", head)):
            self.facts |= {
                f"{side}.{name}": str(facts[name]) for name in ("torch", "device", "name", "driver") if name in facts
            }

    def _add_quantities(self, launch: Launch) -> None:
        effects = {quantity.name: quantity.effect for quantity in self.plan.quantities}
        for subject, (before, after) in launch.memory.items():
            if before > 0 and after > 0:
                self._append(subject, "peak-memory", effects["peak-memory"], math.log(after / before))
        if all(map(math.isfinite, launch.start_up)):
            self._append("process", "start-up", effects["start-up"], math.log(launch.start_up[1] / launch.start_up[0]))

    def _append(self, subject: str, what: str, effect: float, ratio: float) -> None:
        cell = self.cells.setdefault(f"{subject}::{what}", Cell(subject, what, effect))
        if cell.ruling is None or not cell.ruling.decided:
            cell.ratios.append(ratio)

    def look(self, design: Design) -> None:
        """Judge all cells together; those that are decided stay as they are, and stay in the family of tests."""
        whole = {name: cell for name, cell in self.cells.items() if len(cell.ratios) >= min(design.looks)}
        if not whole:
            return
        found = rule(
            {name: cell.ratios for name, cell in whole.items()},
            {name: cell.effect for name, cell in whole.items()},
            design,
        )
        for name, ruling in found.items():
            cell = whole[name]
            if cell.ruling is None or not cell.ruling.decided:
                cell.ruling = ruling

    def undecided(self) -> list[str]:
        """Return the subjects that still have a cell to decide, in order; a lost one is decided."""
        open_ = [cell.subject for cell in self.cells.values() if cell.ruling is None or not cell.ruling.decided]
        return [subject for subject in dict.fromkeys(open_) if subject not in self.lost]

    def disturbed(self, reason: str, forgive: Callable[[dict[str, Ruling], str], dict[str, Ruling]]) -> None:
        """Take every decision back: the machine changed while they were measured."""
        kept = forgive({name: cell.ruling for name, cell in self.cells.items() if cell.ruling is not None}, reason)
        for name, ruling in kept.items():
            self.cells[name].ruling = ruling


def counter_change(pairs: list[tuple[dict[str, int], dict[str, int]]], counter: str) -> tuple[Outcome, str]:
    """Compare one exact counter over all launches; one that varies by itself proves nothing and says so."""
    base, head = ({pair[side].get(counter, -1) for pair in pairs} for side in (0, 1))
    if len(base) > 1 or len(head) > 1:
        return Outcome.INCONCLUSIVE, f"it varies by itself: base {sorted(base)}, head {sorted(head)}"
    before, after = base.pop(), head.pop()
    if before == after:
        return Outcome.SAME, f"{before} on both sides"
    share = percent(math.log(after / before)) if before > 0 and after > 0 else "not comparable"
    return (Outcome.SLOWER if after > before else Outcome.FASTER), f"{before} -> {after} ({share})"


def counters_of(pairs: list[tuple[dict[str, int], dict[str, int]]], known: Mapping[str, str]) -> list[str]:
    """Return the counters that both sides gave in every launch, in the plan's order."""
    return [name for name in known if all(name in side for pair in pairs for side in pair)]
