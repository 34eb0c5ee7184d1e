"""Running a model with activation checkpointing, and watching what is computed twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import torch

from stackproof.workloads.base import Job, StepResult

PRESET: Final = "tiny"

MODES = ("reentrant", "non-reentrant")


def outcome(job: Job, mode: str | None) -> StepResult:
    """Run forward and backward in a mode."""
    job.recompute(mode)
    return job.observe()


@dataclass
class Log:
    """What each module gave, the first time and when it was computed again: shape, dtype and device by name."""

    first: dict[str, tuple[object, ...]] = field(default_factory=dict)
    again: dict[str, tuple[object, ...]] = field(default_factory=dict)


@contextmanager
def watching(layers: torch.nn.Module) -> Iterator[Log]:
    """Note what every innermost module inside the layers gives."""
    log, handles = Log(), []

    def note(name: str) -> Callable[..., None]:
        def hook(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
            seen = (tuple(output.shape), output.dtype, output.device)
            (log.again if name in log.first else log.first)[name] = seen

        return hook

    for name, module in layers.named_modules():
        if isinstance(module, torch.nn.Linear):
            handles.append(module.register_forward_hook(note(name)))
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()
