"""The benchmarks that asv runs, what asv calls them, and what the stack's own interpreter says of itself before. Needs no asv.

Each measures one subject, returns its samples, and leaves a small record behind. When the command ends, the records of one state and
commit become one record of the store. A benchmark's name is the same whether asv ran it or a
record of `bench` is shown to asv. `python -m stackproof.history.leaf STACK [rehearsed]` prints what provenance knows, as JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from stackproof.base import files, processes
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError, answer
from stackproof.base.text import tail
from stackproof.bench.rows import measurements
from stackproof.bench.subjects import Profile, Subject, profile, profiles, subjects
from stackproof.history.timeline import Pooled, SeriesKey
from stackproof.record import records, store
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict
from stackproof.record.store import Place, State, slug, state
from stackproof.runner.suites import DEFAULT_PROFILE
from stackproof.stack import environment_proof, hosts, lockfile, provenance, stacks

RETIRED = "retired"
"""The module of subjects that `data/benchmarks.toml` no longer has; their history stays."""


_ASKED_S = 120.0
"""Of a quiet host; a crowded one gets as many times as much."""
_KINDS: dict[int, type[Refusal]] = {3: StackUnavailableError, 4: EnvironmentMismatchError}


VERB = "asv"


def end(folder: Path, into: Path, *, keep: bool) -> tuple[list[Path], list[str]]:
    """Join a command's pieces into records below `into`, unless it keeps nothing; return their files, and a sentence for each bad piece."""
    loaded = store.load([folder]) if keep else store.Loaded()
    joined = join(loaded.records.values())
    for record in joined:
        records.seal(record, folder)
    made = [store.append(record, into / slug(record.stack)) for record in joined]
    shutil.rmtree(folder, ignore_errors=True)
    return made, loaded.problems


def join(pieces: Iterable[Record]) -> list[Record]:
    """Return one record for each state and commit among the pieces, with all their checks and figures in order."""
    groups: dict[str, Record] = {}
    for piece in sorted(pieces, key=lambda record: record.started):
        fresh = Record(VERB, piece.stack, piece.started, provenance=dict(piece.provenance))
        joined = groups.setdefault(state(piece.provenance).as_json(), fresh)
        joined.seconds += piece.seconds
        joined.checks += piece.checks
        joined.measurements += piece.measurements
        joined.verdict = joined.overall
    return list(groups.values())


STACK = "STACKPROOF_STACK"
REHEARSED = "STACKPROOF_REHEARSED"
DEVICE = "STACKPROOF_DEVICE"
PROFILE = "STACKPROOF_PROFILE"
FACTS = "STACKPROOF_FACTS"
PIECES = "STACKPROOF_PIECES"
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
        raise Refusal(
            f"{STACK} is not set: type `nox -s NAME-asv -- run`, or plain `asv run -E stack:NAME`; --python=same does not work"
        )
    return stacks.load(name, rehearsed=bool(os.environ.get(REHEARSED)))


def _benchmark(subject: Subject, chosen: Profile) -> Callable[[], Result]:
    def track() -> Result:
        return run(subject, chosen)

    key = SeriesKey(subject.name, chosen.preset, subject.unit)
    track.__name__ = track.__qualname__ = name_of(key).rpartition(".")[2]
    track.__doc__ = subject.title
    timeout = _START_S[chosen.preset] + 4 * chosen.budget.seconds
    track.__dict__ |= {"pretty_name": title(key), "unit": unit(key), "version": subject.version, "timeout": timeout}
    return track


def run(subject: Subject, chosen: Profile) -> Result:
    """Measure, leave a record of this one benchmark behind, and return what asv makes a median of.

    A subject that computes wrong, or whose clock cannot be believed, has no figure: asv sees a failure. One that the stack
    cannot run is skipped, and so is one of which a busy host told nothing; its record says why.
    """
    from stackproof.bench import engine  # a listing imports no torch
    from stackproof.device import devices
    from stackproof.record.checks import CapabilityMissing, CheckEnded, CheckInconclusive

    began, started = time.monotonic(), datetime.now(timezone.utc).isoformat(timespec="milliseconds")

    def leave(verdict: Verdict, reason: str, rows: Sequence[Measurement] = ()) -> None:
        """The facts are the environment's, but for the code: that is what asv has checked out and this process runs."""
        name, seconds = f"{VERB}/{subject.kind}::{subject.name}[{chosen.preset}]", time.monotonic() - began
        facts: dict[str, Figure] = files.read_json(Path(os.environ[FACTS]))
        facts.pop(provenance.DIFFERS, None)
        facts |= {**provenance.code_facts(), "profile": chosen.name}
        checks = [Check(name, verdict, reason, seconds)]
        record = Record(VERB, subject.stack.name, started, seconds, verdict, facts, checks, list(rows))
        if folder := os.environ.get(PIECES):
            store.append(record, Path(folder))

    text, kind = os.environ.get(DEVICE, ""), subject.stack.device
    device = devices.parse(text, kind) if text else devices.default(kind)
    try:
        sampled = engine.measure(subject, device, chosen.preset, chosen.budget)
    except CheckEnded as ended:
        if not isinstance(ended, CapabilityMissing):
            leave(ended.verdict, str(ended))
        if not isinstance(ended, (CapabilityMissing, CheckInconclusive)):
            raise
        from asv_runner.benchmarks.mark import SkipNotImplemented  # there only while asv runs

        raise SkipNotImplemented(str(ended)) from ended
    verdict = Verdict.PASSED if sampled.verified else Verdict.FAILED
    leave(verdict, sampled.reason or "verified", measurements(sampled, subject.kind, device.name()))
    if not sampled.verified:
        raise RuntimeError(f"{subject.name} computes wrong and was not timed: {sampled.reason}")
    return {"samples": list(sampled.samples), "number": 1}


