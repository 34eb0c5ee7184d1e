"""Runs suites in a process of their own, supervised: progress, deadlines, crashes and hangs become checks of a record.

The supervisor imports no torch. When the process that runs the checks dies or hangs, the check it was in gets
that verdict, everything it left behind is killed, and the rest of the suite goes on in a fresh process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from . import ROOT, processes
from .records import NOT_EXECUTED, Check, Measurement, Record, Verdict, overall
from .session import SESSION, Session
from .stacks import Stack

SUITES = ROOT / "suites"
_COLLECTION_DEADLINE_S = 180.0
_EXIT_DEADLINE_S = 15.0
_GRACE_S = 2.0
_MOST_PROCESSES = 25


@dataclass(frozen=True)
class Plan:
    """What to run: a stack, the folders of suites, and how."""

    verb: str
    stack: Stack
    suites: tuple[str, ...]
    device: str = ""
    preset: str = "tiny"
    only: tuple[str, ...] = ()
    deadline_scale: float = 1.0


class Observer(Protocol):
    """Who watches a run: the terminal, or nobody."""

    def collected(self, total: int) -> None:
        """The suite has this many checks."""

    def started(self, identifier: str) -> None:
        """A check began."""

    def finished(self, check: Check) -> None:
        """A check ended."""


@dataclass
class _Run:
    """What is known so far, over all processes that the run needed."""

    plan: Plan
    record: Record
    observer: Observer
    folder: Path
    mark: str = field(default_factory=processes.new_mark)
    collected: list[str] = field(default_factory=list)
    current: str = ""
    deadline: float = 0.0
    ended: bool = False
    events: Iterable[dict[str, Any]] = ()

    def conclude(self, check: Check) -> None:
        self.record.checks.append(check)
        self.observer.finished(check)

    @property
    def finished(self) -> tuple[str, ...]:
        return tuple(check.id for check in self.record.checks)


def run(plan: Plan, record: Record, observer: Observer, folder: Path) -> Record:
    """Run the plan's suite and fill the record; on Ctrl-C nothing is left running and the record says interrupted.

    Args:
        plan: what to run.
        record: what is filled; checks that it holds already stay.
        observer: who is told as it happens.
        folder: an existing folder for the logs of this run.
    """
    state = _Run(plan, record, observer, folder)
    began = time.monotonic()
    try:
        _run_processes(state)
        _guard(state)
        record.verdict = overall(check.verdict for check in record.checks)
    except KeyboardInterrupt:
        _absorb(state)
        reason = "interrupted from outside; the checks after it did not run"
        state.conclude(Check(state.current or "start", Verdict.INTERRUPTED, reason, 0.0))
        record.verdict = Verdict.INTERRUPTED
    finally:
        processes.end_tree(state.mark)
    record.seconds += time.monotonic() - began
    record.provenance["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    record.logs += [str(path) for path in sorted(folder.rglob("*.log"))]
    return record


def _run_processes(state: _Run) -> None:
    for attempt in range(_MOST_PROCESSES):
        if not _run_process(state, state.folder / f"suite-{attempt}.log"):
            return


def _run_process(state: _Run, log: Path) -> bool:
    """Run one process until it ends, dies or hangs; return whether checks are left for another one."""
    state.ended, state.current, before = False, "", len(state.record.checks)
    state.deadline = time.monotonic() + _COLLECTION_DEADLINE_S * state.plan.deadline_scale
    state.events = _Tail(state.folder / "events.jsonl")
    with log.open("wb") as output:
        child = processes.start(_command(state.plan), output, _environment(state), state.mark)
        try:
            hung = _follow(state, child)
        finally:
            processes.end_tree(state.mark, child)
    _absorb(state)
    interrupted_check = state.current
    if hung:
        _conclude_hang(state)
    elif not state.ended or (child.returncode or 0) < 0:
        _conclude_death(state, child.returncode or 0, log, silent=len(state.record.checks) > before)
    return bool(interrupted_check)


def _follow(state: _Run, child: subprocess.Popen[bytes]) -> bool:
    """Read events until the process ends; return whether it had to be given up."""
    while child.poll() is None:
        _absorb(state)
        if time.monotonic() > state.deadline + _GRACE_S:
            return True
        time.sleep(0.03)
    return False


def _absorb(state: _Run) -> None:
    for event in state.events:
        _HANDLERS[event.pop("event")](state, event)


def _on_collected(state: _Run, event: dict[str, Any]) -> None:
    if not state.collected:
        state.collected = list(event["ids"])
        state.observer.collected(len(state.collected))


def _on_started(state: _Run, event: dict[str, Any]) -> None:
    state.current = event["id"]
    state.deadline = time.monotonic() + event["deadline_s"]
    state.observer.started(state.current)


def _on_finished(state: _Run, event: dict[str, Any]) -> None:
    row = event["check"]
    state.conclude(Check(**{**row, "verdict": Verdict(row["verdict"])}))
    state.current = ""
    state.deadline = time.monotonic() + _COLLECTION_DEADLINE_S


def _on_measurement(state: _Run, event: dict[str, Any]) -> None:
    state.record.measurements.append(Measurement(**event))


def _on_facts(state: _Run, event: dict[str, Any]) -> None:
    state.record.provenance.update(event["values"])


def _on_ended(state: _Run, _: dict[str, Any]) -> None:
    state.ended = True
    state.deadline = time.monotonic() + _EXIT_DEADLINE_S


_HANDLERS: dict[str, Callable[[_Run, dict[str, Any]], None]] = {
    "collected": _on_collected,
    "started": _on_started,
    "finished": _on_finished,
    "measurement": _on_measurement,
    "facts": _on_facts,
    "ended": _on_ended,
}


def _conclude_hang(state: _Run) -> None:
    where = processes.last_lines(state.folder / "stacks.txt", 40)
    frame = next((line.strip() for line in where if line.strip().startswith("File ")), "no Python code that it told of")
    state.conclude(
        Check(_place(state), Verdict.HUNG, f"did not end by its deadline and was ended; it was in {frame}", 0.0)
    )


def _conclude_death(state: _Run, status: int, log: Path, silent: bool) -> None:
    if silent and status >= 0 and not state.current:
        return  # it said what was wrong and ended itself
    said = " / ".join(processes.last_lines(log, 3)) or "it printed nothing"
    state.conclude(
        Check(
            _place(state),
            Verdict.CRASHED,
            f"the process ended with {processes.describe_exit(status)}; it printed last: {said}"[:800],
            0.0,
        )
    )


def _place(state: _Run) -> str:
    return state.current or f"{' '.join(state.plan.suites)} ({'exit' if state.ended else 'start'})"


def _guard(state: _Run) -> None:
    """Fail a run in which a collected check never ran, or fewer checks were executed than the stack promises."""
    lost = [identifier for identifier in state.collected if identifier not in state.finished]
    for identifier in lost:
        state.conclude(Check(identifier, Verdict.FAILED, "was collected but never ran", 0.0))
    if state.plan.only:
        if not state.collected:
            state.conclude(Check("guard", Verdict.FAILED, f"no check matches {', '.join(state.plan.only)}", 0.0))
        return
    for suite in state.plan.suites:
        _guard_count(state, suite)


def _guard_count(state: _Run, suite: str) -> None:
    checks = [check for check in state.record.checks if check.id in state.collected and check.id.startswith(f"{suite}/")]
    executed = sum(check.verdict not in NOT_EXECUTED for check in checks)
    promised = state.plan.stack.expected.get(suite, 1)
    if executed >= promised:
        return
    reasons = sorted({check.reason for check in checks if check.verdict in NOT_EXECUTED})
    why = f"; not executed: {' | '.join(reasons)}" if reasons else ""
    file = f"stacks/{state.plan.stack.name}/stack.toml"
    reason = f"{executed} checks of {suite} were executed, {file} expects at least {promised}{why}"
    state.conclude(Check(f"guard: {suite}", Verdict.FAILED, reason, 0.0))


def _command(plan: Plan) -> list[str]:
    folders = [str(SUITES / suite) for suite in plan.suites]
    return [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "pytest",
        "-c",
        str(SUITES / "pytest.ini"),
        "--rootdir",
        str(SUITES),
        *folders,
    ]


def _environment(state: _Run) -> dict[str, str]:
    """Return the stack's defaults where the user has set nothing, and where the session is described."""
    plan = state.plan
    session = Session(
        stack=plan.stack.name,
        rehearsed=plan.stack.rehearsed,
        device=plan.device,
        preset=plan.preset,
        folder=str(state.folder),
        finished=state.finished,
        passed=tuple(check.id for check in state.record.checks if check.verdict is Verdict.PASSED),
        only=plan.only,
        deadline_scale=plan.deadline_scale,
    )
    path = state.folder / "session.json"
    path.write_text(json.dumps(asdict(session)), encoding="utf-8")
    defaults = {name: value for name, value in plan.stack.environment.items() if name not in os.environ}
    return {**defaults, SESSION: str(path)}


class _Tail:
    """Complete lines appended to a file of JSON objects since the last look, from where it stands now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._position)
            while (line := stream.readline()).endswith(b"\n"):
                self._position = stream.tell()
                yield json.loads(line)


def run_folder(base: Path, started: str) -> Path:
    """Make a new folder for the logs of one run under `base`."""
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{started.replace(':', '')}-", dir=base))
