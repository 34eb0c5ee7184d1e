"""Runs a gate: launches until every cell is decided or the declared cap is reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from stackproof.base.errors import Refusal, suggestion
from stackproof.base.processes import HostLoad
from stackproof.gate.cells import BASE, HEAD, Results
from stackproof.gate.conditions import Conditions
from stackproof.gate.interleave import PROCESS, Launch, LaunchTerms, Lost, handshake, launch
from stackproof.gate.live import Answer, SideSpec
from stackproof.gate.plan import GatePlan
from stackproof.gate.statistics import Design
from stackproof.gate.stored import Stored
from stackproof.record import store
from stackproof.record.records import Figure, Verdict


@dataclass(frozen=True)
class Comparison:
    """What is compared, and what may be spent on it."""

    specs: tuple[SideSpec, ...]
    """Base and head; the head alone where the base is a stored record."""
    preset: str
    kind: str
    """The type of device, which decides the minimum effect."""
    plan: GatePlan
    minutes: float
    only: tuple[str, ...] = ()
    unlike: bool = False
    stored: Stored | None = None
    scale: float = 1.0
    host_facts: Mapping[str, Figure] = field(default_factory=dict)
    """What is known of the host without torch, so that a record of another host can be held against it."""

    @property
    def design(self) -> Design:
        """The promise, as declared."""
        return Design.declared(self.plan)


@dataclass
class GateRun:
    """All that a gate found out."""

    results: Results
    conditions: Conditions
    subjects: dict[str, Any]
    """What the sides say of their subjects: kind, unit, version."""
    facts: dict[str, dict[str, Figure]]
    """Facts of each side."""
    interrupted: bool = False
    """Whether it was stopped from outside; what was seen until then counts."""


class Watcher(Protocol):
    """Who is told how far a gate is."""

    def launched(self, number: int, most: int, subject: str) -> None:
        """A subject was measured in this launch."""

    def looked(self, results: Results) -> None:
        """The data were judged."""


def compare(comparison: Comparison, folder: Path, watcher: Watcher) -> GateRun:
    """Let the sides say what they have, then launch until all is decided, the last look is spent, or the minutes are."""
    terms = LaunchTerms(comparison.preset, comparison.plan, comparison.scale)
    told = handshake(comparison.specs, terms, folder / "handshake")
    comparison = replace(comparison, plan=replace(comparison.plan, asked=told[HEAD]["subjects"]))
    terms = replace(terms, plan=comparison.plan)
    facts = _facts(comparison, told)
    require_alike(comparison, facts)
    results, conditions = Results(comparison.plan, comparison.kind), Conditions(comparison.plan.conditions)
    results.same_torch = facts[BASE].get("torch") == facts[HEAD].get("torch")
    matched = match_subjects(comparison, told)
    results.lost |= {one.subject: one for one in matched.lost}
    outcome = GateRun(results, conditions, matched.subjects, facts)
    try:
        _launches(
            comparison, terms, [name for name in matched.subjects if name not in results.lost], outcome, folder, watcher
        )
    except KeyboardInterrupt:
        outcome.interrupted = True
        results.cells.look(comparison.design)
    return outcome


def _launches(
    comparison: Comparison, terms: LaunchTerms, left: Sequence[str], outcome: GateRun, folder: Path, watcher: Watcher
) -> None:
    results, until = outcome.results, time.monotonic() + 60 * comparison.minutes
    more = bool(left)
    while more and (look := comparison.design.next_look(len(results.launches))) is not None:
        while len(results.launches) < look:
            if (
                results.launches and time.monotonic() > until
            ):  # a look that came early has fewer launches, and promises no less
                results.cells.look(comparison.design)
                return
            found, lost = _once(comparison, terms, left, folder, outcome, watcher)
            if comparison.stored and not results.launches:
                lost += _recall(comparison.stored, outcome, found)
            results.add(found, lost)
            left = [subject for subject in left if subject not in results.lost]
            if not left and not results.seen():
                return
        results.cells.look(comparison.design)
        watcher.looked(results)
        left = [subject for subject in results.undecided() if subject != PROCESS]
        more = bool(results.undecided())  # start-up alone is launched too: an open cell leaves the whole gate open


def _once(
    comparison: Comparison, terms: LaunchTerms, left: Sequence[str], folder: Path, outcome: GateRun, watcher: Watcher
) -> tuple[Launch, list[Lost]]:
    number, most = len(outcome.results.launches), comparison.plan.design.looks[-1]
    say: Callable[[str], None] = lambda subject: watcher.launched(number + 1, most, subject)  # noqa: E731
    load = HostLoad()
    found, lost = launch(comparison.specs, left, terms, number, folder / f"launch-{number}", say)
    outcome.conditions.add(found.conditions, load.share())
    return found, [_skipped_by_one(one) for one in lost]


def _skipped_by_one(one: Lost) -> Lost:
    """What only the head skips was there before: it was not skipped but lost."""
    if one.verdict is not Verdict.SKIPPED or one.side != HEAD:
        return one
    return Lost(one.subject, one.side, Verdict.FAILED, f"{one.reason}; the base runs it")


def _recall(stored: Stored, outcome: GateRun, found: Launch) -> list[Lost]:
    """Put what the record knows beside the first launch; a figure of another version is none."""
    lost = []
    for name, sides in found.seen.items():
        if name not in outcome.subjects:
            continue
        told = outcome.subjects[name]
        seen = stored.seen(name, told["unit"], told["version"], sides[HEAD].worth)
        if seen is None:
            reason = f"{stored.path.name} has no '{name}' of version {told['version']} in {told['unit']}"
            lost.append(Lost(name, BASE, Verdict.NOT_APPLICABLE, reason))
        else:
            outcome.results.stored[name] = seen
    return lost


def _facts(comparison: Comparison, told: Mapping[str, Answer]) -> dict[str, dict[str, Figure]]:
    found = {name: {**comparison.host_facts, **answer["facts"]} for name, answer in told.items()}
    if comparison.stored:
        found[BASE] = dict(comparison.stored.facts)
    return found


def require_alike(comparison: Comparison, facts: Mapping[str, Mapping[str, Figure]]) -> None:
    """Refuse to compare unlike devices or drivers, unless that was asked for."""
    if comparison.unlike:
        return
    for what, read in (("devices", _devices), ("driver", _driver)):
        base, head = (read(facts[side]) for side in (BASE, HEAD))
        if base != head:
            raise Refusal(
                f"the two sides have unlike {what} (base: {base or 'unknown'}; head: {head or 'unknown'}); a difference would "
                "not be the change's; add --unlike if that is what is compared"
            )


def _devices(facts: Mapping[str, Figure]) -> str:
    return store.place(facts).devices


def _driver(facts: Mapping[str, Figure]) -> str:
    group = store.state(facts).groups.get("driver", {})
    return ", ".join(f"{name} {value}" for name, value in sorted(group.items()))


@dataclass(frozen=True)
class Matched:
    """The subjects of both sides, and those that only one has."""

    subjects: dict[str, Any]
    lost: tuple[Lost, ...]


def match_subjects(comparison: Comparison, told: Mapping[str, Answer]) -> Matched:
    """Return what there is to compare: a subject that the base has and the head has not was dropped, and fails.

    Raises:
        Refusal: `--only` names a subject that no side has.
    """
    known = {side: _comparable(comparison, answer["subjects"]) for side, answer in told.items()}
    head, base = known[HEAD], known.get(BASE)
    if base is None:  # a record knows names; those that this profile never had are not asked for
        base = {name: head.get(name, {}) for name in comparison.stored.rows} if comparison.stored else {}
    every = {**base, **head}
    chosen = [name for name in every if not comparison.only or name in comparison.only]
    for name in comparison.only:
        if name not in every:
            raise Refusal(
                f"--only '{name}' is no subject of this profile{suggestion(name, every)}; there are: {', '.join(every)}"
            )
    dropped = [
        Lost(name, HEAD, Verdict.FAILED, f"head: '{name}' was dropped; the base has it")
        for name in chosen
        if name not in head
    ]
    fresh = [
        Lost(name, BASE, Verdict.NOT_APPLICABLE, f"base: has no '{name}' yet, so there is nothing to compare it with")
        for name in chosen
        if name not in base
    ]
    spared = [
        Lost(
            name, "both", Verdict.NOT_APPLICABLE, f"its workload is not worth its time on {comparison.kind} (`spared`)"
        )
        for name in chosen
        if comparison.plan.spares(name, comparison.kind) and not comparison.only
    ]
    return Matched({name: every[name] for name in chosen}, (*spared, *dropped, *fresh))


def _comparable(comparison: Comparison, subjects: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out kinds that cannot live in one process."""
    return {name: one for name, one in subjects.items() if one["kind"] not in comparison.plan.design.left_out}
