"""Runs a gate: launches until every cell is decided or the declared cap is reached, and turns what was seen into a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import Refusal
from ..records import Check, Record, Verdict, overall
from .cells import Board, Cell, counter_change, counters_of
from .duel import Launch, Lost, launch
from .judging import Design, Outcome
from .live import Seat
from .plan import GatePlan

_VERDICTS = {
    Outcome.FASTER: Verdict.PASSED,
    Outcome.SAME: Verdict.PASSED,
    Outcome.SLOWER: Verdict.FAILED,
    Outcome.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


@dataclass(frozen=True)
class Contest:
    """What is compared, and what may be spent on it."""

    seats: tuple[Seat, Seat]
    subjects: tuple[str, ...]
    preset: str
    kind: str
    plan: GatePlan
    minutes: float
    allow_unlike: bool = False

    @property
    def design(self) -> Design:
        """The promise, as declared."""
        return Design(self.plan.looks, self.plan.alpha)


class Watcher(Protocol):
    """Who is told how far a gate is."""

    def launched(self, number: int, most: int, subject: str) -> None:
        """A subject was measured in this launch."""

    def looked(self, board: Board) -> None:
        """The data were judged."""


def contend(contest: Contest, folder: Path, watcher: Watcher) -> Board:
    """Launch until all is decided, the last look is spent, or the minutes are."""
    board, until = Board(contest.plan, contest.kind), time.monotonic() + 60 * contest.minutes
    left: Sequence[str] = contest.subjects
    while (look := contest.design.next_look(board.launches)) is not None:
        while board.launches < look:
            if board.launches and time.monotonic() > until:
                return _spent(board, contest.design)
            found, lost = _once(contest, left, folder / f"launch-{board.launches}", board, watcher)
            if not board.launches:
                _require_alike(contest, found)
                _require_whole(found, lost)
            board.add(found, lost)
            left = [subject for subject in left if subject not in board.lost]
        board.look(contest.design)
        watcher.looked(board)
        left = [subject for subject in board.undecided() if subject != "process"]
        if not board.undecided():
            break
    return board


def _once(
    contest: Contest, left: Sequence[str], folder: Path, board: Board, watcher: Watcher
) -> tuple[Launch, list[Lost]]:
    most = contest.plan.looks[-1]
    say: Callable[[str], None] = lambda subject: watcher.launched(board.launches + 1, most, subject)  # noqa: E731
    return launch(contest.seats, left, contest.preset, contest.plan, folder, say)


def _spent(board: Board, design: Design) -> Board:
    """Judge what there is when the minutes are over; a look that was not reached is a look with fewer launches, which promises no less."""
    board.look(design)
    return board


def _require_alike(contest: Contest, found: Launch) -> None:
    """Refuse to compare unlike devices or drivers, unless that was asked for."""
    for fact in ("name", "driver"):
        base, head = (facts.get(fact) for facts in found.facts)
        if base != head and not contest.allow_unlike:
            raise Refusal(
                f"the two sides have another device {fact} ({base} and {head}); a difference would not be the change's; "
                "add --allow-unlike if that is what is compared"
            )


def _require_whole(found: Launch, lost: list[Lost]) -> None:
    """A subject that the base has and the head has not was dropped; the launch lost it, and this says why."""
    base, head = (set(facts.get("subjects", ())) for facts in found.facts)
    for number, one in enumerate(lost):
        if one.subject in base - head:
            lost[number] = Lost(
                one.subject, one.side, Verdict.FAILED, f"head: '{one.subject}' was dropped; the base has it"
            )
        elif one.subject in head - base:
            reason = f"base: has no '{one.subject}' yet, so there is nothing to compare it with"
            lost[number] = Lost(one.subject, one.side, Verdict.NOT_APPLICABLE, reason)


def conclude(board: Board, record: Record, same_torch: bool) -> None:
    """Turn the board into checks, and the checks into the verdict of the record."""
    for subject, one in board.lost.items():
        record.checks.append(Check(f"gate/{subject}::runs", one.verdict, one.reason, 0.0))
    for cell in board.cells.values():
        record.checks.append(_check(cell))
    for subject, pairs in board.counted.items():
        for counter in counters_of(pairs, board.plan.counters):
            record.checks.append(_counted(subject, counter, pairs, same_torch))
    record.verdict = _whole(board, record)


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
    if outcome is Outcome.INCONCLUSIVE or (outcome is Outcome.SLOWER and not same_torch):
        verdict = Verdict.NOT_APPLICABLE
        reason += "" if same_torch else "; the sides have different torch, so this does not gate"
    figures = {"base": pairs[0][0][counter], "head": pairs[0][1][counter]}
    return Check(f"gate/{subject}::{counter}", verdict, f"{outcome.value} {reason}", 0.0, dict(figures))


def _whole(board: Board, record: Record) -> Verdict:
    """Return the gate's verdict; one in which no time could be judged says nothing, whatever the counters say."""
    verdict = overall(check.verdict for check in record.checks)
    judged = [cell for cell in board.cells.values() if cell.what == "time" and cell.ruling and cell.ruling.decided]
    return Verdict.INCONCLUSIVE if verdict is Verdict.PASSED and not judged else verdict
