"""What a night is asked and how much it does (`data/night.toml`), and its record while it goes on: what has ended is kept at once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from stackproof.api.base import places, text, toml
from stackproof.api.gate import interleave, plan
from stackproof.api.record import Check, Figure, Record, Verdict, resume, store, writer
from stackproof.api.runs import verbs
from stackproof.api.stack import stacks
from stackproof.extras.nights.drift.nights import VERB
from stackproof.extras.nights.night.anchors import Anchors

FILE = places.DATA / "night.toml"


@dataclass(frozen=True)
class _Measure:
    launches: Mapping[str, int]

    def __post_init__(self) -> None:
        plan.require_other("launches", self.launches)


@dataclass(frozen=True)
class _Verify:
    minutes: plan.ByDevice
    deadline: float

    def __post_init__(self) -> None:
        plan.require_other("minutes", self.minutes)


@dataclass(frozen=True)
class AdmissionRules:
    """What makes a night disturbed."""

    load: plan.ByDevice
    throttled: tuple[str, ...]
    others: bool
    pause: float

    def __post_init__(self) -> None:
        plan.require_other("load", self.load)


@dataclass(frozen=True)
class _Confirm:
    most: int
    minutes: float


@dataclass(frozen=True)
class NightPlan:
    """The whole table."""

    measure: _Measure
    verify: _Verify
    admission: AdmissionRules
    confirm: _Confirm


@cache
def load() -> NightPlan:
    """Return the plan of the file; a slip in it is refused by key."""
    return toml.Table.load(FILE).row(NightPlan)


def disturbances(seen: interleave.Conditions, rules: AdmissionRules, kind: str) -> list[str]:
    """Return a sentence for each thing that disturbed a night on this type of device; none where it is admitted."""
    return [*_load(seen, plan.of(rules.load, kind)), *_card(seen, rules)]


def _load(seen: interleave.Conditions, limit: float) -> Iterator[str]:
    busy = [load for load in seen.loads if load > limit]
    if busy:
        yield (
            f"others used {max(busy):.0%} of the host's cores in {len(busy)} of {len(seen.loads)} launches ({limit:.0%} are allowed)"
        )


def _card(seen: interleave.Conditions, rules: AdmissionRules) -> Iterator[str]:
    launches = len(seen.loads)
    for reason, count in seen.throttled.items():
        if text.matches(reason, rules.throttled):
            yield f"the card was slowed in {count} of {launches} launches: {reason}"
    if rules.others:
        yield from (f"{other} used the card in {count} of {launches} launches" for other, count in seen.others.items())


SAME = ("commit", "lock", "pinned", "anchor", "anchor.former", "profile", "only", "device")
"""Facts that have to be the same for a stopped night to be continued."""
FIRST = "the first"
"""The device of a night that nobody chose one for."""
FATAL = (Verdict.UNAVAILABLE, Verdict.MISMATCHED)
"""After these nothing else of a night can be right."""


@dataclass
class Ledger:
    """A record in its folder; `say` tells a person what ended."""

    record: Record
    folder: Path
    say: Callable[[str], None]
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._before = self.record.seconds

    @property
    def path(self) -> Path:
        """The file of the record."""
        return self.folder / resume.RECORD

    @property
    def over(self) -> bool:
        """Whether the stack is not here, or not what it should be, so that the other stages make no sense."""
        return any(check.verdict in FATAL for check in self.record.checks)

    def ended(self, name: str) -> bool:
        """Whether a check of this name has a verdict, of today or of before the night was stopped."""
        return any(check.id == name for check in self.record.checks)

    def add(self, check: Check) -> None:
        """Take over how something ended, and keep the record as if the night were stopped now."""
        self.record.checks.append(check)
        self.say(f"{check.verdict.value}: {check.id}: {check.reason}")
        self.keep()

    def keep(self, verdict: Verdict = Verdict.INTERRUPTED) -> None:
        """Write the record as it stands; it is an interrupted one until its verdict is known."""
        self.record.seconds = self._before + time.monotonic() - self._began
        writer.checkpoint(replace(self.record, verdict=verdict, digests={}), self.path)

    def close(self, verdict: Verdict, outputs: writer.Outputs, page: Callable[[Record], str]) -> Path:
        """Give the record its verdict and keep it with the digests of the logs."""
        self.record.seconds, self.record.verdict = self._before + time.monotonic() - self._began, verdict
        self.record.logs = sorted(os.path.relpath(log, self.folder) for log in self.folder.rglob("*.log"))
        return writer.keep(self.record, self.path, outputs, page)


def opened(stack: str, facts: Mapping[str, Figure], outputs: writer.Outputs, say: Callable[[str], None]) -> Ledger:
    """Begin a night."""
    record = writer.begin(VERB, stack, facts)
    return Ledger(record, outputs.folder(record), say)


def resumed(stack: str, facts: Mapping[str, Figure], outputs: writer.Outputs, say: Callable[[str], None]) -> Ledger:
    """Go on with the last night, which was stopped.

    Raises:
        Refusal: there is none, it was not stopped, or something has changed since.
    """
    path = resume.newest(outputs.results, VERB, stack)
    record = resume.stopped(path, facts, SAME)
    ended = ", ".join(check.id for check in record.checks) or "nothing"
    say(f"going on with {path.parent.name}; ended already: {ended}")
    return Ledger(record, path.parent, say)


def flags_of(facts: Mapping[str, Figure]) -> dict[str, Any]:
    """Return what was asked of a night, by the names of the flags; what was not said is not there."""
    found: dict[str, Any] = {name: str(facts.get(name, "")).split() for name in ("only", "without")}
    found["profile"] = str(facts.get("profile", ""))
    found["device"] = "" if (device := str(facts.get("device", FIRST))) == FIRST else device
    return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class NightRequest:
    """What is asked of a night; what is empty is as the gate has it."""

    stack: stacks.Stack
    results: Path
    anchors: Anchors
    plan: NightPlan
    profile: str
    only: tuple[str, ...] = ()
    device: str = ""
    without: tuple[str, ...] = ()
    unpinned: Path | None = None
    scale: float = 1.0
    site: Path = field(default_factory=lambda: store.LOCAL.parent / "site")

    @property
    def tops(self) -> tuple[Path, ...]:
        """The folders in which earlier nights and their gates lie."""
        return tuple(dict.fromkeys((*store.folders(), self.results)))

    def facts(self) -> dict[str, Figure]:
        """Return what of the request explains a record."""
        found: dict[str, Figure] = {
            "profile": self.profile,
            "only": " ".join(self.only),
            "device": self.device or FIRST,
        }
        return found | ({"without": " ".join(self.without)} if self.without else {})


@dataclass
class NightRun:
    """A night that is under way."""

    asked: NightRequest
    ledger: Ledger

    def verb(self, *words: str, log: str, python: Path | None = None) -> verbs.StageOutcome:
        """Run a verb of this stack as a process of its own; its record goes where the night's does."""
        asked = self.asked
        scale = ["--deadline-scale", str(asked.scale)] if asked.scale != 1 else []
        command = [words[0], "--stack", asked.stack.name, *words[1:], "--results", str(asked.results), *scale]
        deadline = 60 * asked.plan.verify.deadline * asked.scale
        return verbs.call(command, self.ledger.folder / f"{log}.log", deadline, python or Path(sys.executable))

    def suite(self, *words: str, log: str) -> verbs.StageOutcome:
        """Run a verb in the stack's environment, which it builds; or in the one that was named."""
        asked = self.asked
        chosen = ["--device", asked.device] if asked.device else []
        return self.verb(*words, *chosen, *([] if asked.unpinned else ["--locked"]), log=log, python=asked.unpinned)

    def add(self, name: str, began: float, ended: verbs.StageOutcome) -> None:
        """Take over how a stage ended that began then."""
        self.ledger.add(Check(name, ended.verdict, ended.reason, time.monotonic() - began, dict(ended.figures)))
