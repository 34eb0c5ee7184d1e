"""Measures what takes several ranks: collectives, and training under data parallelism. The time of a step is the slowest rank's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import device as devices
from ..checks import CapabilityMissing, CheckFailed
from ..device import Device
from .launching import Arrangement, arrange, launch, workspace
from .sampled import Sampled
from .subjects import Budget, Subject

_START_S = 240.0
"""What importing, building and verifying may take beside the samples."""


def measure(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Launch the ranks, let them verify and sample together, and return the figures of the slowest."""
    from .engine import remarks, result
    from .sampling import Warmth

    ranks = int(subject.parameters[preset]["ranks"])
    arguments = {"parameters": dict(subject.parameters[preset]), "preset": preset, "budget": asdict(budget)}
    deadline = _START_S + 3 * budget.seconds
    try:
        with workspace(subject.name) as folder:
            found = launched(subject, device, ranks, subject.kind.replace("-", "_"), arguments, folder, deadline)
    except CheckFailed as failure:
        return result(subject, preset, (), {}, dtype="", verified=False, reason=str(failure), world_size=ranks)
    first, seconds = found[0], found[0]["seconds"]
    facts = {**first["facts"], "backend": first["backend"], "formed_s": max(rank["formed_s"] for rank in found)}
    return result(
        subject, preset, tuple(seconds), first["worth"], dtype=first["dtype"], verified=True, reason=first["reason"], world_size=ranks,
        arithmetic=first["arithmetic"], peak_memory_bytes=max(rank["peak_memory_bytes"] for rank in found),
        settled=first["warmth"]["settled"], facts=facts,
        notes=tuple(remarks(Warmth(**first["warmth"]), seconds, budget)),
    )  # fmt: skip


def launched(
    subject: Subject, device: Device, ranks: int, program: str, arguments: dict[str, Any], folder: Path, seconds: float
) -> list[dict[str, Any]]:
    """Run a program on so many ranks, each on a card of its own, and return what each gave back; a bare name is one of `ranked`."""
    name = program if ":" in program else f"{__package__}.ranked:{program}"
    return launch(name, subject.stack, alone(subject, device, ranks), arguments, folder, seconds)


def alone(subject: Subject, device: Device, ranks: int) -> Arrangement:
    """Arrange the ranks; figures of ranks that share a card over another backend would say nothing of the stack.

    Raises:
        CapabilityMissing: there are fewer cards than ranks.
    """
    cards = devices.visible(subject.stack.device)
    if len(cards) < ranks and not device.shareable:
        raise CapabilityMissing(
            f"fixtures/benchmarks.toml, {subject.name}: needs {ranks} cards, one a rank, and {len(cards)} visible"
        )
    return arrange(subject.stack, cards, ranks)
