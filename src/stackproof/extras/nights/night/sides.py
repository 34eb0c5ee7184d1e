"""Today's side and the frozen ones of a night: built, proved and measured; a disturbed measurement is taken once more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import EnvironmentMismatchError, Refusal, StackUnavailableError, counted
from stackproof.api.gate import LaunchTerms, SideEndedError, SideSpec, Variant, of, variants
from stackproof.api.gate import plan as gate_plan
from stackproof.api.record import NOT_EXECUTED, Check, Verdict, store
from stackproof.api.runs import StageOutcome, profile
from stackproof.extras.nights.drift.nights import ANCHOR, DISTURBED, FORMER, VERB, Measured, nights
from stackproof.extras.nights.night.admission import disturbances
from stackproof.extras.nights.night.anchors import FrozenSide
from stackproof.extras.nights.night.measure import MeasuredNight, Measuring, measure

if TYPE_CHECKING:
    from stackproof.extras.nights.night.night import NightRequest, NightRun

_NAMES = {Measured.TODAY: "today", Measured.ANCHOR: "anchor", Measured.FORMER: "former"}
_ATTEMPTS = 2
_VERDICTS = {StackUnavailableError: Verdict.UNAVAILABLE, EnvironmentMismatchError: Verdict.MISMATCHED}


def frozen(asked: NightRequest) -> dict[Measured, FrozenSide]:
    """Return the frozen sides of tonight: the anchor, and the former one for as long as it is being chained."""
    found = {Measured.ANCHOR: asked.anchors.anchor}
    if asked.anchors.former:
        earlier, _ = nights(store.dated(store.read(store.files(asked.tops, (VERB,)))))
        if former := asked.anchors.beside(one for one in earlier if one.place.stack == asked.stack.name):
            found[Measured.FORMER] = former
    return found


def facts(chosen: dict[Measured, FrozenSide]) -> dict[str, str]:
    """Return what a record keeps of the frozen sides."""
    names = {Measured.ANCHOR: ANCHOR, Measured.FORMER: FORMER}
    return {names[side]: one.digest for side, one in chosen.items()}


def measured(run: NightRun) -> None:
    """Measure the sides, take the figures over, and say whether the night is admitted; all of it is one step of the record."""
    if run.ledger.ended("figures"):
        return
    began = time.monotonic()
    try:
        sides = _built(run)
        found, reasons = _admitted(run, sides)
    except SideEndedError as ended:
        run.add("figures", began, StageOutcome(ended.verdict, str(ended)))
    except Refusal as refusal:
        run.add("figures", began, StageOutcome(_VERDICTS.get(type(refusal), Verdict.FAILED), str(refusal)))
    else:
        _take_over(run, found, reasons, time.monotonic() - began)


def _built(run: NightRun) -> dict[Measured, SideSpec]:
    """Build today's side, and the frozen ones that can still be built."""
    asked = run.asked
    sides = {Measured.TODAY: _spec(run, Variant(_NAMES[Measured.TODAY]))}
    for side, one in frozen(asked).items():
        try:
            sides[side] = _spec(run, Variant(_NAMES[side], one.commit))
        except Refusal as refusal:
            _without(run, side, str(refusal))
    return sides


def _spec(run: NightRun, variant: Variant) -> SideSpec:
    asked = run.asked
    run.ledger.say(f"building: {variant.name}")
    if asked.unpinned:
        return variants.unpinned(variant, asked.stack, asked.profile, asked.device, asked.unpinned)
    return variants.prepared(variant, asked.stack, asked.profile, asked.device, run.ledger.say)


def _without(run: NightRun, side: Measured, why: str) -> None:
    """Say that a frozen side cannot run: a night without it tells of today's side alone."""
    instead = "choose a new one with `night --anchor new` while it still can, or the series begins anew"
    run.ledger.add(
        Check(side.value, Verdict.INCONCLUSIVE, f"the {side.value} cannot run, and is left out: {why}; {instead}", 0.0)
    )


