"""Faults that are planted in a side on purpose, to see that the gate finds them: `--head-drill spin=0.05`.

A gate that was never seen to fail is not to be trusted (design: every check must be able to fail). A record with a drill says so in
its first line, and can never be mistaken for a verdict on a change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal, suggestion

if TYPE_CHECKING:
    from stackproof.device.kinds import Device
    from stackproof.workloads.work import Work

KINDS = {
    "spin": ("every step is longer by this share", 0.05),
    "kernel": ("one step in so many computes attention by plain arithmetic, a worse choice of kernel", 1.0),
    "memory": ("so much more memory is held, as a share of the peak", 0.10),
    "gradient": ("the gradient of one parameter of each model is wrong by this share", 0.05),
}
"""What each drill does, and its value where none is given."""


@dataclass(frozen=True)
class PlantedFault:
    """One planted fault; none where `kind` is empty."""

    kind: str = ""
    value: float = 0.0


def read(text: str) -> PlantedFault:
    """Read `KIND` or `KIND=VALUE`; anything else is refused with what there is."""
    if not text:
        return PlantedFault()
    kind, _, value = text.partition("=")
    menu = "; ".join(f"{name}={usual:g}: {meaning}" for name, (meaning, usual) in KINDS.items())
    if kind not in KINDS:
        raise Refusal(f"--head-drill '{text}': there is no drill '{kind}'{suggestion(kind, KINDS)}; {menu}")
    try:
        size = float(value) if value else KINDS[kind][1]
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        raise Refusal(f"--head-drill '{text}': '{value}' is not a number above 0; {menu}")
    return PlantedFault(kind, size)


def plant_before_proof(work: Work, drill: PlantedFault) -> None:
    """Plant what has to be there before the work is proved: a wrong gradient, where the work has a model."""
    if drill.kind == "gradient" and (job := getattr(work, "job", None)) is not None:
        first = next(parameter for parameter in job.model.parameters() if parameter.requires_grad)
        first.register_hook(lambda gradient: gradient * (1 + drill.value))


def burdened(run: Callable[[], object], drill: PlantedFault, device: Device, seconds: float) -> Callable[[], object]:
    """Return the run with what makes it slower, larger or worse; `seconds` is what one takes without.

    What a device cannot spin as briefly as a run should be longer is owed to the runs after it.
    """
    owed, turns = 0.0, itertools.count()

    def spinning() -> object:
        nonlocal owed
        value = run()
        owed += drill.value * seconds
        owed -= device.spin(owed)
        return value

    def worse() -> object:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.MATH) if next(turns) % int(drill.value) == 0 else nullcontext():
            return run()

    if drill.kind == "memory":
        import torch

        kept = torch.ones(int(drill.value * device.memory().peak), dtype=torch.uint8, device=device.torch)
        return lambda: run() if kept.numel() else None
    return {"spin": spinning, "kernel": worse}.get(drill.kind, run)
