"""Reading records: what is in the file is held against its schema, its digests and itself, and is no evidence if it contradicts them.

Its verdict is worked out again from its checks, its values and bounds from its samples, a check's verdict from its own figures.
This finds slips, damage and careless edits; who edits a record so that everything agrees is found by a signature of the file.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.statistics import median_interval
from stackproof.base.text import is_visible, plain
from stackproof.record.records import (
    RECORD,
    SCHEMA_NAME,
    SUITE_VERBS,
    Check,
    Figure,
    Measurement,
    Record,
    Verdict,
    file_digest,
    of_suite,
    sealed,
    validate,
)  # fmt: skip


def read(path: Path) -> Record:
    """Return the record in `path`, or refuse with what is wrong with it (NotJsonError: it was cut short, or never was a record)."""
    data = files.read_bytes(path, "name a record that a run has written")
    try:
        value = files.parse_json(data, path, "set it aside and run again", strict=True)
    except files.NotJsonError as error:
        raise files.NotJsonError(str(error).replace("is not JSON", "is not a record", 1)) from error
    validate(value, path)
    edited = _edited(value)
    value["verdict"] = Verdict(value["verdict"])
    value["checks"] = [Check.of(row) for row in value["checks"]]
    value["measurements"] = [_measurement(row) for row in value["measurements"]]
    record = Record(**{**value, "schema": SCHEMA_NAME})
    if value["schema"] != SCHEMA_NAME and record.runs_suites:
        record.checks = [of_suite(check) for check in record.checks]
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


def unproved(record: Record) -> str:
    """Say that a record has no digest of its own, or nothing."""
    return "" if RECORD in record.digests else "holds no digest of itself, so that an edit of it does not show"


def _within(home: Path, name: str) -> Path | None:
    """Return where a log lies, nothing outside of the record's folder, by name or link; records of `watch` once had whole paths."""
    try:
        path = (home / (Path(name).name if Path(name).is_absolute() else name)).resolve()
    except (OSError, ValueError, RuntimeError):  # too long, a zero byte, a loop of links
        return None
    return path if path.is_relative_to(home) else None


def _edited(fields: dict[str, Any]) -> str:
    """Say that a parsed record is not the one that was sealed, or nothing; one that never was sealed says nothing."""
    value = fields.get("digests", {}).get(RECORD)
    if value is None or value == sealed(fields):
        return ""
    return f"it was edited after it was written (its digest is {sealed(fields)[:12]}, it says {value[:12]})"


def broken_logs(record: Record, folder: Path, whole: bool = False) -> Iterator[str]:
    """Yield a sentence for each log in a record's folder that is not the one that it was written with.

    A log may be absent, as of a record that was published, unless `whole`. What lies elsewhere is no log of it, and is not opened.
    """
    home = folder.resolve()
    if whole and (bare := [log for log in record.logs if log not in record.digests]):
        yield f"its log {plain(bare[0], 60)} has no digest, so that an edit of it does not show"
    for name, text in record.digests.items():
        if name == RECORD:
            continue
        path = _within(home, name)
        if path is None:
            yield f"it names a log outside of its folder, '{plain(name, 60)}'"
        elif not os.path.isfile(path):  # noqa: PTH113 - false also for a name that no file can have
            if whole:
                yield f"its log {plain(name, 60)} is not beside it; verify a record where its run left it, with its logs"
        elif file_digest(path) != text:
            yield f"its log {name} was edited after the run (the record has {text[:12]} for it)"


_SLACK = 1e-6
_AHEAD = timedelta(days=1)
_LEAST_RANKS = 2
_OF_RANKS = ("collectives/", "convergence/", "failures/", "groups/")
"""Suites nothing of which one rank can do; `smoke` brings a group of one up on a host with one card."""
_ONCE = (*SUITE_VERBS, "gate", "sweep", "ranks", "night", "drill")
"""Verbs each of whose checks is in a record once; those of a fleet judge that themselves."""
_NOT_FINITE = ("inf", "-inf", "nan")
"""JSON has no such numbers; a check that fails may have found them."""
_MOST = 1e100
"""No time, size or loss that anything measured; beyond it the squares of statistics are no numbers."""
_COUNTED = ("samples", "seconds", "peak_memory_bytes", "of_peak", "numbers", "batches")
_INTERVAL = ("low", "high", "noise")
"""Of a measurement in a unit of time or work; a check may call a difference so, and a loss may be below nothing."""
_BOUNDED = (("error", "bound"), ("worst error", "its bound"), ("gradient error", "gradient bound"))
_RATIO = ("ratio", "ratio, low", "ratio, high")
_JUDGED = {*_COUNTED, *(name for pair in _BOUNDED for name in pair), *_RATIO, "minimum effect"}
"""A check that tells none of these figures cannot contradict them."""


def contradictions(record: Record) -> Iterator[str]:
    """Yield one sentence for each thing that cannot be as the record says."""
    yield from _verdict(record)
    yield from _day(record)
    yield from _circumstances(record)
    names = [check.id for check in record.checks]
    if record.verb in _ONCE and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        yield f"the check '{twice}' is in it twice"
    for check in record.checks:
        yield from _check(check)
        if record.runs_suites:
            yield from _of_suite(check)
    for row in record.measurements:
        yield from (
            f"the measurement '{row.workload} {row.metric}' in {row.unit} {why}" for why in _of_measurement(row)
        )


def _verdict(record: Record) -> Iterator[str]:
    """What was interrupted may have had good checks until then."""
    verdict = record.overall
    if record.verdict not in (verdict, Verdict.INTERRUPTED):
        yield f"it says '{record.verdict.value}', and its {len(record.checks)} checks amount to '{verdict.value}'"
    chosen = bool(record.provenance.get("only"))  # somebody may ask for one check that is skipped here
    ran = [check for check in record.checks if "/" in check.id and (chosen or check.verdict is Verdict.PASSED)]
    if record.runs_suites and record.verdict is Verdict.PASSED and not ran:
        yield "it says 'passed', and no check of a suite ran to its end"


