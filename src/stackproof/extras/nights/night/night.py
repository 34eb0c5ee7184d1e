"""A night from its first stage to its last: prove, measure, scan, put suspicions to gates, show, tell; one record, one exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, processes, text
from stackproof.api.gate import plan
from stackproof.api.record import Check, Figure, Record, Verdict, reading, resume, store
from stackproof.api.runs import suites
from stackproof.extras import verbs
from stackproof.extras.nights import STAGES
from stackproof.extras.nights.drift import findings
from stackproof.extras.nights.drift.findings import PlaceDrift, Suspicion
from stackproof.extras.nights.drift.series import VERB
from stackproof.extras.nights.night import measure
from stackproof.extras.nights.night.request import NightRun


def place_drift(tops: Sequence[Path], stack: str, facts: Mapping[str, Figure]) -> PlaceDrift | None:
    """Return what the nights of tonight's place show; None where tonight is not among them."""
    here = store.place(facts)
    return next((place for place in findings.read_drift(tops, stack).places if place.place == here), None)


def scanned(drift: PlaceDrift | None) -> verbs.StageOutcome:
    if drift is None:
        return verbs.StageOutcome(
            Verdict.SKIPPED, "no night of this place can be read, so that nothing can be compared"
        )
    if drift.lacking:
        needed = f"{text.counted(drift.lacking, 'more night')} needed before a step can be seen"
        return verbs.StageOutcome(Verdict.SKIPPED, needed)
    sentence = "; ".join(map(findings.line, drift.suspicions)) or "nothing is suspected"
    sentence += "".join(f"; {far.figure.label}: {far.sentence}" for far in drift.long_terms if far.clear)
    counts = f"{text.counted(len(drift.nights), 'night')} of {text.counted(len(drift.trends), 'figure')}"
    return verbs.StageOutcome(Verdict.PASSED, f"{counts}: {sentence}")


def surest(drift: PlaceDrift | None, most: int) -> list[Suspicion]:
    asked = [suspicion for suspicion in drift.suspicions if suspicion.interleaved] if drift else []
    return sorted(asked, key=lambda suspicion: -abs(suspicion.score))[:most]


_OF_GATE: Mapping[Figure | None, Verdict] = {0: Verdict.PASSED, 1: Verdict.PASSED, 6: Verdict.SKIPPED}
"""What a gate is as a stage, by its exit code; any other is no answer. Whether it confirmed a slowdown, `slowdowns` says."""


def confirmed_slowdowns(drift: PlaceDrift | None, tonight: str) -> verbs.StageOutcome:
    """Say which slowdowns are confirmed: one of tonight fails the night, one of before is known; `tonight`: when the night began."""
    if drift is None or not (slower := drift.slowdowns):
        return verbs.StageOutcome(Verdict.PASSED, "no slowdown is confirmed")
    words, began = "; ".join(map(findings.line, slower)), datetime.fromisoformat(tonight)
    gates = [step.gate for step in drift.settled if step.gate]
    before = findings.examine(drift.place, [night for night in drift.nights if night.started < began], gates)
    known = {step.figure for step in before.slowdowns if not step.gate}
    if fresh := [step for step in slower if (step.gate.started >= began if step.gate else step.figure not in known)]:
        return verbs.StageOutcome(Verdict.FAILED, f"{len(fresh)} confirmed tonight: {words}")
    why = f"{len(slower)} confirmed on an earlier night, and no gate has measured faster since: {words}"
    return verbs.StageOutcome(Verdict.KNOWN_ISSUE, why)


_NIGHTS = 30
"""So many nights back verdicts are compared: a suite may wait for its turn for some of them."""
_SECONDS = 300.0


