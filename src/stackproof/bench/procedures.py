"""Measures start-up, a process for each sample: importing, a first kernel, and forming a group of ranks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stackproof.base import files, processes
from stackproof.base.statistics import median_interval
from stackproof.base.text import tail
from stackproof.bench.ranks import launched, workspace
from stackproof.bench.rows import Sampled, result
from stackproof.bench.subjects import Budget, Subject
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckCrashed, CheckFailed, CheckHung, require

_DEADLINE_S = 180.0
_LEAST = 3
_CHILD = """
import importlib, json, sys, time
kind, index, *names = sys.argv[1:]
assert "torch" not in sys.modules, "torch was imported before its import could be timed"
began = time.perf_counter()
for name in names:
    importlib.import_module(name)
imported = time.perf_counter()
import torch
from stackproof.device import devices
place = devices.parse(f"{kind}:{index}", kind)
ready = time.perf_counter()
found = float(torch.arange(8, dtype=torch.float32, device=place.torch).sum().item())
print(json.dumps({"import": imported - began, "kernel": time.perf_counter() - ready, "sum": found}))
"""


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
    words = [device.kind, str(device.index), *subject.stack.imports]
    done = processes.run([sys.executable, "-c", _CHILD, *words], seconds=_DEADLINE_S)
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
        rows = launched(subject, device, ranks, "communicator", {}, folder, _DEADLINE_S)
    return max(float(rank["formed_s"]) for rank in rows)
