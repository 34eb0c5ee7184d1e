"""What the engine itself costs: a step under it against the same step in a bare loop, block by block in turn.

The wall clock says it, and on a quiet host says it well. On a busy one it mostly tells of the neighbours; so the processor time of both is
told too, and what sampling a step costs that does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from stackproof.base.statistics import median_interval
from stackproof.bench.rows import Sampled
from stackproof.bench.sampling import Sampler, sample
from stackproof.bench.subjects import Budget, Subject
from stackproof.device.kinds import Device
from stackproof.probes import clock

_ROUNDS = 400
_EMPTY = 500


@dataclass(frozen=True)
class _Parameters:
    step_ms: int
    steps: int


def measure(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Return ratios of wall times, engine to bare loop, of blocks that take turns: bare, engine, engine, bare."""
    from stackproof.bench.engine import result

    row = subject.table(preset).row(_Parameters)
    step_s, steps = row.step_ms / 1e3, row.steps
    work = clock.products(device)
    units = max(1, round(step_s / min(_spent(device, lambda: work.submit(1)).wall for _ in range(9))))
    turns = _turns(device, lambda: work.submit(units), steps, budget)
    ratios = tuple(one.wall for one in turns)
    processor = median_interval([one.processor for one in turns])
    facts = {
        "step_ms": step_s * 1e3, "steps in a block": steps, "processor time, ratio": processor.median,
        "processor time, noise": processor.relative, "an empty step, us": _empty(device, budget) * 1e6,
    }  # fmt: skip
    reason = "twice the work of the step takes twice as long"
    return result(subject, preset, ratios, {}, dtype="float32", verified=True, reason=reason, facts=facts)


@dataclass(frozen=True)
class _Spent:
    """Seconds of the wall clock, and of the processor; or the ratios of two."""

    wall: float
    processor: float


def _turns(device: Device, step: Callable[[], object], steps: int, budget: Budget) -> list[_Spent]:
    """Take rounds until the median ratio is known to a quarter of the noise target, or the cap."""
    fixed = replace(budget, noise=0.0, least=steps, most=steps)
    sampler = Sampler(device, step)

    def bare() -> object:
        return [step() for _ in range(steps)]

    def engine() -> object:
        return sample(sampler, fixed)

    began, ratios = time.monotonic(), list[_Spent]()
    while len(ratios) < _ROUNDS:
        first, under, again, last = (_spent(device, block) for block in (bare, engine, engine, bare))
        ratios.append(
            _Spent(
                (under.wall + again.wall) / (first.wall + last.wall),
                (under.processor + again.processor) / (first.processor + last.processor),
            )
        )
        late = time.monotonic() - began > budget.seconds
        known = median_interval([one.wall for one in ratios]).relative <= budget.noise / 4
        if len(ratios) >= budget.least and (late or known):
            break
    return ratios


def _spent(device: Device, block: Callable[[], object]) -> _Spent:
    device.synchronize()
    wall, processor = time.perf_counter(), time.process_time()
    block()
    device.synchronize()
    return _Spent(time.perf_counter() - wall, max(time.process_time() - processor, 1e-9))


def _empty(device: Device, budget: Budget) -> float:
    """Return the seconds that sampling costs for each step, by steps that do nothing."""
    sampler = Sampler(device, lambda: None)
    fixed = replace(budget, noise=0.0, least=_EMPTY, most=_EMPTY)
    return min(_spent(device, lambda: sample(sampler, fixed)).wall for _ in range(5)) / _EMPTY
