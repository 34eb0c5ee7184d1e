"""Measures a night: today's side and the frozen one in turns, on the live sides of the gate; once more where it was disturbed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, processes, text
from stackproof.api.gate import interleave, variants
from stackproof.api.gate import plan as gate_plan
from stackproof.api.record import Check, Figure, Measurement, Verdict
from stackproof.api.runs import bench_subjects
from stackproof.extras import verbs
from stackproof.extras.nights.drift.series import DISTURBED, FigureKey, Measured, side_row
from stackproof.extras.nights.night import request
from stackproof.extras.nights.night.request import NightRun, disturbances

_FIRST = 1 << 10
"""Launches of a night are numbered from here: what a gate counts in its first launches is left to gates."""
_Say = Callable[[str], None]


@dataclass
class Measuring:
    """What is measured: sides by what they are, for how many launches, on what terms; `only`: these subjects."""

    sides: Mapping[Measured, interleave.SideSpec]
    terms: interleave.LaunchTerms
    launches: int
    kind: str
    only: tuple[str, ...] = ()


@dataclass
class MeasuredNight:
    """What a night has seen, by subject and side; `lost` and `alone` are sentences by subject."""

    facts: dict[str, Figure]
    conditions: interleave.Conditions
    subjects: Mapping[str, Any]
    seen: dict[str, dict[Measured, list[interleave.Observed]]] = field(default_factory=dict)
    lost: dict[str, interleave.Lost] = field(default_factory=dict)
    alone: dict[str, str] = field(default_factory=dict)

    def rows(self, preset: str) -> list[Measurement]:
        every = ((name, side, seen) for name, sides in self.seen.items() for side, seen in sides.items())
        return [_row(name, side, seen, self.subjects[name], preset) for name, side, seen in every]


def launch_all(asked: Measuring, folder: Path, say: _Say) -> MeasuredNight:
    """Launch all sides so many times and return what they were seen to do.

    A subject that a frozen side cannot run any more is measured of today alone; one that today's side cannot run is lost.

    SideEndedError: a side does not come up.
    """
    groups = interleave.handshake(tuple(asked.sides.values()), asked.terms, folder / "handshake")
    known = {side: _comparable(asked, groups[spec.name]["subjects"]) for side, spec in asked.sides.items()}
    today = known[Measured.TODAY]
    plan = replace(asked.terms.plan, asked=today)
    asked = replace(asked, terms=replace(asked.terms, plan=plan))
    facts = groups[asked.sides[Measured.TODAY].name]["facts"]
    night = MeasuredNight(facts, interleave.Conditions(plan.conditions), today)
    if (theirs := known.get(Measured.ANCHOR)) is not None:
        lacking = [name for name, row in today.items() if _version(row) != _version(theirs.get(name, {}))]
        night.alone = dict.fromkeys(lacking, "the anchor has no such figure, or another version of it")
    for number in range(asked.launches):
        _launch(asked, number, folder, night, say)
    return night


def _version(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row.get("unit"), row.get("version")


def _comparable(asked: Measuring, subjects: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out kinds that cannot live in one process, what is not worth its time here, and what was not asked for."""
    plan = replace(asked.terms.plan, asked=subjects)
    alive = {name: item for name, item in subjects.items() if item["kind"] not in plan.design.left_out}
    chosen = asked.only or [name for name in alive if not plan.spares(name, asked.kind)]
    return {name: item for name, item in alive.items() if name in chosen}


def _launch(asked: Measuring, number: int, folder: Path, night: MeasuredNight, say: _Say) -> None:
    """Launch what all sides can run, then what is measured of today alone, to which goes what the anchor has just lost."""
    for alone in (False, True):
        names = [name for name in night.subjects if name not in night.lost and (name in night.alone) is alone]
        if not names:
            continue
        sides = {Measured.TODAY: asked.sides[Measured.TODAY]} if alone else asked.sides
        at, load = folder / f"launch-{number}", processes.HostLoad()
        launched, lost = interleave.launch(
            tuple(sides.values()), names, asked.terms, _FIRST + number, at,
            lambda name: say(f"launch {number + 1} of {asked.launches}: {name}"),
        )  # fmt: skip
        night.conditions.add(launched.conditions, load.share())
        for name, side in product(names, sides):
            if seen := launched.seen.get(name, {}).get(sides[side].name):
                night.seen.setdefault(name, {}).setdefault(side, []).append(seen)
        for loss in lost:
            if loss.side == Measured.ANCHOR.value and loss.verdict is not Verdict.SKIPPED:
                night.alone[loss.subject] = loss.reason
            else:
                night.lost[loss.subject] = loss


def _row(
    name: str, side: Measured, seen: Sequence[interleave.Observed], fields: Mapping[str, Any], preset: str
) -> Measurement:
    """Return the row of a side: a sample a round of A B B A, so that the n-th of one side ran beside the n-th of the other."""
    unit = fields["unit"]
    amount = 1.0 if unit in ("s", "ratio") else seen[0].worth[unit.removeprefix("s/")]
    samples = [seconds / amount for launch in seen for seconds in _rounds(launch.blocks)]
    row = side_row(FigureKey(name, preset, unit, fields["version"]), side, samples)
    row.figures |= {"verified": seen[0].proved, "launches": len(seen)}
    return row


def _rounds(blocks: Sequence[float]) -> list[float]:
    """Return the geometric mean of the two blocks of each round: both sides have the same middle of time there."""
    return [math.sqrt(first * second) for first, second in zip(blocks[::2], blocks[1::2], strict=True)]


_ATTEMPTS = 2


