"""Made-up changes and a made-up machine: what each set of changes costs is known, and every run is noisy and drifts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

NOISE = 0.01
"""Of one launch, the logarithm of candidate over good side; half of its variance is each run's."""
DRIFT = 0.3
"""How far the machine walks from run to run, as a share of the noise of a run."""


@dataclass
class Machine:
    """A machine on which runs are made one after the other."""

    dice: random.Random
    noise: float
    drift: float = DRIFT
    level: float = 0.0
    runs: int = 0
    flaky: bool = False

    def run(self, worse: float) -> float:
        """Return the logarithm of the time of one run that is worse by so much; of a failure that comes and goes, whether it came."""
        self.runs += 1
        if self.flaky:
            return float(self.dice.random() < worse)
        self.level += self.dice.gauss(0, self.drift * self.noise)
        return self.level + worse + self.dice.gauss(0, self.noise)

    def launch(self, worse: dict[int, float]) -> dict[int, float]:
        """Run several side by side, in an order of chance."""
        return {at: self.run(worse[at]) for at in self.dice.sample(sorted(worse), len(worse))}

    def duel(self, worse: float) -> float:
        """Return the log-ratio of a candidate beside the good side."""
        seen = self.launch({0: 0.0, 1: worse})
        return seen[1] - seen[0]


@dataclass(frozen=True)
class Case:
    """What is searched. `together`: the culprits are bad only where they meet; `line`: these are commits, of which one is the first bad.

    `flaky`: it is no time but a failure, and the effect its rate.
    """

    name: str
    count: int
    culprits: int
    effect: float
    together: bool = False
    line: bool = False
    noise: float = NOISE
    flaky: bool = False

    def machine(self, dice: random.Random) -> Machine:
        """Return the machine that it runs on; half of the variance of a launch is each run's."""
        return Machine(dice, self.noise / 2**0.5, flaky=self.flaky)

    def plant(self, dice: random.Random) -> Planted:
        """Choose the culprits."""
        return Planted(self, frozenset(dice.sample(range(self.count), self.culprits)))


@dataclass(frozen=True)
class Planted:
    """A case with its culprits."""

    case: Case
    culprits: frozenset[int]

    def worse(self, units: frozenset[int]) -> float:
        """Return by how much a set of changes is slower."""
        if not self.culprits:
            return 0.0
        if self.case.together:
            return self.case.effect if self.culprits <= units else 0.0
        return self.case.effect * len(self.culprits & units) / len(self.culprits)

    def until(self, at: int) -> float:
        """Return by how much the changes up to a place are slower, taken in order; -1 is the good side."""
        return self.worse(frozenset(range(at + 1)))


@dataclass(frozen=True)
class Told:
    """What a method said: its culprits, or none, and what that took."""

    blamed: frozenset[int]
    runs: int
    launches: int = 0


Method = Callable[[Planted, Machine], Told]
CASES = (
    Case("one of 12 packages, 5 %", 12, 1, 0.05),
    Case("one of 12 packages, 5 %, twice the noise", 12, 1, 0.05, noise=2 * NOISE),
    Case("one of 40 packages, 5 %", 40, 1, 0.05),
    Case("two of 12 packages, 5 % each", 12, 2, 0.10),
    Case("two of 12 that must meet, 5 %", 12, 2, 0.05, together=True),
    Case("equal ends, 12 packages", 12, 0, 0.0),
    Case("one of 64 commits, signal-to-noise 2", 64, 1, 2 * NOISE / 2**0.5, line=True),
    Case("one of 64 commits, signal-to-noise 3", 64, 1, 3 * NOISE / 2**0.5, line=True),
    *(
        Case(f"one of 12 packages, a failure in {rate} % of runs", 12, 1, rate / 100, flaky=True)
        for rate in (100, 60, 30, 20)
    ),
)
