"""What tonight makes of all nights before: the scan, and for each suspicion at once the gate of both its states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from stackproof.api.base import statistics, text
from stackproof.api.record import Figure, Verdict, store
from stackproof.api.runs import verbs
from stackproof.extras.nights.drift import findings, report
from stackproof.extras.nights.drift.findings import PlaceDrift, Suspicion, SuspicionState


def look(tops: Sequence[Path], stack: str, facts: Mapping[str, Figure]) -> PlaceDrift | None:
    """Return what all nights of tonight's place tell; None where tonight is not among them."""
    here = store.place(facts)
    return next((one for one in findings.look(tops, stack).places if one.place == here), None)


def scanned(found: PlaceDrift | None) -> verbs.StageOutcome:
    """Say what is suspected as of tonight."""
    if found is None:
        return verbs.StageOutcome(Verdict.SKIPPED, "no night of this place can be read, so there is nothing to look at")
    if found.lacking:
        return verbs.StageOutcome(
            Verdict.SKIPPED, f"{text.counted(found.lacking, 'more night')} needed before a step can be seen"
        )
    told = "; ".join(_suspected(one) for one in found.suspicions) or "nothing is suspected"
    told += "".join(f"; {far.figure.label}: for users {far.sentence}" for far in found.long_terms if far.clear)
    return verbs.StageOutcome(
        Verdict.PASSED,
        f"{text.counted(len(found.nights), 'night')} of {text.counted(len(found.trends), 'figure')}: {told}",
    )


def _suspected(one: Suspicion) -> str:
    way = "slower" if one.slower else "faster"
    return f"{one.figure.label} {one.kind.value} {statistics.percent(one.size)} {way} since {one.after.day} ({_causes(one)})"


def surest(found: PlaceDrift | None, most: int) -> list[Suspicion]:
    """Return the suspicions that are put to a gate tonight."""
    return sorted(found.suspicions, key=lambda one: -abs(one.score))[:most] if found else []


def name(one: Suspicion) -> str:
    """Return what a suspicion is called among the checks."""
    return f"confirm::{one.figure.subject} {one.kind.value}"


def became(one: Suspicion, ended: verbs.StageOutcome, after: PlaceDrift | None) -> verbs.StageOutcome:
    """Say what a gate made of a suspicion: confirmed is bad if it is slower, refuted is good, and open is neither."""
    if ended.verdict in (Verdict.HUNG, Verdict.CRASHED, Verdict.UNAVAILABLE, Verdict.MISMATCHED):
        return verbs.StageOutcome(Verdict.INCONCLUSIVE, f"the gate gave no answer: {ended.reason}")
    how = "" if one.interleaved else ", not interleaved"
    by_gates = reversed(after.settled if after else ())
    settled = next((step for step in by_gates if _identity(step) == _identity(one)), None)
    if settled is None:
        return verbs.StageOutcome(Verdict.SKIPPED, f"stays open{how}: {_suspected(one)}; the gate: {ended.reason}")
    seen = f"{report.size_seen(settled)}{how}"
    if settled.state is SuspicionState.REFUTED:
        return verbs.StageOutcome(Verdict.PASSED, f"refuted: {_suspected(one)}; the gate saw {seen}")
    verdict = Verdict.FAILED if one.slower else Verdict.PASSED
    return verbs.StageOutcome(verdict, f"confirmed: {seen}, {_causes(settled)} ({settled.why})")


def _identity(one: Suspicion) -> tuple[object, ...]:
    return one.figure, one.kind, one.after.path


def confirmed_slowdowns(found: PlaceDrift | None, tonight: str) -> verbs.StageOutcome:
    """Say which slowdowns are confirmed: one of tonight fails the night, one of before is known; `tonight`: when the night began."""
    slower = found.slowdowns if found else []
    if not slower:
        return verbs.StageOutcome(Verdict.PASSED, "no slowdown is confirmed")
    words = "; ".join(report.confirmed_line(one) for one in slower)
    if fresh := [one for one in slower if one.gate and one.gate.started >= datetime.fromisoformat(tonight)]:
        return verbs.StageOutcome(Verdict.FAILED, f"{len(fresh)} confirmed tonight: {words}")
    return verbs.StageOutcome(
        Verdict.KNOWN_ISSUE, f"{len(slower)} confirmed on an earlier night, and no gate has seen faster since: {words}"
    )


def _causes(one: Suspicion) -> str:
    return " and ".join(cause.value for cause in one.causes)
