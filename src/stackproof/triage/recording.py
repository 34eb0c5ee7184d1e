"""A report as a record: checks for what was asked of the logs, measurements for what a trainer measured."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from .. import __version__
from ..records import Check, Figure, Measurement, Record, Verdict, overall
from . import words
from .expectations import NOT_SHOWN
from .reports import Report
from .training import Training

_NOTE = "read from a log, measured by {}; not verified"


def record(reports: Sequence[Report], stack: str) -> Record:
    """Return one record for all reports; it validates like any other and names the logs."""
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    found = Record("triage", stack, started)
    for report in reports:
        prefix = "triage" if len(reports) == 1 else f"triage/{report.name}"
        found.checks.extend(_checks(report, prefix))
        found.measurements.extend(_measurements(report))
        found.logs.extend(file.name for file in report.evidence.files)
    found.verdict = overall(check.verdict for check in found.checks)
    found.provenance = _provenance(reports)
    return found


def _checks(report: Report, prefix: str) -> Iterator[Check]:
    failure = words.sentence(report) if report.judgement.root else None
    yield _check(f"{prefix}::root-cause", failure is None, failure or words.headline(report)[1], _figures(report))
    asked = [row.rule.title for row in report.conflicts]
    asked += [f"{row.name}={row.asked} was asked for, {row.in_effect} is in effect" for row in report.settings]
    yield _check(
        f"{prefix}::asked-is-in-effect", not asked, "; ".join(asked) or "nothing contradicts what was asked for"
    )
    if report.training:
        odd = "; ".join(oddity.sentence for oddity in report.oddities)
        yield _check(f"{prefix}::training", not report.wrong, odd or words.training(report.training))
    for answer in report.answers:
        verdict = Verdict.PASSED if answer.holds else Verdict.FAILED
        figures: dict[str, Figure] = {"answer": answer.answer, "shown": answer.answer != NOT_SHOWN}
        yield Check(f"{prefix}::expect[{answer.expectation.name}]", verdict, answer.sentence, 0.0, figures)


def _check(name: str, holds: bool, reason: str, figures: dict[str, Figure] | None = None) -> Check:
    return Check(name, Verdict.PASSED if holds else Verdict.FAILED, reason, 0.0, figures or {})


def _figures(report: Report) -> dict[str, Figure]:
    judgement = report.judgement
    found: dict[str, Figure] = {"lines": sum(file.lines for file in report.evidence.files)}
    if root := judgement.root:
        found |= {
            "signature": root.signature or words.UNKNOWN,
            "who": words.people(root.who),
            "place": report.place(root.first),
            "line": root.first.text[:1000],
            "certainty": root.certainty,
            "collective": judgement.collective,
        }
    for name, rows in (
        ("others", judgement.others),
        ("consequences", judgement.consequences),
        ("noise", judgement.noise),
    ):
        found[name] = ", ".join(row.signature or row.title for row in rows)
    return found


def _provenance(reports: Sequence[Report]) -> dict[str, Figure]:
    """Return the facts of the first log that holds each; a foreign environment is never a pinned one."""
    facts: dict[str, Figure] = {"pinned": False, "stackproof": __version__, "read from": "logs"}
    for report in reports:
        for row in report.shown:
            facts.setdefault(f"{row.name} (log)", words.values(row))
        for name, value in report.training.words.items() if report.training else ():
            facts.setdefault(f"{name} (log)", value)
    return facts


def _measurements(report: Report) -> Iterator[Measurement]:
    training = report.training
    if training is None:
        return
    for metric, unit, rate in (
        ("training", "s/sample", training.samples_per_second),
        ("training", "s/iteration", training.steps_per_second),
    ):
        if rate:
            yield _measurement(report, training, metric, unit, 1 / rate)
    for metric, unit, value in (
        ("mean loss", "1", training.get("train_loss")),
        ("device memory", "GB", training.memory_gb),
        ("trainable parameters", "1", training.get("trainable")),
    ):
        if value is not None:
            yield _measurement(report, training, metric, unit, value)


def _measurement(report: Report, training: Training, metric: str, unit: str, value: float) -> Measurement:
    workload = training.words.get("model", "") or report.name
    note = _NOTE.format(", ".join(training.trainers))
    dtype = training.words.get("dtype", "")
    return Measurement(workload, "full", dtype, training.world_size or 1, metric, unit, value, [value], note)