def changes(record: Record, path: Path, before: Sequence[Path]) -> dict[str, Any]:
    """Return which stages ended otherwise than when they last ran, or with other red checks; nothing where all is as it was.

    `before`: records of earlier nights, the newest first. The first night tells what failed in it, which `was` nothing.
    """

    def ending(check: Check) -> tuple[Verdict, Figure | None]:
        return check.verdict, check.figures.get(verbs.RED)

    known: dict[str, Check] = {}
    for earlier in before[:_NIGHTS]:
        try:
            night = reading.read(earlier)
        except Refusal:  # the pages say so
            continue
        known = {check.id: check for check in night.checks if check.verdict is not Verdict.SKIPPED} | known
    rows = [
        {
            "check": check.id,
            "was": known[check.id].verdict.value if check.id in known else "",
            "is": check.verdict.value,
            "reason": check.reason,
        }
        for check in record.checks
        if check.verdict is not Verdict.SKIPPED
        and ending(check) != (ending(known[check.id]) if check.id in known else (Verdict.PASSED, None))
    ]
    facts = {"stack": record.stack, "host": record.provenance.get("host", ""), "record": str(path)}
    return {**facts, "verdict": record.verdict.value, "changes": rows} if rows else {}


def notify(command: Sequence[str], record: Record, path: Path, results: Path) -> str:
    """Hand the changes to a command as JSON on standard input, and return what became of that; which is mostly nothing."""
    message = changes(record, path, resume.earlier(results, VERB, record.stack, but=path.parent)[::-1])
    if not message:
        return "nothing changed since the nights before, so that nobody is notified"
    ended = processes.run(command, seconds=_SECONDS, stdin=json.dumps(message).encode())
    if ended.ok:
        return f"{text.counted(len(message['changes']), 'change')} handed to {command[0]}"
    why = "did not end in time" if ended.timed_out else processes.describe_exit(ended.code)
    return f"--notify {command[0]}: {why}: {ended.errors.strip()[-300:]}; the night's verdict stands"


def run_stages(run: NightRun) -> Verdict:
    stages = _stages(run)
    try:
        for name in STAGES:
            if run.ledger.over and name != "site":  # a stack that is gone is shown too
                continue
            if name in run.asked.without:
                run.ledger.add(Check(name, Verdict.SKIPPED, "left out, as asked", 0.0))
            else:
                stages[name]()
    except KeyboardInterrupt:
        return Verdict.INTERRUPTED
    return run.ledger.record.overall


def _stages(run: NightRun) -> dict[str, Callable[[], None]]:
    return {
        "doctor": lambda: _once(run, "doctor", lambda: verbs.doctor(run.asked.stack.name)),
        "smoke": lambda: _once(run, "smoke", lambda: run.suite("smoke", log="smoke")),
        "verify": lambda: verify(run),
        "explore": lambda: _once(run, "explore", lambda: explored(run)),
        "measure": lambda: measure.measured(run),
        "scan": lambda: _once(run, "scan", lambda: _uncounted(run) or scanned(_place_drift(run))),
        "confirm": lambda: _confirm(run),
        "site": lambda: _once(run, "site", lambda: _site(run)),
    }


def _once(run: NightRun, name: str, stage: Callable[[], verbs.StageOutcome]) -> None:
    run.ledger.say(f"{name} ...")
    began = time.monotonic()
    run.add(name, began, stage())


def _uncounted(run: NightRun) -> verbs.StageOutcome | None:
    record = run.ledger.record
    if record.measurements and not record.provenance.get("disturbed"):
        return None
    why = "tonight's figures do not count" if record.measurements else "nothing was measured"
    return verbs.StageOutcome(Verdict.SKIPPED, f"{why}, so there is nothing new to compare")


def _place_drift(run: NightRun) -> PlaceDrift | None:
    return place_drift(run.asked.tops, run.asked.stack.name, run.ledger.record.provenance)