def measured(run: NightRun) -> None:
    """Measure the sides, take the figures over, and say whether the night is admitted; all of it is one step of the record."""
    began = time.monotonic()
    try:
        sides = _built(run)
        night, reasons = _admitted(run, sides)
    except interleave.SideEndedError as ended:
        run.add("figures", began, verbs.StageOutcome(ended.verdict, str(ended)))
    except Refusal as refusal:
        verdict = verbs.VERDICTS.get(refusal.exit_code, Verdict.FAILED)
        run.add("figures", began, verbs.StageOutcome(verdict, str(refusal)))
    else:
        _take_over(run, night, reasons, time.monotonic() - began)


def _built(run: NightRun) -> dict[Measured, interleave.SideSpec]:
    sides = {Measured.TODAY: _spec(run, variants.Variant(Measured.TODAY.value))}
    try:
        sides[Measured.ANCHOR] = _spec(run, variants.Variant(Measured.ANCHOR.value, run.asked.anchor))
    except Refusal as refusal:
        _leave_out(run, str(refusal))
    return sides


def _spec(run: NightRun, variant: variants.Variant) -> interleave.SideSpec:
    asked = run.asked
    run.ledger.say(f"building: {variant.name}")
    if asked.unpinned:
        return variants.unpinned(variant, asked.stack, asked.profile, asked.device, asked.unpinned)
    return variants.prepared(variant, asked.stack, asked.profile, asked.device, run.ledger.say)


def _leave_out(run: NightRun, why: str) -> None:
    """Say that the anchor cannot run: a night without it tells of today's side alone."""
    reason = f"the anchor cannot run, and is left out: {why}; choose a new one with `{request.NEW}`"
    run.ledger.add(Check(Measured.ANCHOR.value, Verdict.INCONCLUSIVE, reason, 0.0))


def _admitted(run: NightRun, sides: dict[Measured, interleave.SideSpec]) -> tuple[MeasuredNight, list[str]]:
    """Measure until nothing has disturbed it, twice at most; return what was seen last and what disturbed that."""
    asked, rules = run.asked, run.asked.plan.admission
    for attempt in range(1, _ATTEMPTS + 1):
        night = _measured(run, sides, run.ledger.folder / f"measure-{attempt}")
        reasons = disturbances(night.conditions, rules, asked.stack.device)
        if not reasons or attempt == _ATTEMPTS:
            break
        run.ledger.say(f"disturbed: {'; '.join(reasons)}; measured once more in {rules.pause:.0f} s")
        time.sleep(rules.pause)
    return night, [f"disturbed {attempt} times, the last time because {'; '.join(reasons)}"] if reasons else []


def _measured(run: NightRun, sides: dict[Measured, interleave.SideSpec], folder: Path) -> MeasuredNight:
    asked = run.asked
    terms = interleave.LaunchTerms(bench_subjects.profile(asked.profile).preset, gate_plan.load(), asked.scale)
    launches = int(gate_plan.of(asked.plan.launches, asked.stack.device))
    run.ledger.say(f"measure: {' and '.join(side.value for side in sides)} in turns; launches: {launches}")
    try:
        return launch_all(Measuring(sides, terms, launches, asked.stack.device, asked.only), folder, run.ledger.say)
    except (interleave.SideEndedError, Refusal) as ended:
        if Measured.ANCHOR not in sides or str(ended).partition(":")[0] != Measured.ANCHOR.value:
            raise
        _leave_out(run, str(ended))
        del sides[Measured.ANCHOR]
        return _measured(run, sides, folder)


def _take_over(run: NightRun, night: MeasuredNight, reasons: list[str], seconds: float) -> None:
    record = run.ledger.record
    record.provenance |= night.facts
    record.provenance |= {DISTURBED: "; ".join(reasons)} if reasons else {}
    record.measurements = night.rows(bench_subjects.profile(run.asked.profile).preset)
    for loss in night.lost.values():
        record.checks.append(Check(f"runs::{loss.subject}", loss.verdict, loss.reason, 0.0))
    record.checks.append(_admission(night, reasons))
    record.checks.append(Check("figures", *_figures(night), seconds))
    for check in record.checks[-2:]:
        run.ledger.say(f"{check.verdict.value}: {check.id}: {check.reason}")
    run.ledger.keep()


def _admission(night: MeasuredNight, reasons: list[str]) -> Check:
    """Return whether the night counts; a disturbed one is left out of every series, and is no success."""
    verdict, sentence = Verdict.INCONCLUSIVE, f"{'; '.join(reasons)}; the night does not count"
    if not reasons:
        seen = "; ".join(night.conditions.sentences()) or "nothing is known to have disturbed it"
        verdict, sentence = Verdict.PASSED, f"admitted: {seen}"
    loads = {f"launch {number}, others' share of the cores": load for number, load in enumerate(night.conditions.loads)}
    return Check("admission", verdict, sentence, 0.0, {**loads})


def _figures(night: MeasuredNight) -> tuple[Verdict, str]:
    beside = [name for name, sides in night.seen.items() if Measured.ANCHOR in sides]
    alone = [f"{name} without the anchor ({why})" for name, why in night.alone.items()]
    if not night.seen:
        bad = [loss for loss in night.lost.values() if loss.verdict.executed]
        return Verdict.FAILED, "no figure was measured" + (f": {bad[0].reason}" if bad else "")
    sentence = f"{text.counted(len(beside), 'figure')} beside the anchor; launches: {len(night.conditions.loads)}"
    return Verdict.PASSED, "; ".join([sentence, *alone])
