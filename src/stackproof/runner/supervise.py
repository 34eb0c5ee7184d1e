"""The ledger of a run: what is known so far, over all the processes that the run needed.

One supervised process that runs checks: what it says, and what becomes of it when it dies or hangs.

Runs suites in processes of their own, supervised: progress, deadlines, crashes and hangs become checks of a record.

The supervisor imports no torch. When a process that runs checks dies or hangs, the check it was in gets that
verdict, everything it left behind is killed, and the rest of its suites goes on in a fresh process.
"""

from __future__ import annotations

import fnmatch
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stackproof.base import processes
from stackproof.base.errors import Refusal, suggestion
from stackproof.record.records import NOT_EXECUTED, Check, Figure, Measurement, Record, Verdict, overall
from stackproof.runner.request import SESSION, Session
from stackproof.runner.suites import Stage, stages
from stackproof.stack import known_issues
from stackproof.stack.stacks import SUITES, Stack
from stackproof.triage import explain

_CHECKPOINT_S = 10.0


class Observer(Protocol):
    """Who watches a run: the terminal, or nobody."""

    def collected(self, total: int) -> None:
        """The run has this many checks, as far as is known."""

    def started(self, identifier: str) -> None:
        """A check began."""

    def finished(self, check: Check) -> None:
        """A check ended."""


def _unchanged(check: Check) -> Check:
    return check


def _nowhere(record: Record) -> None:
    """Keep no checkpoint."""


@dataclass
class Ledger:
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
    _saved_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._ended = {check.id for check in self.record.checks}
        self._earlier = frozenset(self._ended)

    def announce(self, identifiers: list[str], known: Iterable[str] = ()) -> None:
        """Note what a process collected; a fresh process after a crash collects the same again."""
        self.known.update(dict.fromkeys(known))
        before = len(self.collected)
        self.collected.update(dict.fromkeys(identifiers))
        if len(self.collected) > before:
            self.observer.collected(len(self.collected.keys() - self._earlier))

    def conclude(self, check: Check) -> None:
        """Note how a check ended; the first word counts."""
        if check.id in self._ended:
            return
        self._ended.add(check.id)
        judged = self.excuse(check)
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
        return explain.with_finding(f"did not end by its deadline and was ended; {where}", [self._log])

    def _death(self, status: int) -> str:
        said = " / ".join(processes.last_lines(self._log, 3)) or "nothing"
        reason = f"the process ended with {processes.describe_exit(status)}; it printed last: {said}"[:800]
        return explain.with_finding(reason, [self._log])

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


_MOST_PROCESSES = 25
_LOOK_S = 0.03


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
    shuffle: int | None = None
    dataset: str = ""
    preflight: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    """What only some suites ask for, such as the profile of benchmarks."""

    def facts(self) -> dict[str, Figure]:
        """Return what of the plan explains a record: a run of some checks must never look like a run of all."""
        return {
            "suites": " ".join(self.suites),
            "only": " ".join(self.only),
            "preset": self.preset,
            "device": self.device or "the first",
            "deadline_scale": self.deadline_scale,
            "shuffle": -1 if self.shuffle is None else self.shuffle,
            "dataset": self.dataset or "none",
            "preflight": self.preflight,
            **self.options,
        }