def _admitted(run: NightRun, sides: dict[Measured, SideSpec]) -> tuple[MeasuredNight, list[str]]:
    """Measure until nothing has disturbed it, twice at most; return what was seen last and what disturbed that."""
    asked, rules = run.asked, run.asked.plan.admission
    pause = rules.pause if asked.pause < 0 else asked.pause
    for attempt in range(1, _ATTEMPTS + 1):
        found = _measured(run, sides, run.ledger.folder / f"measure-{attempt}")
        reasons = disturbances(found.conditions, rules, asked.stack.device)
        if not reasons or attempt == _ATTEMPTS:
            break
        run.ledger.say(f"disturbed: {'; '.join(reasons)}; measured once more in {pause:.0f} s")
        time.sleep(pause)
    return found, [f"disturbed {attempt} times, the last time because {'; '.join(reasons)}"] if reasons else []


def _measured(run: NightRun, sides: dict[Measured, SideSpec], folder: Path) -> MeasuredNight:
    """Measure; a frozen side that does not come up is left out, and the others are measured."""
    asked = run.asked
    terms = LaunchTerms(profile(asked.profile).preset, gate_plan.load(), asked.scale, asked.plan.energy.seconds)
    launches = asked.launches or int(of(asked.plan.measure.launches, asked.stack.device))
    run.ledger.say(f"measure: {' and '.join(_NAMES[side] for side in sides)} in turns; launches: {launches}")
    try:
        return measure(Measuring(sides, terms, launches, asked.stack.device, asked.only), folder, run.ledger.say)
    except (SideEndedError, Refusal) as ended:
        named = str(ended).partition(":")[0]
        side = next((one for one in sides if one is not Measured.TODAY and _NAMES[one] == named), None)
        if side is None:
            raise
        _without(run, side, str(ended))
        del sides[side]
        return _measured(run, sides, folder)


def _take_over(run: NightRun, found: MeasuredNight, reasons: list[str], seconds: float) -> None:
    record = run.ledger.record
    record.provenance |= found.facts
    record.provenance |= {DISTURBED: "; ".join(reasons)} if reasons else {}
    record.measurements = found.rows(profile(run.asked.profile).preset)
    for one in found.lost.values():
        record.checks.append(Check(f"runs::{one.subject}", one.verdict, one.reason, 0.0))
    record.checks.append(_admission(found, reasons))
    figures = StageOutcome(*_figures(found))
    record.checks.append(Check("figures", figures.verdict, figures.reason, seconds))
    for check in record.checks[-2:]:
        run.ledger.say(f"{check.verdict.value}: {check.id}: {check.reason}")
    run.ledger.keep()


def _admission(found: MeasuredNight, reasons: list[str]) -> Check:
    """Return whether the night counts; a disturbed one is left out of every series, and is no success."""
    loads = {f"launch {number}, others' share of the cores": load for number, load in enumerate(found.conditions.loads)}
    if reasons:
        return Check("admission", Verdict.INCONCLUSIVE, f"{'; '.join(reasons)}; the night is left out", 0.0, {**loads})
    said = "; ".join(found.conditions.said()) or "nothing is known to have disturbed it"
    return Check("admission", Verdict.PASSED, f"admitted: {said}", 0.0, {**loads})


def _figures(found: MeasuredNight) -> tuple[Verdict, str]:
    beside = [name for name, sides in found.seen.items() if Measured.ANCHOR in sides]
    alone = [f"{name} of today alone ({why})" for name, why in found.alone.items()]
    if not found.seen:
        bad = [one for one in found.lost.values() if one.verdict not in NOT_EXECUTED]
        return Verdict.FAILED, "no figure was measured" + (f": {bad[0].reason}" if bad else "")
    said = f"{counted(len(beside), 'figure')} beside the anchor; launches: {len(found.conditions.loads)}"
    return Verdict.PASSED, "; ".join([said, *alone])
