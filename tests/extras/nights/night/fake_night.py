"""Stands in for a night that is under way: what its stages ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from stackproof.extras.nights.night import request as request_
from stackproof.extras.nights.night.request import Ledger, NightRequest
from stackproof.extras.verbs import StageOutcome
from stackproof.record.records import Verdict
from stackproof.record.writer import Outputs
from stackproof.stack import stacks
from tests.extras.nights.drift.nightly import FACTS

FROZEN = "c" * 40


def ledger_in(folder: Path) -> Ledger:
    """Begin the record of a night."""
    facts = {**FACTS, "stack": "cpu", "anchor": FROZEN}
    return request_.opened("cpu", facts, Outputs(folder), lambda text: None)


def quick(launches: int = 1, pause: float = 0.0, minutes: float = 10.0) -> request_.NightPlan:
    """Return the plan with these amounts on every device."""
    known = request_.load_plan()
    return replace(
        known, launches={"other": launches},
        explore={"other": 0.02}, verify={"other": minutes}, admission=replace(known.admission, pause=pause),
    )  # fmt: skip


def request(folder: Path, **amounts: float) -> NightRequest:
    """Return a request for a night of the cpu stack."""
    wanted = quick(**amounts)  # type: ignore[arg-type]
    return NightRequest(stacks.load("cpu"), folder, FROZEN, wanted, "fast", site=folder / "site")


@dataclass
class Night:
    """Takes what stages add; suites and verbs pass unless a test says otherwise."""

    ledger: Ledger
    results: Path
    minutes: float = 10.0
    words: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def asked(self) -> NightRequest:
        """What was asked of it."""
        return request(self.results, minutes=self.minutes)

    def suite(self, *words: str, log: str) -> StageOutcome:
        """Take what is asked."""
        self.words.append(words)
        return StageOutcome(Verdict.PASSED, "seen")

    def add(self, name: str, began: float, ended: StageOutcome) -> None:
        """Take over how a stage ended."""
        self.ledger.add(request_.Check(name, ended.verdict, ended.reason, 1.0, dict(ended.figures)))
