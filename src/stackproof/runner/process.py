"""The state of a run, and one supervised process of it: what it says, and what becomes of it when it dies or hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.places import SUITES
from stackproof.base.text import first_line
from stackproof.project import projects
from stackproof.record import records
from stackproof.record.records import Check, Measurement, Record, Verdict
from stackproof.runner.request import REQUEST, Request
from stackproof.runner.suites import plugins_of
from stackproof.stack import environments, findings, startup
from stackproof.stack.stacks import Stack
from stackproof.triage import explain

_CHECKPOINT_S = 10.0


class Observer(Protocol):
    """Who watches a run: the terminal, or nobody."""

    def collected(self, total: int) -> None:
        """The run has this many checks, as far as is known."""

    def started(self, identifier: str) -> None:
        """A check began."""

    def progress(self, identifier: str, said: str) -> None:
        """A check that takes long has come so far."""

    def finished(self, check: Check) -> None:
        """A check ended."""


def _unchanged(check: Check) -> Check:
    return check


def _nowhere(record: Record) -> None:
    """Keep no checkpoint."""


@dataclass
class RunState:
    """Collects checks into a record, each once, and lets a run that is killed leave what it had.

    `excuse` may turn a failure into a known issue; `save` keeps the record as it stands.
    """

    record: Record
    observer: Observer
    excuse: Callable[[Check], Check] = _unchanged
    save: Callable[[Record], None] = _nowhere
    collected: dict[str, None] = field(default_factory=dict)
    known: dict[str, None] = field(default_factory=dict)
    """Every check of the suites that were looked at, chosen or not."""
    theirs: set[str] = field(default_factory=set)
    """Those of them that are a project's, which no manifest of ours counts."""
    _saved_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._ended = {check.id for check in self.record.checks}
        self._earlier = frozenset(self._ended)

    def announce(self, identifiers: list[str], known: Iterable[str] = (), theirs: Iterable[str] = ()) -> None:
        """Note what a process collected; a fresh process after a crash collects the same again."""
        self.known.update(dict.fromkeys(known))
        self.theirs.update(theirs)
        before = len(self.collected)
        self.collected.update(dict.fromkeys(identifiers))
        if len(self.collected) > before:
            self.observer.collected(len(self.collected.keys() - self._earlier))

    def conclude(self, check: Check) -> None:
        """Note how a check ended; the first word counts."""
        if check.id in self._ended:
            return
        self._ended.add(check.id)
        judged = self.excuse(records.of_suite(check))
        if judged.verdict is Verdict.FAILED:
            judged = replace(judged, reason=findings.with_settings(judged.reason, os.environ))
        self.record.checks.append(judged)
        self.observer.finished(judged)

    def checkpoint(self) -> None:
        """Keep the record every few seconds as if it had been interrupted now."""
        if time.monotonic() - self._saved_at < _CHECKPOINT_S:
            return
        verdict, self.record.verdict = self.record.verdict, Verdict.INTERRUPTED
        self.save(self.record)
        self.record.verdict, self._saved_at = verdict, time.monotonic()

    @property
    def ended(self) -> dict[str, tuple[str, str]]:
        """The checks that have a verdict: it and its reason, by name."""
        return {check.id: (check.verdict.value, check.reason) for check in self.record.checks}


_QUIET_S = 180.0  # for what is between checks: imports, collection, a module's fixtures
_GRACE_S = 2.0


