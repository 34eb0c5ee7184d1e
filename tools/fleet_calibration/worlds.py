"""Synthetic fleets: hosts that differ, runs with heavy-tailed noise, a few hosts slow in one kind of work; and duels in such a world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stackproof.extras.fleet.answers import CardAnswer, FleetAnswers, HostAnswer, Replayed, SubjectKey
from stackproof.record import store
from stackproof.record.records import Verdict

SUBJECTS = tuple(
    SubjectKey(name, "tiny", "1", "s/TFLOP") for name in ("gemm", "attention", "copy", "host-link", "detector")
)
RUNS = 3
_FREEDOM = 3
"""Student's t with three degrees of freedom: a run in two hundred is beyond six usual deviations."""


@dataclass(frozen=True)
class FleetWorld:
    """So many hosts that differ by `hosts` (standard deviation), whose runs differ by `runs`; every `each`th is slow, one at least."""

    count: int
    hosts: float = 0.004
    runs: float = 0.006
    slow: float = 0.03
    each: int = 500


@dataclass(frozen=True)
class Made:
    """One sweep: what the hosts truly are (host by subject, factors), what was measured, and who is slow, with the subject."""

    world: FleetWorld
    true: np.ndarray
    seen: np.ndarray
    planted: dict[int, int]


def noise(world: FleetWorld, dice: np.random.Generator, *shape: int) -> np.ndarray:
    """Return the noise of runs, in logarithms."""
    scale = world.runs / np.sqrt(_FREEDOM / (_FREEDOM - 2))
    found: np.ndarray = scale * dice.standard_t(_FREEDOM, shape)
    return found


def made(world: FleetWorld, dice: np.random.Generator) -> Made:
    """Draw a fleet and sweep it once: the median of three runs of each subject."""
    shape = (world.count, len(SUBJECTS))
    true = dice.normal(0, world.hosts, shape)
    chosen = dice.choice(world.count, max(1, world.count // world.each), replace=False)
    planted = {int(host): int(dice.integers(len(SUBJECTS))) for host in chosen}
    for host, subject in planted.items():
        true[host, subject] += np.log1p(world.slow)
    return Made(world, true, np.median(true[..., None] + noise(world, dice, *shape, RUNS), axis=-1), planted)


def answers(sweep: Made) -> FleetAnswers:
    """Return the sweep as what hosts left, so that the product's own court judges it."""
    replayed, state = {"product-float32 normal": Replayed("00000000deadbeef", 30000, 0)}, store.State({})
    seconds = np.exp(sweep.seen)
    found = FleetAnswers()
    for number, row in enumerate(seconds):
        name = f"n{number:05}"
        card = CardAnswer(name, "0", dict(zip(SUBJECTS, map(float, row), strict=True)), replayed)
        found.hosts[name] = HostAnswer(name, "a card", state, Verdict.PASSED, "", "", 60.0, (card,))
    return found


def turns(
    sweep: Made, host: int, partner: int, subject: int, dice: np.random.Generator
) -> Callable[[int], list[float]]:
    """Return what gives so many more turns A B B A of two hosts in one subject: each is the mean of two differences of blocks."""
    gap = sweep.true[host, subject] - sweep.true[partner, subject]

    def more(count: int) -> list[float]:
        blocks = noise(sweep.world, dice, count, 4)
        return [float(one) for one in np.exp(gap + (blocks[:, 0] - blocks[:, 1] - blocks[:, 2] + blocks[:, 3]) / 2)]

    return more
