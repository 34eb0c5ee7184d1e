"""What is said of a fleet, as it stands in a file: strictly read, so that a page or another host can be made from it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, Table, files

SCHEMA = "stackproof.extras.fleet/1"
NAME = "judgement.fleet.json"
_MOST_BYTES = 256 << 20
LIMITLESS = 999.0
"""The z of a group that is too small for one to be called slow."""


class Standing(str, Enum):
    """What a host is called. Only `proved` is green."""

    PROVED = "proved"
    SUSPECTED = "suspected"
    SLOW = "slow"
    WRONG = "wrong"
    INCOMPLETE = "incomplete"
    """It did not do all that the plan wants."""
    UNLIKE = "unlike"
    UNDECIDED = "undecided"
    """Nothing is odd about it, but its group is too small, or does not agree with itself, so that this says nothing."""
    NOT_REACHED = "not reached"


GRAVEST = (
    Standing.WRONG, Standing.SLOW, Standing.NOT_REACHED, Standing.INCOMPLETE, Standing.UNLIKE, Standing.SUSPECTED, Standing.UNDECIDED,
    Standing.PROVED,
)  # fmt: skip
BAD = (Standing.WRONG, Standing.SLOW)


@dataclass(frozen=True)
class FleetFinding:
    """One thing that is odd about a card of a host."""

    standing: Standing
    card: str
    subject: str
    sentence: str
    ratio: float = 1.0
    """Seconds over the median's; 1 where it is not about speed."""
    z: float = 0.0


@dataclass(frozen=True)
class HostStanding:
    """One host: its word, why, and what is odd."""

    host: str
    standing: Standing
    group: str
    reason: str
    findings: tuple[FleetFinding, ...] = ()


@dataclass(frozen=True)
class Strip:
    """One subject over a group: each card's seconds over the median's in the order of the group's cards, 0 where it has none."""

    subject: str
    unit: str
    median: float
    spread: float
    ratios: tuple[float, ...]
    split: bool = False
    """Whether there seem to be two populations, of which none is a defect."""


@dataclass(frozen=True)
class GroupTold:
    """Hosts of one state, which are compared with each other only."""

    name: str
    architecture: str
    differs: str
    """What sets it apart from the largest group of its architecture."""
    hosts: int
    limit: float
    """The z beyond which one is slow, and not only suspected."""
    cards: tuple[str, ...]
    strips: tuple[Strip, ...]
    kernels: int
    products: int


@dataclass(frozen=True)
class FleetJudgement:
    """The whole fleet."""

    schema: str
    fleet: str
    judged: str
    minutes: float
    """What the sweep cost a host, as the median."""
    longest: float
    hosts: tuple[HostStanding, ...]
    groups: tuple[GroupTold, ...]
    notes: tuple[str, ...]
    stack: str = ""
    """That of the plan; empty where there is none."""

    @property
    def counts(self) -> dict[Standing, int]:
        """Return how many hosts there are of each word, the gravest first."""
        found = Counter(one.standing for one in self.hosts)
        return {word: found[word] for word in GRAVEST if found[word]}

    @property
    def exit_code(self) -> int:
        """1 where a host is slow or wrong, 6 where any is not proved or there is none, 0 where all are."""
        if any(one in self.counts for one in BAD):
            return 1
        return 0 if list(self.counts) == [Standing.PROVED] else 6

    @property
    def headline(self) -> str:
        """Return one sentence of all."""
        said = ", ".join(f"{count} {word.value}" for word, count in self.counts.items())
        return f"{self.fleet}: {len(self.hosts)} host{'' if len(self.hosts) == 1 else 's'}: {said or 'none'}"


def as_json(found: FleetJudgement) -> str:
    """Return one JSON object."""
    return json.dumps(dataclasses.asdict(found), indent=None, ensure_ascii=True, allow_nan=False, default=str) + "\n"


def _without_duels(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out what judgements said until November 2026 of duels and of links between pairs of hosts."""
    return {name: value for name, value in row.items() if name not in ("duel", "links")}


def read(path: Path) -> FleetJudgement:
    """Read a judgement from its file.

    Raises:
        Refusal: it is none, or is damaged.
    """
    remedy = "make it with `stackproof fleet judge`"
    if why := files.why_unreadable(path, _MOST_BYTES):
        raise Refusal(f"{path}: {why}; {remedy}")
    try:
        found: Any = json.loads(path.read_bytes(), object_hook=_without_duels)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{path}: is damaged or cut short; {remedy}") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise Refusal(f"{path}: is no judgement of a fleet ({SCHEMA}); {remedy}")
    return Table(path, found).row(FleetJudgement)
