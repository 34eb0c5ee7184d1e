"""Runs a gate: launches until every cell is decided or the declared cap is reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import Refusal, suggestion
from ..history import identity
from ..measuring.hostload import HostLoad
from ..records import Figure, Verdict
from .cells import BASE, HEAD, Board
from .conditions import Conditions
from .duel import PROCESS, Launch, Lost, Terms, greet, launch
from .judging import Design
from .live import Answer, Seat
from .plan import GatePlan
from .stored import Stored


@dataclass(frozen=True)
class Contest:
    """What is compared, and what may be spent on it."""

    seats: tuple[Seat, ...]
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
        return Design(self.plan.looks, self.plan.alpha)


@dataclass
class Outcome:
    """All that a gate found out."""

    board: Board
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

    def looked(self, board: Board) -> None:
        """The data were judged."""


def contend(contest: Contest, folder: Path, watcher: Watcher) -> Outcome:
    """Let the sides say what they have, then launch until all is decided, the last look is spent, or the minutes are."""
    terms = Terms(contest.preset, contest.plan, contest.scale)
    told = greet(contest.seats, terms, folder / "greeting")
    facts = _facts(contest, told)
    require_alike(contest, facts)
    board, conditions = Board(contest.plan, contest.kind), Conditions(contest.plan.conditions)
    board.same_torch = facts[BASE].get("torch") == facts[HEAD].get("torch")
    roll = call_roll(contest, told)
    board.lost |= {one.subject: one for one in roll.lost}
    outcome = Outcome(board, conditions, roll.subjects, facts)
    try:
        _launches(contest, terms, [name for name in roll.subjects if name not in board.lost], outcome, folder, watcher)
    except KeyboardInterrupt:
        outcome.interrupted = True
        board.look(contest.design)
    return outcome


def _launches(
    contest: Contest, terms: Terms, left: Sequence[str], outcome: Outcome, folder: Path, watcher: Watcher
) -> None:
    board, until = outcome.board, time.monotonic() + 60 * contest.minutes
    more = bool(left)
    while more and (look := contest.design.next_look(len(board.launches))) is not None:
        while len(board.launches) < look:
            if (
                board.launches and time.monotonic() > until
            ):  # a look that came early has fewer launches, and promises no less
                board.look(contest.design)
                return
            found, lost = _once(contest, terms, left, folder, outcome, watcher)
            if contest.stored and not board.launches:
                lost += _recall(contest.stored, outcome, found)
            board.add(found, lost)
            left = [subject for subject in left if subject not in board.lost]
            if not left and not board.seen():
                return
        board.look(contest.design)
        watcher.looked(board)
        left = [subject for subject in board.undecided() if subject != PROCESS]
        more = bool(board.undecided())  # start-up alone is launched too: an open cell leaves the whole gate open


def _once(
    contest: Contest, terms: Terms, left: Sequence[str], folder: Path, outcome: Outcome, watcher: Watcher
) -> tuple[Launch, list[Lost]]:
    number, most = len(outcome.board.launches), contest.plan.looks[-1]
    say: Callable[[str], None] = lambda subject: watcher.launched(number + 1, most, subject)  # noqa: E731
    load = HostLoad()
    found, lost = launch(contest.seats, left, terms, number, folder / f"launch-{number}", say)
    outcome.conditions.add(found.conditions, load.share())
    return found, [_skipped_by_one(one) for one in lost]


def _skipped_by_one(one: Lost) -> Lost:
    """What only the head skips was there before: it was not skipped but lost."""
    if one.verdict is not Verdict.SKIPPED or one.side != HEAD:
        return one
    return Lost(one.subject, one.side, Verdict.FAILED, f"{one.reason}; the base runs it")


def _recall(stored: Stored, outcome: Outcome, found: Launch) -> list[Lost]:
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
            outcome.board.stored[name] = seen
    return lost


def _facts(contest: Contest, told: Mapping[str, Answer]) -> dict[str, dict[str, Figure]]:
    found = {name: {**contest.host_facts, **answer["facts"]} for name, answer in told.items()}
    if contest.stored:
        found[BASE] = dict(contest.stored.facts)
    return found


def require_alike(contest: Contest, facts: Mapping[str, Mapping[str, Figure]]) -> None:
    """Refuse to compare unlike devices or drivers, unless that was asked for."""
    if contest.unlike:
        return
    for what, read in (("devices", _devices), ("driver", _driver)):
        base, head = (read(facts[side]) for side in (BASE, HEAD))
        if base != head:
            raise Refusal(
                f"the two sides have unlike {what} (base: {base or 'unknown'}; head: {head or 'unknown'}); a difference would "
                "not be the change's; add --unlike if that is what is compared"
            )


def _devices(facts: Mapping[str, Figure]) -> str:
    return identity.place(facts).devices


def _driver(facts: Mapping[str, Figure]) -> str:
    group = identity.state(facts).groups.get("driver", {})
    return ", ".join(f"{name} {value}" for name, value in sorted(group.items()))


@dataclass(frozen=True)
class Roll:
    """The subjects of both sides, and those that only one has."""

    subjects: dict[str, Any]
    lost: tuple[Lost, ...]


def call_roll(contest: Contest, told: Mapping[str, Answer]) -> Roll:
    """Return what there is to compare: a subject that the base has and the head has not was dropped, and fails.

    Raises:
        Refusal: `--only` names a subject that no side has.
    """
    known = {side: _comparable(contest, answer["subjects"]) for side, answer in told.items()}
    head, base = known[HEAD], known.get(BASE)
    if base is None:  # a record knows names; those that this profile never had are not asked for
        base = {name: head.get(name, {}) for name in contest.stored.rows} if contest.stored else {}
    every = {**base, **head}
    chosen = [name for name in every if not contest.only or name in contest.only]
    for name in contest.only:
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
        Lost(name, "both", Verdict.NOT_APPLICABLE, f"fixtures/gate.toml leaves it out on {contest.kind}: {reason}")
        for (name, device), reason in contest.plan.spared.items()
        if name in chosen and device == contest.kind and not contest.only
    ]
    return Roll({name: every[name] for name in chosen}, (*spared, *dropped, *fresh))


def _comparable(contest: Contest, subjects: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out kinds that cannot live in one process."""
    return {name: one for name, one in subjects.items() if one["kind"] not in contest.plan.left_out}
