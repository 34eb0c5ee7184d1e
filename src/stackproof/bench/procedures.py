"""What is measured by a procedure of its own: what the engine costs beside a bare loop, and start-up, a process for each sample.

The wall clock tells what the engine costs, and on a quiet host tells it well. On a busy one it mostly tells of the neighbours; so the
processor time of both is told too, and what sampling a step costs that does nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from stackproof.base import files, processes
from stackproof.base.statistics import median_interval
from stackproof.base.text import tail
from stackproof.bench.ranks import launched, workspace
from stackproof.bench.rows import Sampled, result
from stackproof.bench.sampling import Sampler, sample
from stackproof.bench.subjects import Budget, Subject
from stackproof.device.kinds import Device
from stackproof.probes import clock
from stackproof.record.checks import CheckCrashed, CheckFailed, CheckHung, require

_ROUNDS = 400
_EMPTY = 500


@dataclass(frozen=True)
class _Steps:
    step_ms: int
    steps: int


def overhead(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Return ratios of wall times, engine to bare loop, of blocks that take turns: bare, engine, engine, bare."""
    row = subject.table(preset).row(_Steps)
    step_s, work = row.step_ms / 1e3, clock.products(device)
    units = max(1, round(step_s / min(_spent(device, lambda: work.submit(1))[0] for _ in range(9))))
    ratios = _ratios(device, lambda: work.submit(units), row.steps, budget)
    processor = median_interval([ratio for _, ratio in ratios])
    empty = Sampler(device, lambda: None)
    fixed = replace(budget, noise=0.0, least=_EMPTY, most=_EMPTY)
    empty_s = min(_spent(device, lambda: sample(empty, fixed))[0] for _ in range(5)) / _EMPTY
    facts = {
        "step_ms": step_s * 1e3, "steps in a block": row.steps, "processor time, ratio": processor.median,
        "processor time, noise": processor.relative, "an empty step, us": empty_s * 1e6,
    }  # fmt: skip
    reason = "twice the work of the step takes twice as long"
    walls = tuple(ratio for ratio, _ in ratios)
    return result(subject, preset, walls, {}, dtype="float32", verified=True, reason=reason, facts=facts)


def _ratios(device: Device, step: Callable[[], object], steps: int, budget: Budget) -> list[tuple[float, float]]:
    """Take rounds until the median ratio of wall times is known to a quarter of the noise target, or the cap.

    Returns the ratios of wall times and of processor times, engine to bare loop.
    """
    fixed = replace(budget, noise=0.0, least=steps, most=steps)
    sampler = Sampler(device, step)

    def bare() -> object:
        return [step() for _ in range(steps)]

    def engine() -> object:
        return sample(sampler, fixed)

    began, ratios = time.monotonic(), list[tuple[float, float]]()
    while len(ratios) < _ROUNDS:
        first, under, again, last = (_spent(device, block) for block in (bare, engine, engine, bare))
        wall, processor = ((under[n] + again[n]) / (first[n] + last[n]) for n in (0, 1))
        ratios.append((wall, processor))
        late = time.monotonic() - began > budget.seconds
        known = median_interval([ratio for ratio, _ in ratios]).relative <= budget.noise / 4
        if len(ratios) >= budget.least and (late or known):
            break
    return ratios


def _spent(device: Device, block: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of the wall clock and of the processor that a block takes."""
    device.synchronize()
    wall, processor = time.perf_counter(), time.process_time()
    block()
    device.synchronize()
    return time.perf_counter() - wall, max(time.process_time() - processor, 1e-9)


_DEADLINE_S = 180.0
_LEAST = 3
_CHILD = "stackproof.bench.startup_child"  # a module of its own: this one has imported torch by the time it could begin


@dataclass(frozen=True)
class _Phase:
    phase: Literal["import", "kernel", "communicator"]
    ranks: int


def start_up(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Start processes one after the other until the noise target or the cap is reached; the first, with cold files, is not counted."""
    row = subject.table(preset).row(_Phase)
    ranked = row.phase == "communicator"

    def once() -> float:
        return _forming(subject, device, row.ranks) if ranked else _starting(subject, device, row.phase)

    seconds, verified = tuple[float, ...](), True
    reason = "each group summed its ranks' numbers right" if ranked else "each process computed a known sum right"
    try:
        once()
        seconds = _sampled(once, budget)
    except CheckFailed as failure:
        verified, reason = False, str(failure)
    world = row.ranks if ranked else 1
    return result(subject, preset, seconds, {}, dtype="", verified=verified, reason=reason, world_size=world)


def _sampled(once: Callable[[], float], budget: Budget) -> tuple[float, ...]:
    began, taken = time.monotonic(), list[float]()
    while True:
        taken.append(once())
        spent, noise = time.monotonic() - began, median_interval(taken).relative
        if len(taken) >= _LEAST and (spent >= budget.seconds or (len(taken) >= budget.least and noise <= budget.noise)):
            return tuple(taken)


def _starting(subject: Subject, device: Device, phase: str) -> float:
    """Start an interpreter and return the seconds of one phase in it."""
    wanted = json.dumps({"imports": list(subject.stack.imports), "kind": device.kind, "index": device.index})
    done = processes.run([sys.executable, "-m", _CHILD, wanted], seconds=_DEADLINE_S)
    if done.timed_out:
        raise CheckHung(f"a process that only starts up did not end within {_DEADLINE_S:.0f} s")
    if not done.ok:
        raise CheckCrashed(f"a process that only starts up ended with exit code {done.code}: {tail(done.errors)}")
    answer = files.parse_json(done.output.strip().splitlines()[-1], "what a process that only starts up printed")
    require(answer["sum"] == 28.0, f"the first kernel gave {answer['sum']}, 28 was expected")
    return float(answer[phase])


def _forming(subject: Subject, device: Device, ranks: int) -> float:
    """Launch ranks and return the slowest one's seconds to form a group."""
    with workspace(subject.name) as folder:
        found = launched(subject, device, ranks, "communicator", {}, folder, _DEADLINE_S)
    return max(float(rank["formed_s"]) for rank in found)
