"""What the engine itself costs: the wall time of a step under it against the same step in a bare loop, block by block in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ..checks import CheckFailed
from ..device import Device
from ..probes import timekeeping
from .sampled import Sampled
from .sampling import Sampler, sample
from .statistics import median_interval
from .subjects import Budget, Subject

_ROUNDS = 200


def measure(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Return ratios of wall times, engine to bare loop, of blocks that take turns: bare, engine, engine, bare."""
    from .engine import result

    with subject.table(preset) as row:
        step_s, steps = row.take("step_ms", int) / 1e3, row.take("steps", int)
    work = timekeeping.products(device)
    units = max(1, round(step_s / min(_wall(device, lambda: work.submit(1)) for _ in range(9))))
    step = _step(work, units)
    try:
        timekeeping.scales(timekeeping.measure(device, work), timekeeping.complete, "the step")
    except CheckFailed as failure:
        return result(subject, preset, (), {}, dtype="float32", verified=False, reason=str(failure))
    ratios = _ratios(device, step, steps, budget)
    facts = {"step_ms": _wall(device, step) * 1e3, "steps in a block": steps}
    reason = "the step scales with its work"
    return result(subject, preset, tuple(ratios), {}, dtype="float32", verified=True, reason=reason, facts=facts)


def _step(work: timekeeping.Work, units: int) -> Callable[[], object]:
    return lambda: work.submit(units)


def _ratios(device: Device, step: Callable[[], object], steps: int, budget: Budget) -> list[float]:
    """Take rounds until the median ratio is known to the noise target, or the cap."""
    fixed = replace(budget, noise=0.0, least=steps, most=steps)
    sampler = Sampler(device, step)

    def bare() -> object:
        return [step() for _ in range(steps)]

    def engine() -> object:
        return sample(sampler, fixed)

    began, ratios = time.monotonic(), list[float]()
    for _ in range(_ROUNDS):
        first, under, again, last = (_wall(device, block) for block in (bare, engine, engine, bare))
        ratios.append((under + again) / (first + last))
        if time.monotonic() - began > budget.seconds and len(ratios) >= budget.least:
            break
        if len(ratios) >= budget.least and median_interval(ratios).relative <= budget.noise / 4:
            break
    return ratios


def _wall(device: Device, block: Callable[[], object]) -> float:
    device.synchronize()
    began = time.perf_counter()
    block()
    device.synchronize()
    return time.perf_counter() - began
