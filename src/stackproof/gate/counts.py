"""Counts one run exactly: operators dispatched, blocks allocated, kernels started, and how a compiler would cut the model.

Counts have no noise on equal software: what they show needs one launch, and no statistics.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from stackproof.device.dispatch import Operators
from stackproof.device.kinds import Device
from stackproof.workloads.base import Job

_ALLOCATION = "[memory]"
"""What the profiler calls the event of an allocator."""


def counts(run: Callable[[], object], device: Device) -> dict[str, int]:
    """Return the counters of one run of warm work by name (`data/gate.toml`); one that nobody can tell here is absent."""
    found = {
        "operators": operators(run),
        "allocations": _allocations(run, device),
        "kernels": device.kernels(run),
    }
    device.synchronize()
    return {name: count for name, count in found.items() if count is not None}


def operators(run: Callable[[], object]) -> int:
    """Return how many operators one run dispatches to a backend, forward and backward."""
    with Operators() as ran:
        run()
    return len(ran.seen)


def _allocations(run: Callable[[], object], device: Device) -> int | None:
    """Return how many blocks the device's allocator hands out in one run; the host's is seen by the profiler alone."""
    before = device.allocations()
    if before is None:
        return _on_host(run)
    run()
    after = device.allocations()
    return None if after is None else after - before


def _on_host(run: Callable[[], object]) -> int | None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        run()
    results = getattr(profiler.profiler, "kineto_results", None)
    events = results.events() if results is not None else ()
    return sum(bool(event.name() == _ALLOCATION and event.nbytes() > 0) for event in events)


def capture(job: Job) -> tuple[dict[str, int], float]:
    """Return into how many graphs `torch.compile` cuts a job's forward, with how many breaks, and the seconds that it took.

    The backend is `eager`: the model is traced and guarded, and no code is generated, so that no compiler is needed.
    """
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    began = time.perf_counter()
    job.wrap(lambda model: torch.compile(model, backend="eager"))  # type: ignore[arg-type,return-value]
    try:
        job.forward(0)
    finally:
        job.wrap(lambda model: model)
    seconds = time.perf_counter() - began
    found = {"graphs": int(counters["stats"]["unique_graphs"]), "graph-breaks": sum(counters["graph_break"].values())}
    torch._dynamo.reset()
    return found, seconds
