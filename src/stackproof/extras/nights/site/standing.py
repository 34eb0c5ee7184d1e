"""How each stack stands as a whole: what its card on the first page and its badge say, and of how many suites."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from stackproof.api.base import counted
from stackproof.extras.nights.site.matrix import CellState, MatrixCell, StackMatrix
from stackproof.extras.nights.site.shelf import ShelvedRun

_PROOFS = (CellState.PASSED, CellState.KNOWN_ISSUE)
_NAMED = 3


class StackWord(str, Enum):
    """What is said of a whole stack; what wants a look first."""

    FAILED = "failed"
    PARTLY = "in part"
    KNOWN_ISSUE = "known issue"
    PASSED = "passed"
    STALE = "stale"
    REHEARSED = "rehearsed"
    UNVERIFIED = "unverified"
    NEVER = "never run"


@dataclass(frozen=True)
class StackStanding:
    """A stack in a word, with its scope: `proved` of `wanted` suites; `day`: the oldest of their proofs. `run` shows it, if any does."""

    stack: str
    word: StackWord
    proved: int
    wanted: int
    scope: str
    day: str
    run: ShelvedRun | None
    unpinned: bool
    double: bool

    @property
    def badge(self) -> str:
        """What a badge says: never the word alone, as a pass of one suite is no pass of the stack."""
        if self.word is StackWord.NEVER:
            return str(self.word.value)
        if self.word is StackWord.STALE:
            return f"stale since {self.day}"
        marks = ("unpinned" if self.unpinned else "", "no card" if self.double else "")
        return ", ".join(filter(None, (self.scope.partition(":")[0], *marks, self.day)))


def standings(cells: StackMatrix, doubles: Collection[str]) -> list[StackStanding]:
    """Return how each stack stands, those first of which most is known; `doubles` have no card."""
    found = [_standing(stack, cells, stack in doubles) for stack in cells.stacks]
    return sorted(found, key=lambda one: list(StackWord).index(one.word))


def _standing(stack: str, cells: StackMatrix, double: bool) -> StackStanding:
    """Green needs every suite of a night, proved on the device and fresh; a failure of any suite is one of the stack."""
    wanted = [cells.cells[stack, suite] for suite in cells.nightly]
    groups = {state: [cell for cell in wanted if cell.state is state] for state in CellState}
    groups[CellState.FAILED] = [cell for cell in cells.of(stack) if cell.state is CellState.FAILED]
    proved = [cell for state in _PROOFS for cell in groups[state]]
    word, those = _said(groups, proved, wanted, cells.of(stack))
    if word is StackWord.NEVER and stack in cells.measured:
        word = StackWord.UNVERIFIED
    days = sorted(cell.run.day for cell in those if cell.run)
    day = "" if not days else days[-1] if word is StackWord.STALE else days[0]
    shows = next((cell.run for cell in those if cell.run), cells.measured.get(stack))
    unpinned = any(cell.run.record.provenance.get("pinned") is False for cell in those if cell.run)
    scope = _scope(word, those, proved, wanted, day)
    return StackStanding(stack, word, len(proved), len(wanted), scope, day, shows, unpinned, double)


def _said(
    groups: dict[CellState, list[MatrixCell]], proved: list[MatrixCell], wanted: list[MatrixCell], every: list[MatrixCell]
) -> tuple[StackWord, Sequence[MatrixCell]]:  # fmt: skip
    """Return the word, and the cells that it is said for."""
    if groups[CellState.FAILED]:
        return StackWord.FAILED, groups[CellState.FAILED]
    if proved and len(proved) == len(wanted):
        known = groups[CellState.KNOWN_ISSUE]
        return (StackWord.KNOWN_ISSUE, [*known, *groups[CellState.PASSED]]) if known else (StackWord.PASSED, proved)
    if proved:
        return StackWord.PARTLY, proved
    for state, word in ((CellState.REHEARSED, StackWord.REHEARSED), (CellState.STALE, StackWord.STALE)):
        if groups[state]:
            return word, groups[state]
    ran = [cell for cell in every if cell.run]
    return (StackWord.UNVERIFIED, ran) if ran else (StackWord.NEVER, [])


def _scope(
    word: StackWord, those: Sequence[MatrixCell], proved: Sequence[MatrixCell], wanted: Sequence[MatrixCell], day: str
) -> str:  # fmt: skip
    of = f"of {counted(len(wanted), 'suite')}"
    if word is StackWord.FAILED:
        more = f" and {len(those) - _NAMED} more" if len(those) > _NAMED else ""
        return f"{counted(len(those), 'suite')} failed: {', '.join(cell.suite for cell in those[:_NAMED])}{more}"
    if word is StackWord.KNOWN_ISSUE:
        known = sum(cell.state is CellState.KNOWN_ISSUE for cell in those)
        return f"{len(proved)} {of} passed, {known} with known issues"
    if word in (StackWord.PASSED, StackWord.PARTLY):
        return f"{len(proved)} {of} passed"
    if word is StackWord.REHEARSED:
        return f"{len(those)} {of} rehearsed"
    if word is StackWord.STALE:
        return f"nothing since {day}"
    if word is StackWord.UNVERIFIED:
        return "no suite is proved" if those else "measured, and no suite verified"
    return "no record of it is here"
