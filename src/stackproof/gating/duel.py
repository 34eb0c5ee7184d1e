"""One launch of a gate: two live sides, and for each subject blocks of steps in turn, A B B A."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..records import Verdict
from .live import Answer, LiveSide, Seat, SideEndedError
from .plan import GatePlan

_OPEN_S = 300.0
_LEAST_BLOCK_S = 60.0
Say = Callable[[str], None]


@dataclass
class Launch:
    """What one launch saw, by subject: blocks of base and head in seconds per run, in the order they ran."""

    base: dict[str, list[float]] = field(default_factory=dict)
    head: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    counters: dict[str, tuple[dict[str, int], dict[str, int]]] = field(default_factory=dict)
    proved: dict[str, str] = field(default_factory=dict)
    start_up: tuple[float, float] = (math.nan, math.nan)
    facts: tuple[Answer, Answer] = field(default_factory=lambda: ({}, {}))


@dataclass(frozen=True)
class Lost:
    """A subject that cannot be compared, on one side or both."""

    subject: str
    side: str
    verdict: Verdict
    reason: str


def launch(
    seats: tuple[Seat, Seat], subjects: Sequence[str], preset: str, plan: GatePlan, folder: Path, say: Say
) -> tuple[Launch, list[Lost]]:
    """Start both sides, duel over every subject, and end them.

    A subject that one side cannot run, or computes wrong, is lost and the others go on; a side that dies is
    started again, because one crash must not hide what the other subjects show.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found, lost, left = Launch(), list[Lost](), list(subjects)
    while left or not found.facts[0]:
        with LiveSide(seats[0], folder / "base.log") as base, LiveSide(seats[1], folder / "head.log") as head:
            found.facts = (base.hello(), head.hello())
            found.start_up = (float(found.facts[0]["start_up"]), float(found.facts[1]["start_up"]))
            while left:
                subject = left.pop(0)
                try:
                    _duel(base, head, subject, preset, plan, found)
                except SideEndedError as ended:
                    _forget(found, subject)
                    lost.append(Lost(subject, str(ended).partition(":")[0], ended.verdict, str(ended)))
                    if ended.verdict in (Verdict.HUNG, Verdict.CRASHED):
                        break
                say(subject)
    return found, lost


def _duel(base: LiveSide, head: LiveSide, subject: str, preset: str, plan: GatePlan, found: Launch) -> None:
    """Prove and warm both, then alternate blocks; both are open all the time, so that only one thing differs: the turn."""
    opened = [side.ask("open", _OPEN_S, subject=subject, preset=preset, seconds=3.0) for side in (base, head)]
    runs = max(1, round(plan.block_seconds / max(one["seconds"] for one in opened)))
    deadline = _LEAST_BLOCK_S + 20 * runs * max(one["seconds"] for one in opened)
    blocks: dict[LiveSide, list[float]] = {base: [], head: []}
    for side in (base, head):  # the base has cooled while the head was built
        side.ask("block", deadline, runs=runs)
    for _ in range(plan.rounds):
        for side in (base, head, head, base):
            blocks[side].append(float(side.ask("block", deadline, runs=runs)["seconds"]))
    for side in (base, head):
        side.ask("close", deadline)
    found.base[subject], found.head[subject] = blocks[base], blocks[head]
    found.memory[subject] = (int(opened[0]["memory"]), int(opened[1]["memory"]))
    found.counters[subject] = (opened[0]["counters"], opened[1]["counters"])
    found.proved[subject] = str(opened[1]["proved"])


def _forget(found: Launch, subject: str) -> None:
    for table in (found.base, found.head, found.memory, found.counters, found.proved):
        table.pop(subject, None)  # type: ignore[attr-defined]
