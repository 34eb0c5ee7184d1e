"""Sweeps judged by the product's own court, then its duels: who is drained falsely, and who of the planted is found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from stackproof.extras.fleet import rules, ruling
from stackproof.extras.fleet.judge import FleetCourt
from stackproof.extras.fleet.judgement import FleetJudgement, Standing
from stackproof.record.records import Verdict
from tools.fleet_calibration import worlds
from tools.fleet_calibration.rivals import RIVALS
from tools.fleet_calibration.worlds import FleetWorld, Made

OURS, ALONE = "judge, then duels", "judge alone, beyond the family-wise limit"


@dataclass
class Tally:
    """What one rule did over all sweeps of a world."""

    sweeps: int = 0
    false: int = 0
    found: int = 0
    planted: int = 0


@dataclass
class Swept:
    """All rules over a world, and what duels it took."""

    world: FleetWorld
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    duels: int = 0
    turns: int = 0


def sweep(world: FleetWorld, times: int, seed: int) -> Swept:
    """Draw and judge so many sweeps."""
    dice, found = np.random.default_rng(seed), Swept(world)
    for _ in range(times):
        one = worlds.made(world, dice)
        for name, rival in RIVALS.items():
            _count(found.tallies[name], one, {int(host) for host in np.nonzero(rival(one.seen).any(axis=1))[0]})
        told = FleetCourt("world", worlds.answers(one), (), {}).judge()
        _count(found.tallies[ALONE], one, {_number(host.host) for host in told.hosts if host.standing is Standing.SLOW})
        _count(found.tallies[OURS], one, set(_confirmed(one, told, dice, found)))
    return found


def _count(tally: Tally, made: Made, called: set[int]) -> None:
    tally.sweeps += 1
    tally.planted += len(made.planted)
    tally.found += len(called & set(made.planted))
    tally.false += len(called - set(made.planted))


def _number(host: str) -> int:
    return int(host.removeprefix("n"))


def _confirmed(made: Made, told: FleetJudgement, dice: np.random.Generator, swept: Swept) -> Iterator[int]:
    """Put every suspicion to a duel with the hosts that are nearest to the median of that subject."""
    names, terms = [key.name for key in worlds.SUBJECTS], rules.load().duel
    for host in told.hosts:
        for finding in host.findings:
            subject = names.index(finding.subject)
            away = np.abs(made.seen[:, subject] - np.median(made.seen[:, subject]))
            partners = [int(one) for one in np.argsort(away)[: terms.partners]]
            said, turns = duel(made, _number(host.host), partners, subject, dice)
            swept.duels += 1
            swept.turns += turns
            if said is Verdict.FAILED:
                yield _number(host.host)


def duel(
    made: Made, host: int, partners: Sequence[int], subject: int, dice: np.random.Generator
) -> tuple[Verdict, int]:
    """Take turns with one partner after the other, as the product does; return what it said and how many turns there were."""
    ratios, said, terms = list[float](), Verdict.INCONCLUSIVE, rules.load().duel
    for number, partner in enumerate(partners, 1):
        ratios += worlds.turns(made, host, partner, subject, dice)(terms.turns)
        said = ruling.ruled(ratios, terms, number == len(partners)).verdict
        if said is not Verdict.INCONCLUSIVE:
            break
    return said, len(ratios)
