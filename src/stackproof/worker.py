"""One supervised process that runs checks: what it says, and what becomes of it when it dies or hangs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import processes, triage
from .ledger import Ledger
from .records import Check, Measurement, Verdict
from .session import SESSION, Session
from .stacks import Stack

_QUIET_S = 180.0  # for what is between checks: imports, collection, a module's fixtures
_GRACE_S = 2.0


@dataclass(frozen=True)
class Order:
    """What a worker is to run: the session, the folders of the suites, where their configuration lies."""

    session: Session
    suites: tuple[str, ...]
    root: Path
    environment: dict[str, str]


@dataclass
class Worker:
    """A process, followed until it ends; `left` says that it ended inside a check, so that others may be left to run."""

    order: Order
    ledger: Ledger
    mark: str
    left: bool = False
    current: str = ""
    ended: bool = False
    _own: str = field(default_factory=processes.new_mark)

    def start(self) -> None:
        """Start the process; its output goes to a file of its own."""
        folder = Path(self.order.session.folder)
        self._log = folder / f"suite-{len(list(folder.glob('suite-*.log')))}.log"
        self._events = _Tail(folder / "events.jsonl")
        self._before = len(self.ledger.record.checks)
        self._extend(_QUIET_S)
        (folder / "session.json").write_text(json.dumps(asdict(self.order.session)), encoding="utf-8")
        environment = {**self.order.environment, SESSION: str(folder / "session.json")}
        with self._log.open("wb") as output:
            self._child = processes.start(self._command(), output, environment, f"{self.mark}/{self._own}")

    def alive(self) -> bool:
        """Absorb what the process said; when it has ended, or must be, conclude and return False."""
        self.absorb()
        running = self._child.poll() is None
        if running and time.monotonic() <= self._deadline + _GRACE_S:
            return True
        processes.end_tree(self._own, self._child)
        self.absorb()
        self.left = bool(self.current)
        self._conclude(hung=running)
        return False

    def absorb(self) -> None:
        """Take over the events that were written since the last look."""
        for event in self._events:
            _HANDLERS[event.pop("event")](self, event)

    def _extend(self, seconds: float) -> None:
        """Let the process be quiet for so long, times what the user allows slow hosts."""
        self._deadline = time.monotonic() + seconds * self.order.session.deadline_scale

    def _conclude(self, hung: bool) -> None:
        status = self._child.returncode or 0
        if hung:
            self.ledger.conclude(Check(self._place(), Verdict.HUNG, self._hang(), 0.0))
        elif not self.ended or status < 0:
            said_why = len(self.ledger.record.checks) > self._before
            if not (said_why and status >= 0 and not self.current):
                self.ledger.conclude(Check(self._place(), Verdict.CRASHED, self._death(status), 0.0))

    def _hang(self) -> str:
        dumped = processes.last_lines(Path(self.order.session.folder) / "stacks.txt", 40)
        frames = (line.strip() for line in dumped if line.strip().startswith("File "))
        place = next(frames, "")
        where = f"it was in {place}" if place else f"its log is {self._log}"
        return triage.with_finding(f"did not end by its deadline and was ended; {where}", [self._log])

    def _death(self, status: int) -> str:
        said = " / ".join(processes.last_lines(self._log, 3)) or "nothing"
        reason = f"the process ended with {processes.describe_exit(status)}; it printed last: {said}"[:800]
        return triage.with_finding(reason, [self._log])

    def _place(self) -> str:
        return self.current or f"{' '.join(self.order.suites)} ({'exit' if self.ended else 'start'})"

    def _command(self) -> list[str]:
        folders = [str(self.order.root / suite) for suite in self.order.suites]
        configuration = ["-c", str(self.order.root / "pytest.ini"), "--rootdir", str(self.order.root)]
        return [sys.executable, "-X", "faulthandler", "-m", "pytest", *configuration, *folders]


def _on_collected(worker: Worker, event: dict[str, Any]) -> None:
    worker.ledger.announce(event["ids"], event["known"])


def _on_started(worker: Worker, event: dict[str, Any]) -> None:
    worker.current = event["id"]
    worker._deadline = time.monotonic() + event["deadline_s"]  # scaled by the process itself
    worker.ledger.observer.started(worker.current)


def _on_finished(worker: Worker, event: dict[str, Any]) -> None:
    row = event["check"]
    worker.current = ""
    worker._extend(_QUIET_S)
    worker.ledger.conclude(Check(**{**row, "verdict": Verdict(row["verdict"])}))


def _on_measurement(worker: Worker, event: dict[str, Any]) -> None:
    worker.ledger.record.measurements.append(Measurement(**event))


def _on_facts(worker: Worker, event: dict[str, Any]) -> None:
    worker.ledger.record.provenance.update(event["values"])


def _on_ended(worker: Worker, event: dict[str, Any]) -> None:
    worker.ended = True
    worker._deadline = time.monotonic() + event["deadline_s"]


_HANDLERS: dict[str, Callable[[Worker, dict[str, Any]], None]] = {
    "collected": _on_collected,
    "started": _on_started,
    "finished": _on_finished,
    "measurement": _on_measurement,
    "facts": _on_facts,
    "ended": _on_ended,
}


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


def variables_of(stack: Stack) -> dict[str, str]:
    """Return what a process of the stack is started with: its defaults where the user has set nothing, its packages on the path."""
    defaults = {name: value for name, value in stack.environment.items() if name not in os.environ}
    return {**defaults, "PYTHONPATH": stack.path(os.environ.get("PYTHONPATH", ""))} if stack.packages else defaults
