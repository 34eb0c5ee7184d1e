"""A night from its first stage to its last: prove, measure, admit, scan, confirm, show; one record, one exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.doctor import checkup, machine
from stackproof.api.record import Check, Figure, Verdict, overall, store
from stackproof.api.runs import StageOutcome, verbs
from stackproof.api.stack import Level, Stack
from stackproof.extras.nights.night import confirm, sides, suites
from stackproof.extras.nights.night.anchors import Anchors
from stackproof.extras.nights.night.ledger import FIRST, Ledger
from stackproof.extras.nights.night.plan import NightPlan

STAGES = ("doctor", "smoke", "verify", "measure", "scan", "confirm", "site")


@dataclass(frozen=True)
class NightRequest:
    """What is asked of a night; what is empty or zero is as `data/night.toml` and the gate have it."""

    stack: Stack
    results: Path
    anchors: Anchors
    plan: NightPlan
    profile: str
    only: tuple[str, ...] = ()
    device: str = ""
    launches: int = 0
    minutes: float = 0.0
    pause: float = -1.0
    without: tuple[str, ...] = ()
    unpinned: Path | None = None
    scale: float = 1.0
    site: Path = field(default_factory=lambda: store.LOCAL.parent / "site")

    @property
    def tops(self) -> tuple[Path, ...]:
        """The folders in which earlier nights and their gates lie."""
        return tuple(dict.fromkeys((*store.folders(), self.results)))

    def facts(self) -> dict[str, Figure]:
        """Return what of the request explains a record."""
        found: dict[str, Figure] = {
            "profile": self.profile,
            "only": " ".join(self.only),
            "device": self.device or FIRST,
        }
        amounts = {"launches": self.launches, "minutes": self.minutes, "pause": self.pause}
        unsaid = {"launches": 0, "minutes": 0.0, "pause": -1.0}
        found |= {f"asked.{name}": amount for name, amount in amounts.items() if amount != unsaid[name]}
        return found | ({"without": " ".join(self.without)} if self.without else {})


@dataclass
class NightRun:
    """A night that is under way."""

    asked: NightRequest
    ledger: Ledger

    def verb(self, *words: str, log: str, python: Path | None = None) -> StageOutcome:
        """Run a verb of this stack as a process of its own; its record goes where the night's does."""
        asked = self.asked
        scale = ["--deadline-scale", str(asked.scale)] if asked.scale != 1 else []
        command = [words[0], "--stack", asked.stack.name, *words[1:], "--results", str(asked.results), *scale]
        deadline = 60 * asked.plan.verify.deadline * asked.scale
        return verbs.call(command, self.ledger.folder / f"{log}.log", deadline, python or Path(sys.executable))

    def suite(self, *words: str, log: str) -> StageOutcome:
        """Run a verb in the stack's environment, which it builds; or in the one that was named."""
        asked = self.asked
        chosen = ["--device", asked.device] if asked.device else []
        return self.verb(*words, *chosen, *([] if asked.unpinned else ["--locked"]), log=log, python=asked.unpinned)

    def add(self, name: str, began: float, ended: StageOutcome) -> None:
        """Take over how a stage ended that began then."""
        self.ledger.add(Check(name, ended.verdict, ended.reason, time.monotonic() - began, dict(ended.figures)))


def hold(run: NightRun) -> Verdict:
    """Run the stages that have not ended yet, and return the verdict of the night; an interrupted one can be continued."""
    try:
        for name, stage in _stages(run):
            if run.ledger.over:
                break
            if name in run.asked.without:
                _leave_out(run, name)
            else:
                stage()
    except KeyboardInterrupt:
        return Verdict.INTERRUPTED
    return overall(check.verdict for check in run.ledger.record.checks)


def _stages(run: NightRun) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "doctor", lambda: _once(run, "doctor", lambda: _doctor(run.asked.stack.name))
    yield "smoke", lambda: _once(run, "smoke", lambda: run.suite("smoke", log="smoke"))
    yield "verify", lambda: suites.verify(run)
    yield "measure", lambda: sides.measured(run)
    yield "scan", lambda: _scan(run)
    yield "confirm", lambda: _confirm(run)
    yield "site", lambda: _once(run, "site", lambda: _site(run))


def _once(run: NightRun, name: str, stage: Callable[[], StageOutcome]) -> None:
    """Run a stage of one check, unless it has ended before the night was stopped."""
    if not run.ledger.ended(name):
        run.ledger.say(f"{name} ...")
        began = time.monotonic()
        run.add(name, began, stage())


def _leave_out(run: NightRun, name: str) -> None:
    if not run.ledger.ended(name):
        run.ledger.add(Check(name, Verdict.SKIPPED, "left out, as was asked", 0.0))


def _doctor(stack: str) -> StageOutcome:
    found = checkup.examine(stack, machine.Machine())
    bad = [finding.sentence for finding in found.findings if finding.level is Level.PROBLEM]
    if bad or found.broken:
        return StageOutcome(Verdict.FAILED, "; ".join([*bad, *([str(found.broken)] if found.broken else [])]))
    warned = [finding.sentence for finding in found.findings if finding.level is Level.WARNING]
    return StageOutcome(
        Verdict.PASSED,
        f"{len(found.findings)} findings, none of them a problem" + "".join(f"; {one}" for one in warned),
    )


def _scan(run: NightRun) -> None:
    _once(run, "scan", lambda: _uncounted(run) or confirm.scanned(_look(run)))


def _uncounted(run: NightRun) -> StageOutcome | None:
    facts = run.ledger.record.provenance
    if run.ledger.record.measurements and not facts.get("disturbed"):
        return None
    return StageOutcome(Verdict.SKIPPED, "tonight counts for nothing, so there is nothing new to look at")


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
    _once(run, "told", lambda: confirm.told(_look(run), tonight))


def _gate(run: NightRun, asks: Sequence[str], log: str) -> StageOutcome:
    asked = run.asked
    words = ["gate", *asks, "--profile", asked.profile, "--minutes", str(asked.plan.confirm.minutes)]
    words += ["--unpinned", str(asked.unpinned)] if asked.unpinned else []
    words += ["--device", asked.device] if asked.device else []
    return run.verb(*words, log=log)


def _site(run: NightRun) -> StageOutcome:
    """Build the pages with tonight on them, as the night has gone until now."""
    run.ledger.keep(overall(check.verdict for check in run.ledger.record.checks))
    log = run.ledger.folder / "site.log"
    words = [word for top in run.asked.tops if top.is_dir() for word in ("--results", str(top))]
    command = [sys.executable, "-m", "stackproof", "site", str(run.asked.site), *words]
    began = time.monotonic()
    code = verbs.run(command, log, 60 * run.asked.plan.verify.deadline)
    if code == 0:
        return StageOutcome(Verdict.PASSED, f"{run.asked.site}, in {time.monotonic() - began:.0f} s")
    return StageOutcome(Verdict.FAILED, f"`site` ended with {code}; {verbs.last(log)}")
