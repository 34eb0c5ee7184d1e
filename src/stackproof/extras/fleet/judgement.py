"""What is said of a fleet, as it stands in a file, strictly read, and as people read it, the gravest first."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from stackproof.api.base import advice, text
from stackproof.api.record import outline
from stackproof.extras.fleet import plan

SCHEMA = "stackproof.extras.fleet/1"
NAME = "judgement.fleet.json"
LIMITLESS = 999.0
"""The z of a group that is too small for one to be called slow."""
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,:%/+_-]+")
"""A reason goes into Slurm's database and into other people's scripts: letters, digits and a few marks only."""


class HostVerdict(str, Enum):
    """What a host is called, the gravest first. Only `proved` is green."""

    WRONG = "wrong"
    SLOW = "slow"
    NOT_REACHED = "not reached"
    INCOMPLETE = "incomplete"
    """It did not do all that the plan wants."""
    UNLIKE = "unlike"
    SUSPECTED = "suspected"
    UNDECIDED = "undecided"
    """Nothing is odd about it, but its group is too small, or does not agree with itself, so that this says nothing."""
    PROVED = "proved"


BAD = (HostVerdict.WRONG, HostVerdict.SLOW)


@dataclass(frozen=True)
class FleetFinding:
    """One thing that is odd about a card of a host; `z` is 0 where it is not about speed."""

    standing: HostVerdict
    card: str
    subject: str
    sentence: str
    z: float = 0.0


@dataclass(frozen=True)
class JudgedHost:
    host: str
    standing: HostVerdict
    group: str
    reason: str
    findings: tuple[FleetFinding, ...] = ()

    def drain(self) -> list[str]:
        """Return the command that takes the host out of service, as words; nobody but its user runs it.

        Refusal: the name can be no host's.
        """
        reason = textwrap.shorten(
            f"stackproof: {self.standing.value}: {_UNSAFE.sub(' ', self.reason)}", 120, placeholder=" ..."
        )
        return ["scontrol", "update", f"NodeName={plan.host(self.host)}", "State=DRAIN", f"Reason={reason}"]


@dataclass(frozen=True)
class SubjectStrip:
    """One subject over a group: its median in seconds, by how much cards differ, the slowest card's seconds over the median's."""

    subject: str
    unit: str
    median: float
    spread: float
    slowest: float
    cards: int


@dataclass(frozen=True)
class JudgedGroup:
    """Hosts of one state, which are compared with each other only; `differs`: what sets it apart from the largest of its architecture."""

    name: str
    architecture: str
    differs: str
    hosts: int
    limit: float
    """The z beyond which one is slow, and not only suspected."""
    cards: int
    strips: tuple[SubjectStrip, ...]
    kernels: int
    products: int


@dataclass(frozen=True)
class FleetJudgement:
    """The whole fleet; `minutes`: what the sweep cost a host, as the median; `stack`: that of the plan."""

    schema: str
    fleet: str
    judged: str
    minutes: float
    longest: float
    hosts: tuple[JudgedHost, ...]
    groups: tuple[JudgedGroup, ...]
    notes: tuple[str, ...]
    stack: str

    @property
    def counts(self) -> dict[HostVerdict, int]:
        """Return how many hosts there are of each word, the gravest first."""
        counts = Counter(host.standing for host in self.hosts)
        return {word: counts[word] for word in HostVerdict if counts[word]}

    @property
    def exit_code(self) -> int:
        """1 where a host is slow or wrong, 6 where any is not proved or there is none, 0 where all are."""
        if any(verdict in self.counts for verdict in BAD):
            return 1
        return 0 if list(self.counts) == [HostVerdict.PROVED] else 6

    @property
    def headline(self) -> str:
        sentence = ", ".join(f"{count} {word.value}" for word, count in self.counts.items())
        return f"{self.fleet}: {text.counted(len(self.hosts), 'host')}: {sentence or 'none'}"

    def drains(self) -> Iterator[str]:
        """Yield what takes hosts that are slow or wrong out of service, as people type it."""
        yield from (shlex.join(host.drain()) for host in self.hosts if host.standing in BAD and plan.is_host(host.host))


def as_json(judgement: FleetJudgement) -> str:
    return json.dumps(dataclasses.asdict(judgement), ensure_ascii=True, allow_nan=False, default=str) + "\n"


_MOST = 60
_MOST_NAMED = 8


def parts(judgement: FleetJudgement, folder: str) -> Iterator[outline.Part]:
    """Yield what people read: the hosts that are not proved, the gravest first, then each group, and what to do now."""
    yield outline.Heading(judgement.headline)
    cost = f"it cost a host {judgement.minutes:.1f} minutes (median; the longest {judgement.longest:.1f})"
    yield from (outline.TextLine(line, 1) for line in (*([cost] if judgement.longest else []), *judgement.notes))
    alike: dict[tuple[HostVerdict, str], list[str]] = {}
    for host in judgement.hosts:
        alike.setdefault((host.standing, host.reason), []).append(host.host)
    words = [word for word in HostVerdict if word is not HostVerdict.PROVED]
    rows = sorted((words.index(word), names, why) for (word, why), names in alike.items() if word in words)
    if rows:
        shown = [(words[at].value, text.first_few(names, _MOST_NAMED), why) for at, names, why in rows]
        yield outline.TextTable(("is", "host", "why"), shown, "not proved", wide=(2,), most=_MOST)
    for group in judgement.groups:
        yield from _group(group)
    if suspects := sorted((host for host in judgement.hosts if host.findings or host.standing in BAD), key=_severity):
        names = ", ".join(host.host for host in suspects[:_MOST_NAMED])
        yield outline.Heading("to confirm, before anybody is drained", 2)
        yield outline.TextLine(f"sweep {names} again with healthy hosts of their group, five in all at least", 1)
        again = advice.step(judgement.stack, "fleet", "plan", f"{folder}-again", "--hosts", "LIST")
        yield outline.TextLine(again, 1)
    if drains := [*judgement.drains()]:
        yield outline.Heading("to take them out of service, where the second sweep says the same", 2)
        yield from (outline.TextLine(line, 1) for line in drains[:_MOST])


def _severity(host: JudgedHost) -> tuple[bool, int, float, str]:
    """Rank by being wrong, then by how many subjects agree, then by the largest z."""
    return (
        host.standing is not HostVerdict.WRONG,
        -len(host.findings),
        -max((finding.z for finding in host.findings), default=0.0),
        host.host,
    )


def _group(group: JudgedGroup) -> Iterator[outline.Part]:
    size = f"{text.counted(group.hosts, 'host')}, {text.counted(group.cards, 'card')}"
    yield outline.Heading(f"group {group.name}: {size}, {group.architecture}", 2)
    if group.differs:
        yield outline.TextLine(f"differs: {group.differs}", 1)
    limit = f"slow from z {group.limit:.1f} on" if group.limit < LIMITLESS else "too few to call one slow"
    yield outline.TextLine(f"replayed: {group.products:,} products of {group.kernels} kernels; {limit}", 1)
    rows = [
        (strip.subject, text.shown(strip.median, strip.unit), f"{strip.spread:.2%}", f"{strip.slowest - 1:+.1%}",
         str(strip.cards))
        for strip in group.strips
    ]  # fmt: skip
    yield outline.TextTable(("subject", "median", "hosts differ by", "slowest", "cards"), rows, right=(1, 2, 3, 4))