def _day(record: Record) -> Iterator[str]:
    try:
        began = datetime.fromisoformat(record.started[:19])
    except ValueError:
        yield f"it began at '{record.started}', and no calendar has that"
        return
    if began.replace(tzinfo=timezone.utc) > datetime.now(timezone.utc) + _AHEAD:
        yield f"it began at '{record.started}', which is still to come: the clock there or here is wrong"


def _circumstances(record: Record) -> Iterator[str]:
    """Where it ran, as the record says and as its provenance does; an environment is pinned by a lock."""
    facts = record.provenance
    if "/" in record.stack or record.stack.startswith("."):
        yield f"its stack is '{plain(record.stack, 60)}', and no stack can be called so"
    if facts.get("stack", record.stack) != record.stack:
        yield f"it is of stack '{record.stack}', and its provenance is of '{facts['stack']}'"
    pinned, lock = facts.get("pinned", False), facts.get("lock")
    if not isinstance(pinned, bool):
        yield f"it says 'pinned' {pinned!r}, which is neither true nor false"
    elif pinned and lock == "unpinned":
        yield "it says that its environment was pinned, and its lock is 'unpinned'"


def _of_suite(check: Check) -> Iterator[str]:
    """A check of a suite belongs to it, says something, and if it had ranks, more than one."""
    suite, within, _ = check.id.partition("/")
    if within and check.group not in ("", suite):
        yield f"the check '{check.id}' is in the group '{check.group}'"
    if not is_visible(check.reason):
        yield f"the check '{check.id}' says nothing that shows"
    ranks = _number(check.figures.get("world size", _LEAST_RANKS))
    if (
        check.verdict is Verdict.PASSED
        and check.id.startswith(_OF_RANKS)
        and (ranks is None or not ranks >= _LEAST_RANKS)
    ):
        yield f"the check '{check.id}' passed with a world size of {check.figures['world size']}, and one rank exchanges nothing"


def _check(check: Check) -> Iterator[str]:
    if _JUDGED.isdisjoint(check.figures):
        return
    yield from (f"the check '{check.id}' {why}" for why in _impossible(check.figures, _JUDGED, _COUNTED))
    if check.verdict is not Verdict.PASSED:
        return
    for value, bound in _BOUNDED:
        error, limit = _number(check.figures.get(value)), _number(check.figures.get(bound))
        if error is not None and limit is not None and not error <= limit:
            yield f"the check '{check.id}' passed with '{value}' {error:g} above '{bound}' {limit:g}"
    ratio, low, high = (_number(check.figures.get(name)) for name in _RATIO)
    if (low is None) is not (high is None):
        yield f"the check '{check.id}' has one end of its ratio's interval alone"
    if ratio is not None and low is not None and high is not None and not 0 < low <= ratio <= high:
        yield f"the check '{check.id}' has a ratio of {ratio:g} outside of {low:g} to {high:g}"
    effect = _number(check.figures.get("minimum effect"))
    if effect is not None and low is not None and low > 1 + effect:
        yield f"the check '{check.id}' passed, and its ratio is above {low:g} with a minimum effect of {effect:g}"


def _of_measurement(row: Measurement) -> Iterator[str]:
    if huge := [value for value in (row.value, *row.samples) if _MOST < abs(value) < math.inf]:
        yield f"has {huge[0]:g}, which nothing takes"
        return
    middle = (statistics.median_low(row.samples), statistics.median_high(row.samples))
    negative = [value for value in (row.value, *row.samples) if value < 0]
    if negative and row.unit != "1":  # a loss may be below nothing
        yield f"has {negative[0]:g}, and nothing takes less than no time"
    elif not middle[0] * (1 - _SLACK) <= row.value <= middle[1] * (1 + _SLACK) and not math.isnan(sum(row.samples)):
        yield f"says {row.value:g}, and the median of its {len(row.samples)} samples is {middle[0]:g}"
    yield from _figures(row)


def _impossible(figures: Mapping[str, Figure], judged: Collection[str], counted: Collection[str]) -> Iterator[str]:
    """A figure that is judged is a number: a word in its place would only keep it from being judged; a count has no sign."""
    for name in (name for name in figures if name in judged):
        if (value := _number(figures[name])) is None:
            yield f"has '{name}' {str(figures[name])[:60]!r}, which is no number"
        elif name in counted and not value >= 0:
            yield f"has '{name}' {value:g}, which cannot be below nothing"


def _figures(row: Measurement) -> Iterator[str]:
    judged = _COUNTED + _INTERVAL
    yield from _impossible(row.figures, judged, _COUNTED if row.unit == "1" else judged)
    count = _number(row.figures.get("samples"))
    if count is not None and count != len(row.samples):
        yield f"says {count:g} samples and holds {len(row.samples)}"
    if not row.version or "low" not in row.figures:
        return
    interval = median_interval(row.samples)
    for name, value in (("low", interval.low), ("high", interval.high), ("noise", interval.relative)):
        stated = _number(row.figures.get(name))
        if stated is None or (math.isnan(stated) and math.isnan(value)):  # of no samples
            continue
        if not math.isclose(stated, value, rel_tol=_SLACK, abs_tol=1e-15):
            yield f"says '{name}' {stated:g}, and its samples make it {value:g}"


def _number(value: Figure | None) -> float | None:
    """Return a figure as a number, if it is one or a word that records have for one that is not finite."""
    if isinstance(value, bool) or not (isinstance(value, (int, float)) or value in _NOT_FINITE):
        return None
    return float(value)
