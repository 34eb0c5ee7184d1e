"""What is said of a fleet, as it stands in a file: strictly read, so that a page or another host can be made from it."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from stackproof.api.base import Refusal, toml
from stackproof.extras.fleet import rules
from stackproof.extras.fleet.plan import read_object

SCHEMA = "stackproof.extras.fleet/1"
NAME = "judgement.fleet.json"
_MOST_BYTES = 256 << 20
LIMITLESS = 999.0
"""The z of a group that is too small for one to be called slow."""
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,:%/+_-]+")
"""A reason goes into Slurm's database and into other people's scripts: letters, digits and a few marks only."""


class HostVerdict(str, Enum):
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
    HostVerdict.WRONG, HostVerdict.SLOW, HostVerdict.NOT_REACHED, HostVerdict.INCOMPLETE, HostVerdict.UNLIKE, HostVerdict.SUSPECTED,
    HostVerdict.UNDECIDED, HostVerdict.PROVED,
)  # fmt: skip
BAD = (HostVerdict.WRONG, HostVerdict.SLOW)


@dataclass(frozen=True)
class FleetFinding:
    """One thing that is odd about a card of a host; `ratio`: seconds over the median's, 1 where it is not about speed."""

    standing: HostVerdict
    card: str
    subject: str
    sentence: str
    ratio: float = 1.0
    z: float = 0.0


@dataclass(frozen=True)
class JudgedHost:
    """One host: its word, why, and what is odd."""

    host: str
    standing: HostVerdict
    group: str
    reason: str
    findings: tuple[FleetFinding, ...] = ()

    def drain(self) -> list[str]:
        """Return the command that takes the host out of service, as words; nobody but its user runs it.

        Raises:
            Refusal: the name can be no host's.
        """
        reason = f"stackproof: {self.standing.value}: {' '.join(_UNSAFE.sub(' ', self.reason).split())}"[:120].strip()
        return ["scontrol", "update", f"NodeName={rules.host(self.host)}", "State=DRAIN", f"Reason={reason}"]


@dataclass(frozen=True)
class SubjectStrip:
    """One subject over a group: each card's seconds over the median's in the order of the group's cards, 0 where it has none."""

    subject: str
    unit: str
    median: float
    spread: float
    ratios: tuple[float, ...]
    split: bool = False
    """Whether there seem to be two populations, of which none is a defect."""


@dataclass(frozen=True)
class JudgedGroup:
    """Hosts of one state, which are compared with each other only; `differs`: what sets it apart from the largest of its architecture."""

    name: str
    architecture: str
    differs: str
    hosts: int
    limit: float
    """The z beyond which one is slow, and not only suspected."""
    cards: tuple[str, ...]
    strips: tuple[SubjectStrip, ...]
    kernels: int
    products: int


@dataclass(frozen=True)
class FleetJudgement:
    """The whole fleet; `minutes`: what the sweep cost a host, as the median; `stack`: that of the plan, empty without one."""

    schema: str
    fleet: str
    judged: str
    minutes: float
    longest: float
    hosts: tuple[JudgedHost, ...]
    groups: tuple[JudgedGroup, ...]
    notes: tuple[str, ...]
    stack: str = ""

    @property
    def counts(self) -> dict[HostVerdict, int]:
        """Return how many hosts there are of each word, the gravest first."""
        found = Counter(one.standing for one in self.hosts)
        return {word: found[word] for word in GRAVEST if found[word]}

    @property
    def exit_code(self) -> int:
        """1 where a host is slow or wrong, 6 where any is not proved or there is none, 0 where all are."""
        if any(one in self.counts for one in BAD):
            return 1
        return 0 if list(self.counts) == [HostVerdict.PROVED] else 6

    @property
    def headline(self) -> str:
        """Return one sentence of all."""
        said = ", ".join(f"{count} {word.value}" for word, count in self.counts.items())
        return f"{self.fleet}: {len(self.hosts)} host{'' if len(self.hosts) == 1 else 's'}: {said or 'none'}"

    def drains(self) -> Iterator[str]:
        """Yield what takes hosts that are slow or wrong out of service, as people type it."""
        yield from (
            shlex.join(host.drain()) for host in self.hosts if host.standing in BAD and rules.is_host(host.host)
        )


def as_json(found: FleetJudgement) -> str:
    """Return one JSON object."""
    return json.dumps(dataclasses.asdict(found), ensure_ascii=True, allow_nan=False, default=str) + "\n"


def read(path: Path) -> FleetJudgement:
    """Read a judgement from its file; duels and links, which there were until November 2026, are passed over.

    Raises:
        Refusal: it is none, or is damaged.
    """
    remedy = "make it with `stackproof fleet judge`"
    found = read_object(path, _MOST_BYTES, remedy)
    if found.get("schema") != SCHEMA:
        raise Refusal(f"{path}: is no judgement of a fleet ({SCHEMA}); {remedy}")
    found.pop("links", None)
    hosts = found.get("hosts")
    for host in hosts if isinstance(hosts, list) else ():
        for finding in host.get("findings") or () if isinstance(host, dict) else ():
            if isinstance(finding, dict):
                finding.pop("duel", None)
    return toml.Table(path, found).row(FleetJudgement)
