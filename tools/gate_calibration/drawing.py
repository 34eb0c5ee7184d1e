"""Gates drawn from the launches of a calibration: many more than anybody waits for, judged by the gate's own code.

A gate that ran needs minutes; what it does with its launches needs none. The launches of gates with equal sides are a pool, and a
drawn gate is some of them in a random order, without putting back. Adding a loss to the head's seconds is what a spin does, without
what it costs. Drawn gates share launches, so they are not independent: they show the shape, and the gates that ran prove it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from stackproof.gate.cells import TIME, Cell, Results
from stackproof.gate.plan import GatePlan
from stackproof.gate.statistics import paired
from stackproof.record.records import CellWord
from tools.gate_calibration.calibrate import Trial

SEED = 7
Launch = dict[str, float]
"""The log-ratio of each subject's time in one launch."""


@dataclass(frozen=True)
class Drawn:
    """What so many drawn gates with a loss of this share said, as shares of them."""

    worse: float
    gates: int
    failed: float
    unsure: float


def pool(trials: Sequence[Trial], first: int) -> list[Launch]:
    """Return the first so many launches of each gate: all subjects are in them, whatever was decided later."""
    return [
        {subject: paired(sides["base"][number], sides["head"][number]) for subject, sides in trial.data.items()}
        for trial in trials
        for number in range(min(first, trial.launches))
    ]


def draw(launches: Sequence[Launch], worse: float, plan: GatePlan, kind: str, gates: int) -> Drawn:
    """Draw so many gates with this loss added to the head.

    Args:
        launches: the pool; it must hold a whole gate.
        worse: the share by which the head is longer.
        plan: what is promised: looks, error, minimum effects.
        kind: the type of device, which decides the minimum effect.
        gates: how many.
    """
    dice = random.Random(SEED)
    said = [
        _gate(dice.sample(list(launches), plan.design.looks[-1]), math.log1p(worse), plan, kind) for _ in range(gates)
    ]
    failed = sum(CellWord.SLOWER in one for one in said)
    unsure = sum(CellWord.SLOWER not in one and CellWord.INCONCLUSIVE in one for one in said)
    return Drawn(worse, gates, failed / gates, unsure / gates)


def _gate(launches: Sequence[Launch], loss: float, plan: GatePlan, kind: str) -> list[CellWord]:
    """Return what is said of each subject's time at the last look that it needs."""
    results, seen = Results(plan, kind), 0
    cells = {subject: Cell(subject, TIME, plan.effect(subject, kind)) for subject in launches[0]}
    results.cells |= {cell.name: cell for cell in cells.values()}
    for look in plan.design.looks:
        for launch in launches[seen:look]:
            for subject, cell in cells.items():
                if not cell.decided:
                    cell.ratios.append(launch[subject] + loss)
        results.cells.look(plan.design)
        seen = look
        if not results.undecided():
            break
    return [cell.ruling.outcome for cell in cells.values() if cell.ruling is not None]
