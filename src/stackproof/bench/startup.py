"""Start-up, each sample a process of its own: importing torch, the first kernel on the device, forming a communicator."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stackproof.base.statistics import median_interval
from stackproof.base.text import tail
from stackproof.bench.rows import Sampled
from stackproof.bench.subjects import Budget, Subject
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckCrashed, CheckFailed, CheckHung, require

_DEADLINE_S = 180.0
_LEAST = 3
_PROGRAM = (
    "stackproof.bench.startup_child"  # a module of its own: this one has imported torch by the time it could begin
)


@dataclass(frozen=True)
class _Parameters:
    phase: Literal["import", "kernel", "communicator"]
    ranks: int


def measure(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Start processes one after the other until the noise target or the cap is reached; the first, with cold files, is not counted."""
    from stackproof.bench.engine import result

    row = subject.table(preset).row(_Parameters)
    phase, ranks = row.phase, row.ranks
    once = _communicator(subject, device, ranks) if phase == "communicator" else _process(subject, device, phase)
    world = ranks if phase == "communicator" else 1
    try:
        once()
        seconds = _sample(once, budget)
    except CheckFailed as failure:
        return result(subject, preset, (), {}, dtype="", verified=False, reason=str(failure), world_size=world)
    reason = (
        "each process computed a known sum right"
        if phase != "communicator"
        else "each group summed its ranks' numbers right"
    )
    return result(subject, preset, tuple(seconds), {}, dtype="", verified=True, reason=reason, world_size=world)


def _sample(once: Callable[[], float], budget: Budget) -> list[float]:
    began, taken = time.monotonic(), list[float]()
    while True:
        taken.append(once())
        spent, noise = time.monotonic() - began, median_interval(taken).relative
        if len(taken) >= _LEAST and (spent >= budget.seconds or (len(taken) >= budget.least and noise <= budget.noise)):
            return taken


def _process(subject: Subject, device: Device, phase: str) -> Callable[[], float]:
    """Return a function that starts an interpreter and returns the seconds of one phase in it."""
    told = json.dumps({"imports": list(subject.stack.imports), "kind": device.kind, "index": device.index})

    def once() -> float:
        try:
            done = subprocess.run(
                [sys.executable, "-m", _PROGRAM, told],
                capture_output=True, text=True, errors="replace", timeout=_DEADLINE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise CheckHung(f"a process that only starts up did not end within {_DEADLINE_S:.0f} s") from late
        if done.returncode != 0:
            raise CheckCrashed(
                f"a process that only starts up ended with exit code {done.returncode}: {tail(done.stderr)}"
            )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        require(answer["sum"] == 28.0, f"the first kernel gave {answer['sum']}, 28 was expected")
        return float(answer[phase])

    return once


def _communicator(subject: Subject, device: Device, ranks: int) -> Callable[[], float]:
    """Return a function that launches ranks and returns the slowest one's seconds to form a group."""
    from stackproof.bench.ranks import launched, workspace

    def once() -> float:
        with workspace(subject.name) as folder:
            found = launched(subject, device, ranks, "communicator", {}, folder, _DEADLINE_S)
        return max(float(rank["formed_s"]) for rank in found)

    return once
