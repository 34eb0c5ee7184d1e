"""The benchmarks that asv runs: each measures one subject, returns its samples, and leaves a small record behind.

When the command ends, or was killed and the next one starts, the records of one state and commit become one record of the store.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.bench.rows import measurements
from stackproof.bench.subjects import Profile, Subject, profile, subjects
from stackproof.history import asv_names
from stackproof.history.timeline import SeriesKey
from stackproof.record import records, store
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict, overall
from stackproof.record.store import slug, state
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.device.kinds import Device

VERB = "asv"
_LOCK = ".running"


@dataclass
class Command:
    """The folder of one running asv command; while it runs it holds a lock, so that nobody takes its pieces for left ones."""

    folder: Path
    _lock: BinaryIO | None

    @classmethod
    def begin(cls, base: Path) -> Command:
        """Make a folder for the pieces of this process."""
        folder = base / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{os.getpid()}-{secrets.token_hex(3)}"
        folder.mkdir(parents=True)
        return cls(folder, files.lock(folder / _LOCK))

    def end(self, into: Path, *, keep: bool) -> tuple[list[Path], list[str]]:
        """Join the pieces into records below `into`, unless the command was one that keeps nothing."""
        pair = _seal(self.folder, into) if keep else ([], [])
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock:
            self._lock.close()
        return pair


def seal_left(base: Path, into: Path) -> tuple[list[Path], list[str]]:
    """Join what killed commands left behind; return the records made and a sentence for each damaged piece."""
    made: list[Path] = []
    problems: list[str] = []
    for folder in sorted(base.glob("*-*-*")):
        try:
            lock = files.lock(folder / _LOCK, wait_s=0)
        except OSError:  # its command has just removed it
            continue
        if lock:
            with lock:
                records, damaged = _seal(folder, into)
                made, problems = made + records, problems + damaged
                shutil.rmtree(folder, ignore_errors=True)
    return made, problems


def _seal(folder: Path, into: Path) -> tuple[list[Path], list[str]]:
    loaded = store.load([folder])
    joined = join(loaded.records.values())
    for record in joined:
        records.seal(record, folder)
    return [store.append(record, into / slug(record.stack)) for record in joined], loaded.problems


def join(pieces: Iterable[Record]) -> list[Record]:
    """Return one record for each state and commit among the pieces, with all their checks and figures in order."""
    groups: dict[str, list[Record]] = {}
    for piece in sorted(pieces, key=lambda record: record.started):
        groups.setdefault(state(piece.provenance).as_json(), []).append(piece)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[Record]) -> Record:
    first = group[0]
    joined = Record(VERB, first.stack, first.started, provenance=dict(first.provenance))
    for piece in group:
        joined.seconds += piece.seconds
        joined.checks += piece.checks
        joined.measurements += piece.measurements
    joined.verdict = overall(check.verdict for check in joined.checks)
    return joined


STACK = "STACKPROOF_STACK"
REHEARSED = "STACKPROOF_REHEARSED"
DEVICE = "STACKPROOF_DEVICE"
PROFILE = "STACKPROOF_PROFILE"
FACTS = "STACKPROOF_FACTS"
PIECES = "STACKPROOF_PIECES"
DEFAULT_PROFILE = "fast"
_START_S = {"tiny": 240.0, "full": 900.0}
"""What importing, building, verifying and warming up may take beside the samples, before asv ends the process."""

Result = dict[str, Any]


def benchmarks(kind: str) -> dict[str, Callable[[], Result]]:
    """Return the benchmarks of a kind in the profile that was asked for, by name of function; a leaf adds them to itself."""
    chosen = profile(os.environ.get(PROFILE, DEFAULT_PROFILE))
    functions = [_benchmark(subject, chosen) for subject in subjects(chosen.name, stack()) if subject.kind == kind]
    return {function.__name__: function for function in functions}


def stack() -> stacks.Stack:
    """Return the stack that asv's environment was made for."""
    name = os.environ.get(STACK)
    if not name:
        raise Refusal(f"{STACK} is not set: benchmarks are run by asv through `nox -s NAME-asv -- run`")
    found = stacks.load(name)
    return found.rehearse() if os.environ.get(REHEARSED) else found


def _benchmark(subject: Subject, chosen: Profile) -> Callable[[], Result]:
    def track() -> Result:
        return run(subject, chosen)

    key = SeriesKey(subject.name, chosen.preset, subject.unit)
    name = asv_names.benchmark(key)
    track.__name__ = track.__qualname__ = name.rpartition(".")[2]
    track.__doc__ = subject.title
    attributes = {
        "pretty_name": asv_names.title(key),
        "unit": asv_names.unit(key),
        "version": subject.version,
        "timeout": _START_S[chosen.preset] + 4 * chosen.budget.seconds,
    }
    track.__dict__.update(attributes)
    return track


def run(subject: Subject, chosen: Profile) -> Result:
    """Measure, leave a piece of a record behind, and return what asv makes a median of.

    A subject that computes wrong, or whose clock cannot be believed, has no figure: asv sees a failure. One that the stack
    cannot run is skipped.
    """
    from stackproof.bench import engine  # a listing imports no torch
    from stackproof.record.checks import CapabilityMissing, CheckEnded

    began, started = time.monotonic(), datetime.now(timezone.utc)
    device = _device(subject.stack)
    try:
        sampled = engine.measure(subject, device, chosen.preset, chosen.budget)
    except CapabilityMissing as missing:
        from asv_runner.benchmarks.mark import SkipNotImplemented  # there only while asv runs

        raise SkipNotImplemented(str(missing)) from missing
    except CheckEnded as ended:
        _leave(piece(subject, chosen, started, _check(subject, chosen, ended.verdict, str(ended), began)))
        raise
    verdict = Verdict.PASSED if sampled.verified else Verdict.FAILED
    check = _check(subject, chosen, verdict, sampled.reason or "verified", began)
    _leave(piece(subject, chosen, started, check, measurements(sampled, subject.kind, device.name())))
    if not sampled.verified:
        raise RuntimeError(f"{subject.name} computes wrong and was not timed: {sampled.reason}")
    return {"samples": list(sampled.samples), "number": 1}


def _check(subject: Subject, chosen: Profile, verdict: Verdict, reason: str, began: float) -> Check:
    name = f"{VERB}/{subject.kind}::{subject.name}[{chosen.preset}]"
    return Check(name, verdict, reason, time.monotonic() - began)


def _device(of: stacks.Stack) -> Device:
    """Return the device that was asked for, or the first."""
    from stackproof.device import devices

    text = os.environ.get(DEVICE, "")
    return devices.parse(text, of.device) if text else devices.default(of.device)


def piece(
    subject: Subject, chosen: Profile, started: datetime, check: Check, rows: Sequence[Measurement] = ()
) -> Record:
    """Return a record of this one benchmark, with the facts that asv's environment found."""
    return Record(
        verb=VERB,
        stack=subject.stack.name,
        started=started.isoformat(timespec="milliseconds"),
        seconds=check.seconds,
        verdict=check.verdict,
        provenance={**_facts(), "profile": chosen.name},
        checks=[check],
        measurements=list(rows),
    )


def _facts() -> dict[str, Figure]:
    """Return the facts of the environment, with the commit that asv checked out in place of the checkout's own."""
    figures: dict[str, Figure] = files.read_json(Path(os.environ[FACTS]))
    return figures | {"commit": os.environ.get("ASV_COMMIT", figures["commit"])}


def _leave(record: Record) -> None:
    if folder := os.environ.get(PIECES):
        store.append(record, Path(folder))
