"""The verb: reads what is named, shows what it holds, writes a record if one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.triage import logs as sources
from stackproof.triage import reports

_WORST_FIRST = (reports.Answered.FAULTY, reports.Answered.CANNOT_SAY)


@dataclass(frozen=True)
class Question:
    """What the command line asks."""

    logs: tuple[str, ...]
    expected: tuple[str, ...] = ()
    together: bool = False
    json: Path | None = None
    stack: str = "unknown"


def triage(question: Question) -> int:
    """Return 0 if all ended well, 1 if a run failed, contradicts itself or an expectation does not hold, 6 if no log says so.

    Raises:
        Refusal: a log cannot be read, or an expectation is not known.
    """
    reports.check_expectations(question.expected)
    found = [reports.report(run, question.expected) for run in sources.runs(question.logs, question.together)]
    _write(found, question)
    from stackproof.triage import terminal

    terminal.show(found)
    verdicts = [report.verdict for report in found]
    return int(next((verdict for verdict in _WORST_FIRST if verdict in verdicts), reports.Answered.CLEAN))


def _write(found: Sequence[reports.Report], question: Question) -> None:
    if question.json:
        from stackproof.record import writer

        writer.keep(reports.record(found, question.stack), question.json)
