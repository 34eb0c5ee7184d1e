"""The part of `verify` that fits into a night, suite by suite; what was left out for time comes first in the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, counted
from stackproof.api.gate import of
from stackproof.api.record import Verdict, reading
from stackproof.api.runs import StageOutcome, suites
from stackproof.extras.nights.night.ledger import last

if TYPE_CHECKING:
    from stackproof.extras.nights.night.night import NightRun

_STAGE = "verify::"
_LEFT_OUT = "left out for time"
"""The figure of a suite that had to wait; a record that was written before there was one lets none wait."""


def verify(run: NightRun) -> None:
    """Run suites until the minutes are over, each a stage of its own; the others are said to be left out."""
    asked = run.asked
    minutes = asked.minutes or of(asked.plan.verify.minutes, asked.stack.device)
    until = time.monotonic() + 60 * minutes
    chosen = order(asked.results, asked.stack.name, run.ledger.folder)
    run.ledger.say(f"verify: {counted(len(chosen), 'suite')}, of which none is begun after {minutes:g} minutes")
    for suite in chosen:
        name, began = f"{_STAGE}{suite}", time.monotonic()
        if run.ledger.ended(name):
            continue
        if began > until:
            run.add(
                name,
                began,
                StageOutcome(
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
    path = last(results, stack, but=tonight)
    if path is None:
        return
    try:
        record = reading.read(path)
    except Refusal:  # it will be said where nights are looked at
        return
    for check in record.checks:
        if check.id.startswith(_STAGE) and check.figures.get(_LEFT_OUT):
            yield check.id.removeprefix(_STAGE)
