"""Runs suites in processes of their own, supervised: progress, deadlines, crashes and hangs become checks of a record.

The supervisor imports no torch. When a process that runs checks dies or hangs, the check it was in gets that
verdict, everything it left behind is killed, and the rest of its suites goes on in a fresh process.
"""

from __future__ import annotations

import fnmatch
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import known_issues, processes
from .errors import Refusal, suggestion
from .ledger import Ledger, Observer
from .records import NOT_EXECUTED, Check, Figure, Record, Verdict, overall
from .session import Session
from .stacks import SUITES, Stack
from .stages import Stage, stages
from .worker import Order, Worker, variables_of

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