@dataclass
class CheckProcess:
    """A process, followed until it ends; `left` says that it ended inside a check, so that others may be left to run."""

    request: Request
    root: Path
    """Where the folders of suites and their configuration lie."""
    state: RunState
    mark: str
    left: bool = False
    current: str = ""
    ended: bool = False
    _broken: str = ""
    _own: str = field(default_factory=processes.new_mark)

    def start(self) -> None:
        """Start the process; its output goes to a file of its own."""
        folder = Path(self.request.folder)
        folder.mkdir(parents=True, exist_ok=True)  # somebody may have deleted it since the last process
        self._log = folder / f"suite-{len(list(folder.glob('suite-*.log')))}.log"
        self._events = Tail(folder / "events.jsonl")
        self._before, self._began = len(self.state.record.checks), time.monotonic()
        self._extend(_QUIET_S)
        replace(self.request, earlier=self.state.ended).write(folder / "request.json")
        stack = self.request.stack
        guarded = startup.guarded(stack, os.environ, bool(environments.stamp(Path(sys.prefix))))
        environment = {
            **variables_of(stack),
            **guarded,
            REQUEST: str(folder / "request.json"),
            processes.STARTED: str(time.time()),
        }
        with self._log.open("wb") as output:
            self._child = processes.start(
                command(self.request, self.root), output, environment, f"{self.mark}/{self._own}"
            )

    def alive(self) -> bool:
        """Absorb what the process said; when it has ended, or must be, conclude and return False."""
        self.absorb()
        running = self._child.poll() is None
        if running and not self._broken and time.monotonic() <= self._deadline + _GRACE_S:
            return True
        if running and not self._broken and not self.current:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # no check has armed a dump of its stacks
                self._child.send_signal(signal.SIGABRT)
                self._child.wait(_GRACE_S)
        processes.end_tree(self._own, self._child)
        self.absorb()
        self._events.close()
        self._conclude(hung=running)
        self.left = bool(self.current or self._broken) and len(self.state.record.checks) > self._before
        return False

    def absorb(self) -> None:
        """Take over the events that were written since the last look; what is none is kept as what is wrong."""
        try:
            for event in self._events:
                _HANDLERS[event.pop("event")](self, event)
        except (Refusal, LookupError, TypeError, ValueError, AttributeError) as error:
            self._broken = f"a line of its events is none ({type(error).__name__}: {first_line(error, 200)})"
        except OSError as error:
            self._broken = f"what it writes cannot be read any more: {error}"

    def _extend(self, seconds: float) -> None:
        """Let the process be quiet for so long, times what the user allows slow hosts and what the host is crowded."""
        self._deadline = time.monotonic() + seconds * self.request.deadline_scale * processes.crowding()

    def _conclude(self, hung: bool) -> None:
        status = self._child.returncode or 0
        if self._broken:
            said = f"{self._broken}; the process was ended, and what it had not said runs again"
            self.state.conclude(Check(self._place(), Verdict.CRASHED, said, 0.0))
        elif hung:
            self.state.conclude(Check(self._place(), Verdict.HUNG, self._hang(), 0.0))
        elif self.current or not self.ended or status < 0:
            said_why = len(self.state.record.checks) > self._before
            if not (said_why and status >= 0 and not self.current):
                self.state.conclude(Check(self._place(), Verdict.CRASHED, self._death(status), 0.0))

    def _hang(self) -> str:
        starting = not self.current and not self.ended
        dumped = processes.last_lines(self._log if starting else Path(self.request.folder) / "stacks.txt", 200)
        newest = max((number for number, line in enumerate(dumped) if line.startswith("Timeout (")), default=0)
        frames = [line.strip() for line in dumped[newest:] if line.strip().startswith("File ")]
        where = f"it was in {frames[0]}" if frames else f"its log is {self._log}"
        if starting:
            doing = "importing torch" if any("/torch/" in frame for frame in frames) else "importing or collecting"
            where += (
                f"; it had begun no check after {time.monotonic() - self._began:.0f} s, and was {doing}; where a slow disk or "
                f"{processes.load()} is why, --deadline-scale 4 allows it more"
            )
        return explain.with_finding(f"did not end by its deadline and was ended; {where}", [self._log])

    def _death(self, status: int) -> str:
        said = processes.last_words(self._log)
        reason = f"the process ended with {processes.describe_exit(status)}; it printed last: {said}"[:800]
        return explain.with_finding(reason, [self._log])

    def _place(self) -> str:
        return self.current or f"{' '.join(self.request.suites)} ({'exit' if self.ended else 'start'})"


def _on_collected(process: CheckProcess, event: dict[str, Any]) -> None:
    process.state.announce(event["ids"], event["known"], event.get("theirs", ()))


def _on_started(process: CheckProcess, event: dict[str, Any]) -> None:
    process.current = event["id"]
    process._deadline = time.monotonic() + event["deadline_s"]  # scaled by the process itself
    process.state.observer.started(process.current)


def _on_progress(process: CheckProcess, event: dict[str, Any]) -> None:
    process._deadline = time.monotonic() + event["deadline_s"]
    process.state.observer.progress(process.current, event["said"])


def _on_finished(process: CheckProcess, event: dict[str, Any]) -> None:
    process.state.conclude(Check.of(event["check"]))
    process.current = ""
    process._extend(_QUIET_S)


def _on_measurement(process: CheckProcess, event: dict[str, Any]) -> None:
    process.state.record.measurements.append(Measurement(**event))


def _on_facts(process: CheckProcess, event: dict[str, Any]) -> None:
    process.state.record.provenance.update(event["values"])


def _on_ended(process: CheckProcess, event: dict[str, Any]) -> None:
    process.ended = True
    process._deadline = time.monotonic() + event["deadline_s"]


_HANDLERS: dict[str, Callable[[CheckProcess, dict[str, Any]], None]] = {
    "collected": _on_collected,
    "started": _on_started,
    "progress": _on_progress,
    "finished": _on_finished,
    "measurement": _on_measurement,
    "facts": _on_facts,
    "ended": _on_ended,
}


class Tail:
    """Complete lines appended to a file of JSON objects since the last look, from where it stands now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = path.open("a+b")  # held open: what was written before somebody deleted it can be read still
        self.close = self._stream.close

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield what is new.

        Raises:
            OSError: the file was deleted.
        """
        place = self._stream.tell()
        while (line := self._stream.readline()).endswith(b"\n"):
            place = self._stream.tell()
            yield files.parse_json(line, self._path)
        self._stream.seek(place)
        self._path.stat()


def command(request: Request, root: Path) -> list[str]:
    """Return the command that runs the suites of a request, with our own configuration and nothing above the folder of suites."""
    folders = [str(root / suite) for suite in request.suites]
    project = projects.current()
    own = SUITES if project and root == project.suites else root  # a project's suites run under our settings
    configuration = ["-c", str(own / "pytest.ini"), "--rootdir", str(root), "--confcutdir", str(root)]
    plugins = [word for name in plugins_of(request.suites, root) for word in ("-p", name)]
    return [sys.executable, "-X", "faulthandler", "-m", "pytest", *configuration, *plugins, *folders]


def variables_of(stack: Stack) -> dict[str, str]:
    """Return what a process of the stack is started with: its defaults where the user has set nothing, its packages on the path."""
    defaults = {name: value for name, value in stack.environment.items() if name not in os.environ}
    return {**defaults, "PYTHONPATH": stack.path(os.environ.get("PYTHONPATH", ""))} if stack.packages else defaults
