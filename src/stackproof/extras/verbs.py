"""Runs a verb as a stage of a night or on a card of a fleet: a process that ends in its own time, or is ended and called hung."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import Refusal, places, processes, text
from stackproof.api.doctor import checkup
from stackproof.api.record import Check, Figure, Record, Verdict, reading

_GRACE_S = 30.0
"""A verb that is told to end writes its record first."""
VERDICTS = {
    0: Verdict.PASSED, 1: Verdict.FAILED, 3: Verdict.UNAVAILABLE, 4: Verdict.MISMATCHED, 5: Verdict.HUNG, 6: Verdict.INCONCLUSIVE,
    130: Verdict.INTERRUPTED,
}  # fmt: skip
_REFUSED = 2
RED = "red"
"""The figure of a stage that names its checks that did not pass."""
_NAMED = 50


@dataclass(frozen=True)
class StageOutcome:
    """How a stage ended: in a word, in a sentence, and the figures that belong to it."""

    verdict: Verdict
    reason: str
    figures: dict[str, Figure] = field(default_factory=dict)


def call(words: Sequence[str], log: Path, deadline_s: float, python: Path = Path(sys.executable)) -> StageOutcome:
    """Run `python -m stackproof WORDS` and return how it ended; what it prints goes to the log, its record beside that.

    An interruption is handed on, and waited for.
    """
    kept = log.with_suffix(".json")
    command = [str(python), "-m", "stackproof", *words, "--json", str(kept)]
    code = run(command, log, deadline_s)
    if code is None:
        return StageOutcome(Verdict.HUNG, f"did not end in {deadline_s / 60:.0f} minutes, and was ended; {last(log)}")
    figures: dict[str, Figure] = {"exit code": code}
    verdict = VERDICTS.get(code, Verdict.FAILED if code == _REFUSED else Verdict.CRASHED)
    if verdict is Verdict.CRASHED:
        return StageOutcome(verdict, f"ended with {processes.describe_exit(code)}; {last(log)}", figures)
    with contextlib.suppress(Refusal):  # of a verb that writes no record
        record = reading.read(kept)
        if bad := [check.id for check in _bad(record)]:
            figures[RED] = text.first_few(bad, _NAMED)
        return StageOutcome(verdict, summary(record), figures)
    return StageOutcome(verdict, last(log), figures)


def run(command: Sequence[str], log: Path, deadline_s: float) -> int | None:
    """Run a command with its output in a file; return its exit code, None where it had to be ended."""
    log.parent.mkdir(parents=True, exist_ok=True)
    source = "" if places.INSTALLED else str(places.PACKAGE.parent)  # a wheel is found without, and has neighbours
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    mark = processes.new_mark()
    with log.open("wb") as output:
        process = processes.start(list(command), output, {"PYTHONPATH": path}, mark)
        try:
            return process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return None
        except KeyboardInterrupt:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            raise
        finally:
            processes.end_tree(mark, process)


def summary(record: Record) -> str:
    """Say how many checks ended how, and what the first bad one says."""
    counts = Counter(check.verdict.value for check in record.checks)
    sentence = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    first = next((f"; {bad.id}: {bad.reason}" for bad in _bad(record)), "")
    return f"{sentence} in {record.seconds:.0f} s{first}"


def _bad(record: Record) -> list[Check]:
    return [check for check in record.checks if check.verdict.exit_code and check.verdict.executed]


def last(log: Path) -> str:
    """Return the last line of a log, or that there is none."""
    lines = processes.last_lines(log, 1)
    return text.plain(lines[0], lines=False) if lines else "it printed nothing"


def doctor(stack: str) -> StageOutcome:
    """Let the doctor look at this host: a problem fails, a warning is said."""
    report = checkup.examine(stack)
    bad, warned = (
        [finding.sentence for finding in report.findings if finding.level.value == level]
        for level in ("problem", "warning")
    )
    if bad:
        return StageOutcome(Verdict.FAILED, "; ".join(bad))
    return StageOutcome(
        Verdict.PASSED, "; ".join([f"{len(report.findings)} findings, none of them a problem", *warned])
    )
