"""A night from its first stage to its last: prove, measure, admit, scan, confirm, show; one record, one exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from stackproof.api.base import Refusal, text
from stackproof.api.doctor import checkup, machine
from stackproof.api.gate import plan
from stackproof.api.record import Check, Verdict, reading, records, resume
from stackproof.api.runs import suites, verbs
from stackproof.api.stack import Level
from stackproof.extras.nights.drift.nights import VERB
from stackproof.extras.nights.night import confirm, measure
from stackproof.extras.nights.night.command import STAGES
from stackproof.extras.nights.night.request import NightRun


def run_stages(run: NightRun) -> Verdict:
    """Run the stages that have not ended yet, and return the verdict of the night; an interrupted one can be continued."""
    stages = _stages(run)
    try:
        for name in STAGES:
            if run.ledger.over:
                break
            if name in run.asked.without:
                _leave_out(run, name)
            else:
                stages[name]()
    except KeyboardInterrupt:
        return Verdict.INTERRUPTED
    return records.overall(check.verdict for check in run.ledger.record.checks)


def _stages(run: NightRun) -> dict[str, Callable[[], None]]:
    return {
        "doctor": lambda: _once(run, "doctor", lambda: _doctor(run.asked.stack.name)),
        "smoke": lambda: _once(run, "smoke", lambda: run.suite("smoke", log="smoke")),
        "verify": lambda: verify(run),
        "measure": lambda: measure.measured(run),
        "scan": lambda: _scan(run),
        "confirm": lambda: _confirm(run),
        "site": lambda: _once(run, "site", lambda: _site(run)),
    }


def _once(run: NightRun, name: str, stage: Callable[[], verbs.StageOutcome]) -> None:
    """Run a stage of one check, unless it has ended before the night was stopped."""
    if not run.ledger.ended(name):
        run.ledger.say(f"{name} ...")
        began = time.monotonic()
        run.add(name, began, stage())


def _leave_out(run: NightRun, name: str) -> None:
    if not run.ledger.ended(name):
        run.ledger.add(Check(name, Verdict.SKIPPED, "left out, as was asked", 0.0))


def _doctor(stack: str) -> verbs.StageOutcome:
    found = checkup.examine(stack, machine.Machine())
    bad = [finding.sentence for finding in found.findings if finding.level is Level.PROBLEM]
    if bad or found.broken:
        return verbs.StageOutcome(Verdict.FAILED, "; ".join([*bad, *([str(found.broken)] if found.broken else [])]))
    warned = [finding.sentence for finding in found.findings if finding.level is Level.WARNING]
    return verbs.StageOutcome(
        Verdict.PASSED,
        f"{len(found.findings)} findings, none of them a problem" + "".join(f"; {one}" for one in warned),
    )


def _scan(run: NightRun) -> None:
    _once(run, "scan", lambda: _uncounted(run) or confirm.scanned(_look(run)))


def _uncounted(run: NightRun) -> verbs.StageOutcome | None:
    facts = run.ledger.record.provenance
    if run.ledger.record.measurements and not facts.get("disturbed"):
        return None
    return verbs.StageOutcome(Verdict.SKIPPED, "tonight counts for nothing, so there is nothing new to look at")


def _look(run: NightRun) -> confirm.PlaceDrift | None:
    return confirm.look(run.asked.tops, run.asked.stack.name, run.ledger.record.provenance)


def _confirm(run: NightRun) -> None:
    """Put what is suspected to gates, and say what is confirmed; a gate that has ended is not run again."""
    if _uncounted(run) or run.ledger.ended("told"):
        return
    before = _look(run)
    for one in confirm.surest(before, run.asked.plan.confirm.most):
        name, began = confirm.name(one), time.monotonic()
        if not run.ledger.ended(name):
            run.ledger.say(f"{name}: {one.command}")
            ended = _gate(run, one.asks, name.replace("::", "-").replace(" ", "-"))
            run.add(name, began, confirm.became(one, ended, _look(run)))
    tonight = run.ledger.record.started
    _once(run, "told", lambda: confirm.confirmed_slowdowns(_look(run), tonight))


def _gate(run: NightRun, asks: Sequence[str], log: str) -> verbs.StageOutcome:
    asked = run.asked
    words = ["gate", *asks, "--profile", asked.profile, "--minutes", str(asked.plan.confirm.minutes)]
    words += ["--unpinned", str(asked.unpinned)] if asked.unpinned else []
    words += ["--device", asked.device] if asked.device else []
    return run.verb(*words, log=log)


def _site(run: NightRun) -> verbs.StageOutcome:
    """Build the pages with tonight on them, as the night has gone until now."""
    run.ledger.keep(records.overall(check.verdict for check in run.ledger.record.checks))
    log = run.ledger.folder / "site.log"
    words = [word for top in run.asked.tops if top.is_dir() for word in ("--results", str(top))]
    command = [sys.executable, "-m", "stackproof", "site", str(run.asked.site), *words]
    began = time.monotonic()
    code = verbs.run(command, log, 60 * run.asked.plan.verify.deadline)
    if code == 0:
        return verbs.StageOutcome(Verdict.PASSED, f"{run.asked.site}, in {time.monotonic() - began:.0f} s")
    return verbs.StageOutcome(Verdict.FAILED, f"`site` ended with {code}; {verbs.last(log)}")


_STAGE = "verify::"
_LEFT_OUT = "left out for time"
"""The figure of a suite that had to wait; a record that was written before there was one lets none wait."""


def verify(run: NightRun) -> None:
    """Run suites until the minutes are over, each a stage of its own; the others are said to be left out."""
    asked = run.asked
    minutes = plan.of(asked.plan.verify.minutes, asked.stack.device)
    until = time.monotonic() + 60 * minutes
    chosen = order(asked.results, asked.stack.name, run.ledger.folder)
    run.ledger.say(f"verify: {text.counted(len(chosen), 'suite')}, of which none is begun after {minutes:g} minutes")
    for suite in chosen:
        name, began = f"{_STAGE}{suite}", time.monotonic()
        if run.ledger.ended(name):
            continue
        if began > until:
            run.add(
                name,
                began,
                verbs.StageOutcome(
                    Verdict.SKIPPED,
                    f"left out for time: {minutes:g} minutes were over; it comes first tomorrow",
                    {_LEFT_OUT: True},
                ),
            )
        else:
            run.ledger.say(f"{name} ...")
            run.add(name, began, run.suite("verify", "--suite", suite, log=f"verify-{suite}"))


def order(results: Path, stack: str, tonight: Path) -> list[str]:
    """Return all suites of `verify`, those first that the night before left out."""
    known = suites.of_verb("verify")
    waiting = [suite for suite in _waiting(results, stack, tonight) if suite in known]
    return [*waiting, *(suite for suite in known if suite not in waiting)]


def _waiting(results: Path, stack: str, tonight: Path) -> Iterator[str]:
    try:
        record = reading.read(resume.newest(results, VERB, stack, but=tonight))
    except Refusal:  # there is none, or it will be said where nights are looked at
        return
    for check in record.checks:
        if check.id.startswith(_STAGE) and check.figures.get(_LEFT_OUT):
            yield check.id.removeprefix(_STAGE)
