"""Faults that are planted in a side on purpose, to see that the gate finds them: `--head-drill spin=0.05`.

A gate that was never seen to fail is not to be trusted (design: every check must be able to fail). A record with a drill says so in
its first line, and can never be mistaken for a verdict on a change.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal, suggestion

if TYPE_CHECKING:
    from stackproof.device.kinds import Device
    from stackproof.workloads.work import Work

# What each drill does, and what its value is; the third is the value where none is given.
KINDS: dict[str, tuple[str, type, str]] = {
    "spin": ("every step is longer by this share", float, "0.05"),
    "kernel": ("one step in so many computes attention by plain arithmetic, a worse choice of kernel", int, "1"),
    "memory": ("so much more memory is held, as a share of the peak", float, "0.10"),
    "gradient": ("the gradient of one parameter of each model is wrong by this share", float, "0.05"),
    "drop": ("this side has lost a subject", str, ""),
    "skip": ("this side skips every subject", str, "all"),
    "missing": ("this side does not tell a figure or a counter", str, "peak-memory"),
    "crash": ("this side dies in the middle of a block", str, "SIGSEGV"),
    "hang": ("a block of this side never ends", str, "for ever"),
}


@dataclass(frozen=True)
class PlantedFault:
    """One planted fault; none where `kind` is empty."""

    kind: str = ""
    value: str = ""

    def number(self, kind: str) -> float:
        """Return the drill's number if it is of this kind, else 0."""
        return float(self.value) if self.kind == kind else 0.0


def read(text: str) -> PlantedFault:
    """Read `KIND` or `KIND=VALUE`; anything else is refused with what there is."""
    if not text:
        return PlantedFault()
    kind, _, value = text.partition("=")
    if kind not in KINDS:
        raise Refusal(f"--head-drill '{text}': there is no drill '{kind}'{suggestion(kind, KINDS)}; {_menu()}")
    chosen = value or KINDS[kind][2]
    try:
        KINDS[kind][1](chosen)
    except ValueError:
        raise Refusal(f"--head-drill '{text}': '{chosen}' is not a number; {_menu()}") from None
    if not chosen:
        raise Refusal(f"--head-drill '{text}' needs a name; {_menu()}")
    return PlantedFault(kind, chosen)


def _menu() -> str:
    return "; ".join(f"{kind}={value or 'NAME'}: {meaning}" for kind, (meaning, _, value) in KINDS.items())


def plant_before_proof(work: Work, drill: PlantedFault) -> None:
    """Plant what has to be there before the work is proved: a wrong gradient, where the work has a model."""
    share, job = drill.number("gradient"), getattr(work, "job", None)
    if not share or job is None:
        return
    first = next(parameter for parameter in job.model.parameters() if parameter.requires_grad)
    first.register_hook(lambda gradient: gradient * (1 + share))


def burdened(run: Callable[[], object], drill: PlantedFault, device: Device, seconds: float) -> Callable[[], object]:
    """Return the run with what makes it slower, larger or end; `seconds` is what one takes without."""
    if drill.kind == "memory":
        return _keeping(run, device, drill.number("memory"))
    if drill.kind == "spin":
        return _spinning(run, device, drill.number("spin") * seconds)
    if drill.kind == "kernel":
        return _worse(run, int(drill.value))
    return run


def _spinning(run: Callable[[], object], device: Device, longer: float) -> Callable[[], object]:
    """Add so many seconds to every run; what a device cannot spin that briefly is owed to the runs after it."""
    owed = 0.0

    def spinning() -> object:
        nonlocal owed
        found = run()
        owed += longer
        owed -= device.spin(owed)
        return found

    return spinning


def _keeping(run: Callable[[], object], device: Device, share: float) -> Callable[[], object]:
    import torch

    kept = torch.ones(int(share * device.memory().peak), dtype=torch.uint8, device=device.torch)
    return lambda: run() if kept.numel() else None


def _worse(run: Callable[[], object], every: int) -> Callable[[], object]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    turns = itertools.count()

    def running() -> object:
        with sdpa_kernel(SDPBackend.MATH) if next(turns) % every == 0 else nullcontext():
            return run()

    return running


def end(drill: PlantedFault) -> None:
    """Die or hang, if that is the drill; called in the middle of a block."""
    if drill.kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    while drill.kind == "hang":
        time.sleep(1)
