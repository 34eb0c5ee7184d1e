"""What the product does every night, on many series at once: the scan, and for each suspicion a gate drawn from launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stackproof.extras.nights.drift.rules import rules
from stackproof.extras.nights.drift.scan import scan
from stackproof.gate.statistics import Design, estimate, rule
from stackproof.record.records import CellWord
from tools.drift_calibration.worlds import Array, World

AGAIN = 5
"""A gate that could not say is asked again after so many nights."""


@dataclass
class Watched:
    """What was seen, by series: nights of first suspicions of an episode and of what was told, as numbers of the column; gates that ran."""

    suspected: list[list[int]] = field(default_factory=list)
    told: list[list[int]] = field(default_factory=list)
    gates: int = 0


def watch(world: World, planted: Array, start: int, dice: np.random.Generator) -> Watched:
    """Look at every night from `start` on as the product does.

    Args:
        world: quiet series and launches.
        planted: what is added to them, and what a gate of both states sees of it.
        start: the first night that is looked at.
        dice: for the gates.
    """
    values, rows = world.quiet + planted, range(len(planted))
    found = Watched([[] for _ in rows], [[] for _ in rows])
    asleep = np.zeros(len(planted), int)
    before = np.zeros(len(planted), bool)
    for night in range(start, values.shape[1]):
        steps = scan(values[:, : night + 1], rules().scan)
        tonight = steps.suspected & ~np.isnan(values[:, night])
        for row in map(int, np.flatnonzero(tonight & (asleep <= night))):
            if not before[row]:
                found.suspected[row].append(night)
            there = np.flatnonzero(~np.isnan(values[row, : night + 1]))
            split, last = int(there[-steps.after[row]]), int(there[-steps.after[row] - 1])
            found.gates += 1
            low, high = gate(world, float(planted[row, night] - planted[row, last]), dice)
            asleep[row] = night + AGAIN
            _settle(values[row], (split, night), float(steps.size[row]), (low, high), found.told[row], asleep, row)
        before = np.where(~np.isnan(values[:, night]), tonight, before)
    return found


def _settle(
    row: Array, span: tuple[int, int], size: float, seen: tuple[float, float], told: list[int], asleep: np.ndarray, number: int
) -> None:  # fmt: skip
    """Leave out what the product leaves out (`nights.drift.verdicts`): before a confirmed step, or a refuted one's nights."""
    side, (split, night), (low, high) = (1 if size > 0 else -1), span, seen
    nearest, farthest = (low, high) if side > 0 else (-high, -low)
    if nearest > 0:
        told.append(night)
        row[:split] = np.nan
    elif farthest < abs(size) / 2:
        asleep[number] = night
        if night + 1 - split >= rules().refuted.nights:
            row[:split] = np.nan
        else:
            row[split : night + 1] = np.nan


def gate(world: World, effect: float, dice: np.random.Generator) -> tuple[float, float]:
    """Return the interval of log(head / base) of a gate of one subject, by the gate's own statistics and looks."""
    design = Design()
    launches = dice.choice(world.launches, design.looks[-1]) + effect
    for look in design.looks:
        known = estimate(list(launches[:look]), design.per_look)
        if rule({"time": known}, {"time": world.effect}, design)["time"].outcome is not CellWord.INCONCLUSIVE:
            break
    return known.low, known.high


Rival = Callable[[Array], list[int]]
"""Takes the nights of one series so far (no NaN, positive times) and returns where it sees steps, as numbers of nights."""


def alarms(rival: Rival, values: Array, start: int) -> list[list[int]]:
    """Return for each series the nights on which a rival first tells of a step; one that moves by up to five nights is the same step."""
    return [_alarms(rival, row, start) for row in values]


def _alarms(rival: Rival, row: Array, start: int) -> list[int]:
    told, seen = list[int](), list[int]()
    for night in range(start, len(row)):
        if math.isnan(row[night]):
            continue
        there = np.flatnonzero(~np.isnan(row[: night + 1]))
        places = [int(there[min(max(place, 0), len(there) - 1)]) for place in rival(np.exp(row[there]))]
        fresh = [place for place in places if place >= night - 30 and all(abs(place - old) > 5 for old in seen)]
        if fresh:
            told.append(night)
            seen += fresh
    return told


def within(nights: Sequence[Sequence[int]], planted: int, most: int = 30) -> list[int]:
    """Return after how many nights each series was told of a planted step, 1 for the first; those that were not are left out."""
    found = [next((night - planted + 1 for night in row if planted <= night < planted + most), 0) for row in nights]
    return [one for one in found if one]