def name_of(key: SeriesKey) -> str:
    """Return the name of a figure's benchmark: the leaf under `benchmarks/` and a function in it."""
    known = _subjects().get(key.subject)
    return f"{word(known.kind) if known else RETIRED}.track_{word(key.subject)}_{key.preset}"


def title(key: SeriesKey) -> str:
    """Return how asv's pages call it, with what the seconds are for."""
    _, _, thing = key.unit.partition("/")
    return f"{key.subject} ({key.preset}){', per ' + thing if thing else ''}"


def unit(key: SeriesKey) -> str:
    """Return the unit for asv: it knows how to write seconds, and the title says for how much work they are."""
    return "seconds" if key.unit.partition("/")[0] == "s" else key.unit


def description(figure: Pooled) -> dict[str, object]:
    """Return what `benchmarks.json` says of a benchmark: its version is that of the checkout, which hides figures of others.

    `code` is empty, because the version is explicit.
    """
    known = _subjects().get(figure.key.subject)
    return {
        "name": name_of(figure.key),
        "pretty_name": title(figure.key),
        "type": "track",
        "unit": unit(figure.key),
        "version": known.version if known else figure.version,
        "params": [],
        "param_names": [],
        "code": "",
    }


def environment(place: Place, state: State) -> str:
    """Return the name of the environment: part of every file's name, so that two drivers never share a file."""
    return f"{place.slug}-{state.digest[:8]}"


def axes(place: Place, state: State) -> dict[str, str]:
    """Return what asv shows and tells apart as requirements: stack, devices, driver, torch, and the state as a whole."""
    return {
        "stack": f"{place.stack} (rehearsed)" if place.rehearsed else place.stack,
        "devices": place.devices,
        "driver": state.version("driver"),
        "torch": state.fact("wheels", "torch"),
        "state": state.digest[:8],
        "place": place.digest[:8],
    }


@cache
def _subjects() -> dict[str, Subject]:
    """Return the subjects of all profiles by name; the list does not depend on the stack."""
    any_stack = stacks.load_all()[0]
    return {subject.name: subject for chosen in profiles() for subject in subjects(chosen.name, any_stack)}


def word(text: str) -> str:
    """Return a name as a part of a name of Python; of a kind of work it is the module under `benchmarks/` that measures it."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")


def ask(python: Path, stack: stacks.Stack, environment: dict[str, str]) -> dict[str, Figure]:
    """Return the facts of a stack, asked of its interpreter in a process of its own.

    Raises:
        Refusal: what the process said, with its exit code.
    """
    environment = {**environment, "PYTHONPATH": stack.path(environment.get("PYTHONPATH", ""))}
    command = [str(python), "-m", "stackproof.history.leaf", stack.name, *(["rehearsed"] if stack.rehearsed else [])]
    seconds = _ASKED_S * processes.crowding()
    ended = processes.run(command, seconds=seconds, environment=environment)
    if ended.timed_out or ended.code in (processes.NOT_FOUND, processes.NOT_EXECUTABLE):
        why = f"no answer in {seconds:.0f} s, at {processes.load()}" if ended.timed_out else ended.errors
        raise StackUnavailableError(f"{python}: does not answer what it is ({why})")
    if not ended.ok:
        lines = [line for line in ended.errors.splitlines() if line.strip()]
        if ended.code not in _KINDS and "ModuleNotFoundError" in ended.errors:
            raise Refusal(f"{python}: {tail(ended.errors)}; it needs torch and {', '.join(sorted(lockfile.HARNESS))}")
        sentence = "\n".join(line.removeprefix("stackproof: ") for line in lines[-12:]) or "it said nothing"
        raise _KINDS.get(ended.code, Refusal)(sentence)
    figures: dict[str, Figure] = files.parse_json(ended.output.splitlines()[-1], f"what {python} says of its stack")
    return figures


def facts(name: str, rehearsed: bool) -> dict[str, Figure]:
    """Return what is known of a stack in this environment; refuse an environment that is not its lock."""
    from stackproof.device import threads  # imports torch, which only the stack's interpreter has
    from stackproof.device.devices import torch_facts

    stack = hosts.require(stacks.load(name, rehearsed=rehearsed))
    figures = {**provenance.host_facts(stack), **provenance.proof_facts(environment_proof.prove(stack))}
    os.environ.update(stack.process_environment())  # after they were told from what the user has set
    threads.choose(profile(os.environ.get(PROFILE, DEFAULT_PROFILE)).preset)  # as what is measured gets them
    return {**figures, **torch_facts(stack)}


if __name__ == "__main__":
    sys.exit(answer(lambda: json.dumps(facts(sys.argv[1], "rehearsed" in sys.argv[2:]))))
