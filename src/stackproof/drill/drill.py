"""The whole drill: every chosen fault in a run of its own, the same runs without a fault, and what nothing covers."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.drill import compare, run
from stackproof.drill.inject import Site
from stackproof.drill.table import STACK, Call, Fault, Faults
from stackproof.record import writer
from stackproof.record.records import Check, Record, Verdict, overall
from stackproof.runner import suites
from stackproof.stack import environments, hosts, provenance, stacks

_CLEAN_DEADLINE_S = 900


@dataclass(frozen=True)
class Task:
    """One run: its name, whether it runs alone, which checks it calls at what site, and who judges it."""

    name: str
    alone: bool
    call: Call
    prepare: Callable[[Site], None]
    checks: tuple[str, ...]
    deadline_s: float
    judge: Callable[[run.DrilledRun], Check]


@dataclass(frozen=True)
class DrillRequest:
    """What is drilled: the chosen rows of a table, and how."""

    table: Faults
    chosen: tuple[Fault, ...]
    workers: int = 1
    scale: float = 1.0
    """Multiplies every run's deadline, for slow hosts."""


def conduct(request: DrillRequest, finished: Callable[[Check], None]) -> Record:
    """Run the drill and return its record, one check per fault; `finished` hears of each as it ends."""
    table, chosen, scale = request.table, request.chosen, request.scale
    began = time.monotonic()
    facts = provenance.host_facts(stacks.load(STACK))
    counts = {"faults": len(chosen), "of": len(table.rows), "workers": request.workers}
    record = writer.begin("drill", STACK, facts | counts)
    ended: dict[str, Check] = {}
    scratch = Path(tempfile.mkdtemp(prefix="stackproof-drill-")).resolve()
    clean = cleans(chosen, scale)
    jobs = [*clean, *(_fault_job(fault, scale) for fault in chosen)]
    try:
        for check in _run(jobs, scratch, request.workers):
            ended[check.id] = check
            finished(check)
    except KeyboardInterrupt:
        finished(left := Check("drill", Verdict.INTERRUPTED, f"{len(jobs) - len(ended)} runs are missing", 0.0))
        ended[left.id] = left
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    names = [*(fault.name for fault in chosen), *(job.name for job in clean), "drill"]
    record.checks = [ended[name] for name in names if name in ended]
    record.checks.append(compare.compare_coverage(table, suites.defined()))
    finished(record.checks[-1])
    record.verdict = overall(check.verdict for check in record.checks)
    record.seconds = time.monotonic() - began
    return record


def cleans(chosen: Sequence[Fault], scale: float = 1.0) -> list[Task]:
    """Return the fewest runs without a fault in which every check that a row names is seen green, in company where it may be."""
    groups: dict[tuple[object, ...], list[Fault]] = {}
    for fault in chosen:
        call, ground, alone = fault.call, fault.injection.ground, fault.clean_alone
        like = (ground, call.verb, call.stack or STACK, call.suites, call.whole, call.arguments, alone)
        groups.setdefault(like, []).append(fault)
    return [_clean_job(rows, scale) for rows in groups.values()]


def _clean_job(rows: list[Fault], scale: float) -> Task:
    """Return a run on the site of the first row without its fault; it is called by the verb, what it looks at and where."""
    first, call = rows[0], rows[0].call
    names = dict.fromkeys(name for row in rows for name in (*row.expected.red, *row.expected.green, *row.call.only))
    wanted = tuple(name for name in names if "::" in name or name in ("host", "environment"))
    words = [call.verb, call.stack or STACK, *call.suites, "whole" if call.whole else "", *call.arguments]
    words += [first.injection.ground, "alone" if first.clean_alone else ""]
    name, deadline_s = f"clean/{' '.join(filter(None, words))}", _CLEAN_DEADLINE_S * scale
    call = replace(call, only=(), stack=call.stack or STACK, scale=scale)
    judge = partial(compare.compare_clean, name, wanted)
    return Task(name, first.clean_alone, call, first.injection.spare, wanted, deadline_s, judge)


def _fault_job(fault: Fault, scale: float) -> Task:
    call = replace(fault.call, stack=fault.call.stack or STACK, scale=fault.call.scale * scale)
    names = (*fault.expected.red, *fault.expected.green)
    judge, deadline_s = partial(compare.compare_fault, fault), fault.deadline_s * scale
    return Task(fault.name, False, call, fault.injection.inject, names, deadline_s, judge)


def _site(call: Call, folder: Path) -> Site:
    """Return a site with the stack's own environment if it is built, else with this Python.

    Raises:
        StackUnavailableError: the host lacks what the stack needs, so that nothing of it can be seen to fail here.
    """
    if call.verb in run.FLAGS:  # it only looks and reads
        return Site(folder, Path(run.THIS_PYTHON))
    own = environments.location(hosts.require(stacks.load(call.stack)))
    return Site(folder, environments.python_of(own) if environments.stamp(own) else Path(run.THIS_PYTHON))


def _run(jobs: Sequence[Task], scratch: Path, workers: int) -> Iterator[Check]:
    """Run the jobs that may have company side by side, then the others one by one."""
    stop = threading.Event()
    with ThreadPoolExecutor(workers) as pool:
        started = [pool.submit(_attempt, job, scratch, stop) for job in jobs if not job.alone]
        try:
            for future in as_completed(started):
                yield future.result()
        except BaseException:  # Ctrl-C: end those that run
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for job in jobs:
        if job.alone:
            yield _attempt(job, scratch, stop)


def _attempt(job: Task, scratch: Path, stop: threading.Event) -> Check:
    """Run a job in a folder of its own; a fault that cannot be injected on this host is not called caught, and says why."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        site = _site(job.call, folder)
        job.prepare(site)
        return job.judge(run.run(job.call, run.only_of(job.call, job.checks), site, job.deadline_s, stop))
    except StackUnavailableError as refusal:
        return Check(job.name, Verdict.UNAVAILABLE, str(refusal), 0.0)
    except EnvironmentMismatchError as refusal:
        return Check(job.name, Verdict.INCONCLUSIVE, str(refusal), 0.0)
    except Refusal as refusal:
        return Check(job.name, Verdict.FAILED, f"could not be injected: {refusal}", 0.0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
