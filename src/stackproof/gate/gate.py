"""From what a gate found out to a record: a check for each cell, one for the conditions, and the verdict of the whole.

The cells of a gate: what every launch adds to them, and what is said of each at a look.

Runs a gate: launches until every cell is decided or the declared cap is reached.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from stackproof.base.errors import Refusal, suggestion
from stackproof.base.processes import HostLoad
from stackproof.gate import stored
from stackproof.gate.conditions import Conditions
from stackproof.gate.duel import PROCESS, Launch, Lost, Seen, Terms, greet, launch
from stackproof.gate.live import Answer, Seat
from stackproof.gate.plan import GatePlan
from stackproof.gate.statistics import Design, Estimate, Outcome, Ruling, estimate, paired, percent, rule, unpaired
from stackproof.gate.statistics import Outcome as Word
from stackproof.gate.stored import Stored
from stackproof.record import store
from stackproof.record.records import Check, Figure, Record, Verdict, overall

CONDITIONS = "gate/run::conditions"
_VERDICTS = {
    Word.FASTER: Verdict.PASSED,
    Word.SAME: Verdict.PASSED,
    Word.SLOWER: Verdict.FAILED,
    Word.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


def conclude(outcome: GateRun, record: Record, preset: str) -> None:
    """Add checks, measurements and facts to the record, and give it its verdict."""
    board = outcome.board
    record.checks += [Check(f"gate/{one.subject}::runs", one.verdict, one.reason, 0.0) for one in board.lost.values()]
    record.checks += [
        Check(name, Verdict.FAILED, f"is missing: {reason}", 0.0) for name, reason in board.missing.items()
    ]
    judged = [cell for cell in board.cells.values() if cell.subject not in board.lost]
    record.checks += [_check(cell) for cell in judged if cell.subject != PROCESS or board.seen()]
    for subject, pairs in board.counted.items():
        names = [] if subject in board.lost else counters_of(pairs, board.plan.counters)
        record.checks += [_counted(subject, counter, pairs, board.same_torch) for counter in names]
    if outcome.interrupted:
        record.checks.append(Check("gate/run::launches", Verdict.INTERRUPTED, "interrupted from outside", 0.0))
    record.verdict = whole(board, record)
    record.checks.append(_conditions(outcome))
    stored.store(record, board.launches, outcome.subjects, preset)
    _add_facts(outcome, record)


def _check(cell: Cell) -> Check:
    if cell.ruling is None:
        reason = f"only {len(cell.ratios)} launches, too few to say anything; allow more --minutes"
        return Check(cell.name, Verdict.INCONCLUSIVE, reason, 0.0, cell.figures())
    ruling = cell.ruling
    if ruling.blind:
        reason = f"does not gate: {ruling.reason}, and the minimum effect is {cell.effect:.0%}"
        return Check(cell.name, Verdict.SKIPPED, reason, 0.0, cell.figures())
    verdict = _VERDICTS[ruling.outcome]
    return Check(cell.name, verdict, f"{ruling.outcome.value} {ruling.reason}", 0.0, cell.figures())


def _counted(subject: str, counter: str, pairs: list[tuple[dict[str, int], dict[str, int]]], same_torch: bool) -> Check:
    """More of what is counted is worse; between two versions of torch it only is a fact."""
    outcome, reason = counter_change(pairs, counter)
    verdict = _VERDICTS[outcome]
    if outcome is Word.INCONCLUSIVE or (outcome is Word.SLOWER and not same_torch):
        verdict = Verdict.NOT_APPLICABLE
        reason += "" if same_torch else "; the sides have different torch, so this does not gate"
    figures: dict[str, Figure] = {"base": pairs[0][0][counter], "head": pairs[0][1][counter]}
    return Check(f"gate/{subject}::{counter}", verdict, f"{outcome.value} {reason}", 0.0, figures)


def whole(board: Board, record: Record) -> Verdict:
    """Return the gate's verdict: one in which nothing ran failed, one in which no time could be judged says nothing."""
    verdict = overall(check.verdict for check in record.checks)
    if verdict is not Verdict.PASSED:
        return verdict
    judged = [cell for cell in board.cells.values() if cell.what == TIME and cell.decided]
    return Verdict.PASSED if judged else Verdict.INCONCLUSIVE if board.seen() else Verdict.FAILED


