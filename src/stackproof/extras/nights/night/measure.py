"""Measures a night: today's side and the frozen ones in turns, launch after launch, on the live sides of the gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from stackproof.api.base import HostLoad
from stackproof.api.gate import Conditions, Launch, LaunchTerms, Lost, Observed, SideSpec, handshake, launch
from stackproof.api.record import Figure, Measurement, Verdict
from stackproof.extras.nights.drift.nights import FigureKey, Measured, NightSide

_FIRST = 1 << 10
"""Launches of a night are numbered from here: what a gate counts and captures in its first launches is left to gates."""
_Say = Callable[[str], None]


@dataclass
class Measuring:
    """What is measured: sides by what they are, for how many launches, on what terms; `only`: these subjects."""

    sides: Mapping[Measured, SideSpec]
    terms: LaunchTerms
    launches: int
    kind: str
    only: tuple[str, ...] = ()


@dataclass
class MeasuredNight:
    """What a night has seen, by subject and side; `lost` and `alone` are sentences by subject."""

    facts: dict[str, Figure]
    conditions: Conditions
    subjects: Mapping[str, Any]
    seen: dict[str, dict[Measured, list[Observed]]] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    alone: dict[str, str] = field(default_factory=dict)

    def rows(self, preset: str) -> list[Measurement]:
        """Return the rows of the record."""
        return [
            _row(name, side, seen, self.subjects[name], preset)
            for name, sides in self.seen.items()
            for side, seen in sides.items()
        ]


def measure(asked: Measuring, folder: Path, say: _Say) -> MeasuredNight:
    """Launch all sides so many times and return what they were seen to do.

    A subject that a frozen side cannot run any more is measured of today alone; one that today's side cannot run is lost.

    Raises:
        SideEndedError: a side does not come up.
    """
    told = handshake(tuple(asked.sides.values()), asked.terms, folder / "handshake")
    known = {side: _comparable(asked, told[spec.name]["subjects"]) for side, spec in asked.sides.items()}
    today = known[Measured.TODAY]
    plan = replace(asked.terms.plan, asked=today)
    asked = replace(asked, terms=replace(asked.terms, plan=plan))
    wanted = {name: _sides_with(name, one, known) for name, one in today.items()}
    found = MeasuredNight(told[asked.sides[Measured.TODAY].name]["facts"], Conditions(plan.conditions), today)
    found.alone = {
        name: "the frozen side has no such figure, or another version of it"
        for name, sides in wanted.items()
        if Measured.ANCHOR in known and Measured.ANCHOR not in sides
    }
    for number in range(asked.launches):
        _launch(asked, wanted, number, folder, found, say)
    return found


def _comparable(asked: Measuring, subjects: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out kinds that cannot live in one process, what is not worth its time here, and what was not asked for."""
    plan = replace(asked.terms.plan, asked=subjects)
    return {
        name: one
        for name, one in subjects.items()
        if one["kind"] not in plan.design.left_out
        and (name in asked.only if asked.only else not plan.spares(name, asked.kind))
    }


def _sides_with(name: str, today: Mapping[str, Any], known: Mapping[Measured, Mapping[str, Any]]) -> list[Measured]:
    """Return the sides whose figures of a subject compare with today's."""
    alike = ("unit", "version")
    return [
        side for side, subjects in known.items() if all(subjects.get(name, {}).get(key) == today[key] for key in alike)
    ]


def _launch(
    asked: Measuring, wanted: dict[str, list[Measured]], number: int, folder: Path, found: MeasuredNight, say: _Say
) -> None:
    left = list(wanted)
    while left:
        sides = wanted[left[0]]
        now = [name for name in left if wanted[name] == sides]
        left = [name for name in left if name not in now]
        specs = tuple(asked.sides[side] for side in sides)
        at = folder / f"launch-{number}"
        load = HostLoad()
        launched, lost = launch(
            specs,
            now,
            asked.terms,
            _FIRST + number,
            at,
            lambda name: say(f"launch {number + 1} of {asked.launches}: {name}"),
        )
        found.conditions.add(launched.conditions, load.share())
        _take(asked, launched, sides, found)
        for one in lost:
            left += _without(asked, one, wanted, found)


def _take(asked: Measuring, launched: Launch, sides: Iterable[Measured], found: MeasuredNight) -> None:
    for name, seen in launched.seen.items():
        for side in sides if name in found.subjects else ():
            if asked.sides[side].name in seen:
                found.seen.setdefault(name, {}).setdefault(side, []).append(seen[asked.sides[side].name])


def _without(asked: Measuring, one: Lost, wanted: dict[str, list[Measured]], found: MeasuredNight) -> Iterator[str]:
    """Leave a frozen side out of a subject that it cannot run, and yield the subject again; one that today's cannot run is lost."""
    frozen = [side for side in wanted[one.subject] if side is not Measured.TODAY and asked.sides[side].name == one.side]
    if frozen and one.verdict is not Verdict.SKIPPED:
        wanted[one.subject] = [side for side in wanted[one.subject] if side not in frozen]
        found.alone[one.subject] = one.reason
        yield one.subject
        return
    found.lost[one.subject] = one
    del wanted[one.subject]


def _row(name: str, side: Measured, seen: Sequence[Observed], told: Mapping[str, Any], preset: str) -> Measurement:
    """Return the row of a side: a sample a round of A B B A, so that the n-th of one side ran beside the n-th of the other."""
    unit = told["unit"]
    amount = 1.0 if unit in ("s", "ratio") else seen[0].worth[unit.removeprefix("s/")]
    samples = tuple(seconds / amount for one in seen for seconds in _rounds(one.blocks))
    row = NightSide(FigureKey(name, preset, 1, unit, told["version"]), "", side, samples).row()
    row.figures |= {"verified": seen[0].proved, "launches": len(seen)}
    if joules := [one.joules / amount for one in seen if one.joules > 0]:
        what = f"J/{unit.removeprefix('s/')}"
        row.figures[what] = median(joules)
        row.note += f"; {median(joules):.3g} {what}"
    return row


def _rounds(blocks: Sequence[float]) -> list[float]:
    """Return the geometric mean of the two blocks of each round: both sides have the same middle of time there."""
    return [math.sqrt(first * second) for first, second in zip(blocks[::2], blocks[1::2], strict=True)]