def run(
    plan: Plan, record: Record, observer: Observer, folder: Path, save: Callable[[Record], None] | None = None
) -> Record:
    """Run the plan's suites and fill the record; on Ctrl-C nothing is left running and the record says interrupted.

    Args:
        plan: what to run.
        record: what is filled; checks that it holds already stay, and are not run again.
        observer: who is told as it happens.
        folder: an existing folder for the logs of this run.
        save: keeps the record every few seconds, so that a run that is killed leaves what it had.
    """
    rows = known_issues.load(plan.stack)
    ledger = Ledger(record, observer, lambda check: known_issues.excuse(rows, check, record), save or (lambda _: None))
    mark, workers, began = processes.new_mark(), list[Worker](), time.monotonic()
    try:
        for number, stage in enumerate(stages(plan.suites, SUITES, plan.only)):
            _run_stage(plan, stage, ledger, folder / f"stage-{number}", mark, workers)
        _guard(plan, ledger)
        for check in known_issues.verdicts(rows, record, plan.suites, bool(plan.only)):
            ledger.conclude(check)
        record.verdict = overall(check.verdict for check in record.checks)
    except KeyboardInterrupt:
        _interrupted(ledger, workers)
    finally:
        processes.end_tree(mark)
    record.seconds += time.monotonic() - began
    record.provenance["largest_process_rss_bytes"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    kept = [*folder.rglob("*.log"), *folder.rglob("benchmark.json")]
    record.logs += [str(path) for path in sorted(kept) if path.stat().st_size]
    return record


def _run_stage(plan: Plan, stage: Stage, ledger: Ledger, folder: Path, mark: str, workers: list[Worker]) -> None:
    """Keep the stage's workers running until each has come to its own end; `workers` holds those that live."""
    for shard in range(stage.workers):
        workers.append(_worker(plan, stage, ledger, folder / f"worker-{shard}", mark, shard))
    for _ in range(_MOST_PROCESSES):
        for worker in workers:
            worker.start()
        finished = _follow(workers, ledger)
        workers[:] = [
            _worker(plan, stage, ledger, Path(old.order.session.folder), mark, old.order.session.shard[0])
            for old in finished
            if old.left
        ]
        if not workers:
            return
    workers.clear()


def _follow(workers: list[Worker], ledger: Ledger) -> list[Worker]:
    """Wait for all workers to end and return them."""
    running = list(workers)
    while running:
        running = [worker for worker in running if worker.alive()]
        ledger.checkpoint()
        time.sleep(_LOOK_S)
    return list(workers)


def _worker(plan: Plan, stage: Stage, ledger: Ledger, folder: Path, mark: str, shard: int) -> Worker:
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(
        stack=plan.stack.name,
        rehearsed=plan.stack.rehearsed,
        device=plan.device,
        preset=plan.preset,
        folder=str(folder),
        earlier=ledger.ended,
        only=plan.only,
        deadline_scale=plan.deadline_scale,
        shard=(shard, stage.workers),
        shuffle=plan.shuffle,
        dataset=plan.dataset,
        preflight=plan.preflight,
        options=dict(plan.options),
    )
    order = Order(session, stage.suites, SUITES, variables_of(plan.stack))
    return Worker(order, ledger, mark)


def _interrupted(ledger: Ledger, workers: list[Worker]) -> None:
    for worker in workers:
        worker.absorb()
    places = [worker.current for worker in workers if worker.current] or ["start"]
    for place in places:
        reason = "interrupted from outside; the checks after it did not run"
        ledger.conclude(Check(place, Verdict.INTERRUPTED, reason, 0.0))
    ledger.record.verdict = Verdict.INTERRUPTED


def _guard(plan: Plan, ledger: Ledger) -> None:
    """Fail a run in which a collected check never ran, or fewer checks were executed than the stack promises."""
    ended = ledger.ended
    for identifier in [identifier for identifier in ledger.collected if identifier not in ended]:
        ledger.conclude(Check(identifier, Verdict.FAILED, "was collected but never ran", 0.0))
    if plan.only:
        _refuse_no_match(plan, ledger)
        return
    for suite in plan.suites:
        _guard_count(plan, suite, ledger)


def _refuse_no_match(plan: Plan, ledger: Ledger) -> None:
    """A selection that selects nothing is a slip of the keyboard, unless the collection itself went wrong."""
    for pattern in plan.only:
        names = [name for name in ledger.known if fnmatch.fnmatchcase(name, pattern) or name == pattern]
        if ledger.known and not names:
            near = suggestion(pattern, ledger.known) or (
                f"; try '{pattern}*'" if any(pattern in name for name in ledger.known) else ""
            )
            raise Refusal(f"--only '{pattern}' matches no check of {', '.join(plan.suites)}{near}; patterns may hold *")


def _guard_count(plan: Plan, suite: str, ledger: Ledger) -> None:
    prefix = f"{suite}/"
    checks = [check for check in ledger.record.checks if check.id.startswith(prefix) and "::" in check.id]
    executed = sum(check.verdict not in NOT_EXECUTED for check in checks)
    promised = plan.stack.expected.get(suite, 1)
    if executed >= promised:
        return
    reasons = sorted({check.reason for check in checks if check.verdict in NOT_EXECUTED})
    why = f"; not executed: {' | '.join(reasons[:5])}" if reasons else ""
    file = f"stacks/{plan.stack.name}/stack.toml"
    reason = f"{executed} checks of {suite} were executed, {file} expects at least {promised}{why}"
    ledger.conclude(Check(f"guard: {suite}", Verdict.FAILED, reason, 0.0))


def run_folder(base: Path, started: str) -> Path:
    """Make a new folder for the logs of one run under `base`."""
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{started.replace(':', '')}-", dir=base))