def _conditions(outcome: GateRun) -> Check:
    said = outcome.conditions.said()
    reason = (
        "; ".join(said)
        or "no change of clock or temperature, nobody else on the card or the host, as far as can be told"
    )
    loads = outcome.conditions.loads
    figures: dict[str, Figure] = {
        f"launch {number}, others' share of the cores": load for number, load in enumerate(loads)
    }
    return Check(CONDITIONS, Verdict.PASSED, reason, 0.0, figures)


def _add_facts(outcome: GateRun, record: Record) -> None:
    """Keep the head's facts under their own names, so that this record can be a base, and the base's where they differ."""
    base, head = outcome.facts[BASE], outcome.facts[HEAD]
    record.provenance |= head
    record.provenance |= {f"base.{name}": value for name, value in base.items() if head.get(name) != value}


TIME = "time"
BASE, HEAD = "base", "head"
_FEWEST = 3


@dataclass
class Cell:
    """One thing that is compared: a logarithm of head over base for each launch, and once it is decided, the ruling.

    With a stored base, `stored` has the logarithms of its launches, and `ratios` those of the head beside their mean.
    """

    subject: str
    what: str
    effect: float
    stored: tuple[float, ...] = ()
    ratios: list[float] = field(default_factory=list)
    ruling: Ruling | None = None

    @property
    def name(self) -> str:
        """The name of its check: `gate/gemm-float32::time`."""
        return f"gate/{self.subject}::{self.what}"

    @property
    def decided(self) -> bool:
        """Whether more launches would change nothing."""
        return self.ruling is not None and self.ruling.decided

    def estimate(self, alpha: float) -> Estimate:
        """Return what is known now."""
        if not self.stored:
            return estimate(self.ratios, alpha)
        middle = sum(self.stored) / len(self.stored)
        return unpaired(self.stored, [ratio + middle for ratio in self.ratios], alpha)

    def figures(self) -> dict[str, Figure]:
        """Return what a record keeps of it; ratios are head over base, below 1 is better."""
        found: dict[str, Figure] = {"launches": len(self.ratios), "minimum effect": self.effect}
        if self.ruling is not None:
            one = self.ruling.estimate
            found |= {
                "ratio": math.exp(one.centre),
                "ratio, low": math.exp(max(one.low, -50.0)),
                "ratio, high": math.exp(min(one.high, 50.0)),
                "minimum detectable effect": math.expm1(min(one.visible, 50.0)),
            }
        return found | {f"launch {number}": math.exp(ratio) for number, ratio in enumerate(self.ratios)}


