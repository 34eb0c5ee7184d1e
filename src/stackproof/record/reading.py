"""Reading records: what is in the file is held against its schema, its digests and itself, and is no evidence if it contradicts them.

Its digest finds an edit. Of a record without one, such as that of a run that was killed, the verdict is worked out again from its checks,
and values and intervals from their samples.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.statistics import median_interval
from stackproof.base.text import as_typed, plain
from stackproof.record import records
from stackproof.record.records import Check, Measurement, Record, Verdict


def read(path: Path) -> Record:
    """Return the record in `path`, or refuse with what is wrong with it (NotJsonError: it was cut short, or never was a record)."""
    data = files.read_bytes(path, "name a record that a run has written")
    try:
        value = files.parse_json(data, path, "set it aside and run again", strict=True)
    except files.NotJsonError as error:
        raise files.NotJsonError(str(error).replace("is not JSON", "is not a record", 1)) from error
    records.validate(value, path)
    edited = _edited(value)
    value["verdict"] = Verdict(value["verdict"])
    value["checks"] = [Check.of(row) for row in value["checks"]]
    value["measurements"] = [_measurement(row) for row in value["measurements"]]
    record = Record(**{**value, "schema": records.SCHEMA_NAME})
    if value["schema"] != records.SCHEMA_NAME and record.runs_suites:
        record.checks = [records.of_suite(check) for check in record.checks]
    if wrong := next(contradictions(record), None):
        raise Refusal(f"{path}: contradicts itself: {wrong}; it is no evidence, so run again")
    if edited:
        raise Refusal(f"{path}: {edited}; it is no evidence, so run again")
    return record


def _measurement(row: dict[str, Any]) -> Measurement:
    return Measurement(**{**row, "value": float(row["value"]), "samples": [float(sample) for sample in row["samples"]]})


def read_verified(path: Path) -> Record:
    """Return the record in a file, if it and the logs beside it are what was written.

    Raises:
        Refusal: it is no record or no evidence, or one of its logs was edited.
    """
    record = read(path)
    if why := next(broken_logs(record, path.parent), None):
        raise Refusal(f"{path}: {why}; it is no evidence, so run again")
    return record


def read_sealed(path: Path) -> Record:
    """Return the same where the record has a digest of itself (Refusal: an edit of it would not show)."""
    record = read_verified(path)
    if why := unproved(record):
        raise Refusal(f"{path}: {why}; name a record as its run has written it")
    return record


def unproved(record: Record) -> str:
    """Say that a record has no digest of its own, or nothing."""
    return "" if records.RECORD in record.digests else "holds no digest of itself, so that an edit of it does not show"


def weakness(record: Record, folder: Path) -> str:
    """Say first what of a record cannot be verified here, or nothing; it may be that it was published, or moved without its logs."""
    return unproved(record) or next(broken_logs(record, folder, whole=True), "")


def only(record: Record) -> str:
    """Say which checks were chosen by `--only`, as somebody typed them, or nothing."""
    words = " ".join(map(as_typed, str(record.provenance.get("only", "")).split()))
    return f" [only: {words}]" if words else ""


def _edited(fields: dict[str, Any]) -> str:
    """Say that a parsed record is not the one that was sealed, or nothing; one that never was sealed says nothing."""
    value = fields.get("digests", {}).get(records.RECORD)
    if value is None or value == records.sealed(fields):
        return ""
    return f"it was edited after it was written (its digest is {records.sealed(fields)[:12]}, it says {value[:12]})"


def broken_logs(record: Record, folder: Path, whole: bool = False) -> Iterator[str]:
    """Yield a sentence for each log in a record's folder that is not the one that it was written with.

    A log may be absent, as of a record that was published, unless `whole`. What lies elsewhere is no log of it, and is not opened.
    """
    if whole and (bare := [log for log in record.logs if log not in record.digests]):
        yield f"its log {plain(bare[0], 60)} has no digest, so that an edit of it does not show"
    for name, text in record.digests.items():
        if name == records.RECORD:
            continue
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            yield f"it names a log outside of its folder, '{plain(name, 60)}'"
        elif not os.path.isfile(path):  # noqa: PTH113 - false also for a name that no file can have
            if whole:
                yield f"its log {plain(name, 60)} is not beside it; verify a record where its run left it, with its logs"
        elif files.digest(path, "sha256").hex() != text:
            yield f"its log {name} was edited after the run (the record has {text[:12]} for it)"


_SLACK = 1e-6
_AHEAD = timedelta(days=1)
"""By so much clocks of two hosts may differ."""


def contradictions(record: Record) -> Iterator[str]:
    """Yield one sentence for each thing that is not what the rest of the record makes it."""
    verdict = record.overall
    if record.verdict not in (verdict, Verdict.INTERRUPTED):  # until then all may have been well
        yield f"it says '{record.verdict.value}', and its {len(record.checks)} checks amount to '{verdict.value}'"
    chosen = bool(record.provenance.get("only"))  # somebody may ask for one check that is skipped here
    ran = [check for check in record.checks if "/" in check.id and (chosen or check.verdict is Verdict.PASSED)]
    if record.runs_suites and record.verdict is Verdict.PASSED and not ran:
        yield "it says 'passed', and no check of a suite ran to its end"
    # "environment" is there twice where a run was interrupted before its first check.
    ids = [check.id for check in record.checks if "::" in check.id]
    if record.runs_suites and len({*ids}) < len(ids):
        yield f"it holds the check '{plain(statistics.mode(ids), 60)}' more than once"
    if (stack := record.provenance.get("stack", record.stack)) != record.stack:
        yield f"it is of stack '{record.stack}', and its provenance is of '{stack}'"
    yield from _day(record)
    for row in record.measurements:
        yield from (
            f"the measurement '{row.workload} {row.metric}' in {row.unit} {why}" for why in _of_measurement(row)
        )


def _day(record: Record) -> Iterator[str]:
    """Say that it began on no day, or that its clock was ahead or had gone back."""
    try:
        began = datetime.fromisoformat(record.started[:19]).replace(tzinfo=timezone.utc)
    except ValueError:
        yield f"it began at '{record.started}', and no calendar has that"
        return
    if began > datetime.now(timezone.utc) + _AHEAD:
        yield f"it began at '{record.started}', which is still to come: the clock there or here is wrong"
    made = str(record.provenance.get(records.COMMITTED, ""))
    with suppress(TypeError, ValueError):  # some git writes a date that Python 3.10 does not read
        if began < datetime.fromisoformat(made) - _AHEAD:
            yield f"it began at '{record.started}', before the commit was made that it measured ({made}): its clock was wrong"


def _of_measurement(row: Measurement) -> Iterator[str]:
    """Hold the value and the figures that come from samples against the samples."""
    low, high = statistics.median_low(row.samples), statistics.median_high(row.samples)
    near = low <= row.value <= high or any(math.isclose(row.value, end, rel_tol=_SLACK) for end in (low, high))
    if not near and not math.isnan(sum(row.samples)):
        yield f"says {row.value:g}, and the median of its {len(row.samples)} samples is {low:g}"
    count = row.figures.get("samples", len(row.samples))
    if count != len(row.samples):
        yield f"says {count} samples and holds {len(row.samples)}"
    if not row.version or "low" not in row.figures:
        return
    interval = median_interval(row.samples)
    for name, value in (("low", interval.low), ("high", interval.high), ("noise", interval.relative)):
        stated = float(row.figures.get(name, value))
        if not math.isnan(value) and not math.isclose(stated, value, rel_tol=_SLACK, abs_tol=1e-15):
            yield f"says '{name}' {stated:g}, and its samples make it {value:g}"