def _confirm(run: NightRun) -> None:
    if _uncounted(run):
        return
    asked = run.asked
    common = ["--profile", asked.profile, "--minutes", str(asked.plan.gate)]
    common += ["--unpinned", str(asked.unpinned)] if asked.unpinned else []
    common += ["--device", asked.device] if asked.device else []
    for suspicion in surest(_place_drift(run), asked.plan.suspicions):
        name, began = f"confirm::{suspicion.figure.subject} {suspicion.kind.value}", time.monotonic()
        run.ledger.say(f"{name}: {suspicion.command}")
        ended = run.verb("gate", *suspicion.asks, *common, log=name.replace("::", "-").replace(" ", "-"))
        why = f"{findings.line(suspicion)}; the gate: {ended.reason}"
        verdict = _OF_GATE.get(ended.figures.get("exit code"), Verdict.INCONCLUSIVE)
        run.add(name, began, replace(ended, verdict=verdict, reason=why))
    tonight = run.ledger.record.started
    _once(run, "slowdowns", lambda: confirmed_slowdowns(_place_drift(run), tonight))


def _site(run: NightRun) -> verbs.StageOutcome:
    run.ledger.keep(run.ledger.record.overall)
    log = run.ledger.folder / "site.log"
    words = [word for top in run.asked.tops if top.is_dir() for word in ("--results", str(top))]
    command = [sys.executable, "-m", "stackproof", "site", str(run.asked.site), *words]
    began = time.monotonic()
    code = verbs.run(command, log, 60 * run.asked.plan.deadline)
    if code == 0:
        return verbs.StageOutcome(Verdict.PASSED, f"{run.asked.site}, in {time.monotonic() - began:.0f} s")
    return verbs.StageOutcome(Verdict.FAILED, f"`site` ended with {code}; {verbs.last(log)}")


_STAGE = "verify::"
_LEFT_OUT = "left out for time"
"""The figure of a suite that had to wait; a record that was written before there was one lets none wait."""


def verify(run: NightRun) -> None:
    """Run suites until the minutes are over, each a stage of its own; the others are said to be left out."""
    asked = run.asked
    minutes = plan.of(asked.plan.verify, asked.stack.device)
    until = time.monotonic() + 60 * minutes
    chosen = order(asked.results, asked.stack.name, run.ledger.folder)
    run.ledger.say(f"verify: {text.counted(len(chosen), 'suite')}; none starts after {minutes:g} minutes")
    for suite in chosen:
        name, began = f"{_STAGE}{suite}", time.monotonic()
        if began > until:
            why = f"left out for time: the {minutes:g} minutes were used up; it runs first in the next night"
            run.add(name, began, verbs.StageOutcome(Verdict.SKIPPED, why, {_LEFT_OUT: True}))
        else:
            run.ledger.say(f"{name} ...")
            run.add(name, began, run.suite("verify", "--suite", suite, log=f"verify-{suite}"))


def explored(run: NightRun) -> verbs.StageOutcome:
    """Ask relations of operators at points that no run has had: what fails there is no regression, and fails no night."""
    minutes = plan.of(run.asked.plan.explore, run.asked.stack.device)
    ended = run.suite("explore", "--minutes", f"{minutes:g}", log="explore")
    if ended.figures.get("exit code") != Verdict.FAILED.exit_code:  # a refused word is no cause
        return ended
    why = f"to be looked at, code and rows of known issues are in explore.json: {ended.reason}"
    return replace(ended, verdict=Verdict.SKIPPED, reason=why)


def order(results: Path, stack: str, tonight: Path) -> list[str]:
    """Return all suites of `verify`, those first that the night before left out."""
    known = suites.of_verb("verify")
    waiting = [suite for suite in _waiting(results, stack, tonight) if suite in known]
    return [*waiting, *(suite for suite in known if suite not in waiting)]


def _waiting(results: Path, stack: str, tonight: Path) -> Iterator[str]:
    try:
        record = reading.read(resume.newest(results, VERB, stack, but=tonight))
    except Refusal:  # there is none, or the scan will name it
        return
    for check in record.checks:
        if check.id.startswith(_STAGE) and check.figures.get(_LEFT_OUT):
            yield check.id.removeprefix(_STAGE)