@dataclass
class Board:
    """All cells, what was lost, and what was counted exactly."""

    plan: GatePlan
    kind: str
    """The type of device, which decides the minimum effect."""
    stored: dict[str, Seen] = field(default_factory=dict)
    """What a record knows of the base, by subject; blocks are seconds per run, one a launch. Empty where both sides are live."""
    cells: dict[str, Cell] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Figures that the base has and the head has not, by the name of the check."""
    counted: dict[str, list[tuple[dict[str, int], dict[str, int]]]] = field(default_factory=dict)
    proved: dict[str, str] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    same_torch: bool = True

    def add(self, launch: Launch, lost: Iterable[Lost]) -> None:
        """Take over what one launch saw."""
        self.launches.append(launch)
        self.lost |= {one.subject: one for one in lost}
        for subject, sides in launch.seen.items():
            base = self.stored.get(subject) if self.stored else sides.get(BASE)
            head = sides.get(HEAD)
            if base is None or head is None:
                continue
            self.proved[subject] = head.proved
            self._add_time(subject, base, head)
            self._add_quantities(subject, base, head)
            if launch.counted:
                self._add_counters(subject, base, head)

    def _add_time(self, subject: str, base: Seen, head: Seen) -> None:
        if not head.blocks:
            return
        effect = self.plan.effect(subject, self.kind)
        if self.stored:
            logs = tuple(map(math.log, base.blocks))
            middle = sum(logs) / len(logs)
            self._append(Cell(subject, TIME, effect, logs), math.log(median(head.blocks)) - middle)
        else:
            self._append(Cell(subject, TIME, effect), paired(base.blocks, head.blocks))

    def _add_quantities(self, subject: str, base: Seen, head: Seen) -> None:
        for name, before in base.quantities.items():
            if name not in self.plan.judged:
                continue
            after = head.quantities.get(name, 0.0)
            cell = Cell(subject, name, self.plan.quantities[name].effect(self.kind))
            if before > 0 and after > 0:
                self._append(cell, math.log(after / before))
            elif before > 0:
                self.missing[cell.name] = (
                    f"the base gives {before:g} {self.plan.quantities[name].unit}, the head nothing"
                )

    def _add_counters(self, subject: str, base: Seen, head: Seen) -> None:
        if base.counters:
            self.counted.setdefault(subject, []).append((base.counters, head.counters))
        for name in self.plan.counters:
            if name in base.counters and name not in head.counters:
                self.missing[f"gate/{subject}::{name}"] = f"the base counts {base.counters[name]}, the head nothing"

    def _append(self, fresh: Cell, ratio: float) -> None:
        cell = self.cells.setdefault(fresh.name, fresh)
        if not cell.decided:
            cell.ratios.append(ratio)

    def look(self, design: Design) -> None:
        """Judge all cells together; those that are decided stay as they are, and stay in the family of tests."""
        whole = {name: cell for name, cell in self.cells.items() if len(cell.ratios) >= _FEWEST}
        if not whole:
            return
        found = {name: cell.estimate(design.per_look) for name, cell in whole.items()}
        for name, ruling in rule(found, {name: cell.effect for name, cell in whole.items()}, design).items():
            if not whole[name].decided:
                whole[name].ruling = ruling

    def seen(self) -> set[str]:
        """Return the subjects whose time was measured and that are not lost."""
        return {cell.subject for cell in self.cells.values() if cell.what == TIME} - set(self.lost)

    def undecided(self) -> list[str]:
        """Return the subjects that still have a cell to decide, in order; a lost one is decided."""
        open_ = [cell.subject for cell in self.cells.values() if not cell.decided]
        return [subject for subject in dict.fromkeys(open_) if subject not in self.lost]


def counter_change(pairs: Sequence[tuple[dict[str, int], dict[str, int]]], counter: str) -> tuple[Outcome, str]:
    """Compare one exact counter over all launches; one that varies by itself proves nothing and says so."""
    base, head = ({pair[side].get(counter, -1) for pair in pairs} for side in (0, 1))
    if len(base) > 1 or len(head) > 1:
        return Outcome.INCONCLUSIVE, f"it varies by itself: base {sorted(base)}, head {sorted(head)}"
    before, after = base.pop(), head.pop()
    if before == after:
        return Outcome.SAME, f"{before} on both sides"
    share = percent(math.log(after / before)) if before > 0 and after > 0 else "not comparable"
    return (Outcome.SLOWER if after > before else Outcome.FASTER), f"{before} -> {after} ({share})"


def counters_of(pairs: Sequence[tuple[dict[str, int], dict[str, int]]], known: Iterable[str]) -> list[str]:
    """Return the counters that both sides gave in every launch, in the plan's order."""
    return [name for name in known if all(name in side for pair in pairs for side in pair)]


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
class GateRun:
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


def contend(contest: Contest, folder: Path, watcher: Watcher) -> GateRun:
    """Let the sides say what they have, then launch until all is decided, the last look is spent, or the minutes are."""
    terms = Terms(contest.preset, contest.plan, contest.scale)
    told = greet(contest.seats, terms, folder / "greeting")
    facts = _facts(contest, told)
    require_alike(contest, facts)
    board, conditions = Board(contest.plan, contest.kind), Conditions(contest.plan.conditions)
    board.same_torch = facts[BASE].get("torch") == facts[HEAD].get("torch")
    roll = call_roll(contest, told)
    board.lost |= {one.subject: one for one in roll.lost}
    outcome = GateRun(board, conditions, roll.subjects, facts)
    try:
        _launches(contest, terms, [name for name in roll.subjects if name not in board.lost], outcome, folder, watcher)
    except KeyboardInterrupt:
        outcome.interrupted = True
        board.look(contest.design)
    return outcome


def _launches(
    contest: Contest, terms: Terms, left: Sequence[str], outcome: GateRun, folder: Path, watcher: Watcher
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
    contest: Contest, terms: Terms, left: Sequence[str], folder: Path, outcome: GateRun, watcher: Watcher
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
    return store.place(facts).devices


def _driver(facts: Mapping[str, Figure]) -> str:
    group = store.state(facts).groups.get("driver", {})
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
        Lost(name, "both", Verdict.NOT_APPLICABLE, f"data/gate.toml leaves it out on {contest.kind}: {reason}")
        for (name, device), reason in contest.plan.spared.items()
        if name in chosen and device == contest.kind and not contest.only
    ]
    return Roll({name: every[name] for name in chosen}, (*spared, *dropped, *fresh))


def _comparable(contest: Contest, subjects: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out kinds that cannot live in one process."""
    return {name: one for name, one in subjects.items() if one["kind"] not in contest.plan.left_out}
