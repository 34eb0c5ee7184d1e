"""Switching a language model's activation checkpointing, and watching what is computed twice."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from stackproof.workloads.base import Job, StepResult

PRESET: Final = "tiny"

MODES = ("reentrant", "non-reentrant")


def switch(job: Job, mode: str | None) -> None:
    """Turn checkpointing off, or on in a mode, as users of transformers do.

    transformers renamed the methods in 5.x and warns about the old names. The reentrant kind sees no parameters: without an input
    that requires a gradient, frozen embeddings would leave the first layer's adapters without one.
    """
    base: Any = job.model.get_base_model()  # type: ignore[operator]
    _method(base, "disable")()
    if mode is None:
        return
    _method(base, "enable")({"use_reentrant": mode == "reentrant"})
    if mode == "reentrant":
        base.enable_input_require_grads()


def _method(base: Any, verb: str) -> Callable[..., None]:
    return getattr(base, f"activation_checkpointing_{verb}", None) or getattr(base, f"gradient_checkpointing_{verb}")  # type: ignore[no-any-return]


def outcome(job: Job, mode: str | None) -> StepResult:
    """Run forward and backward in a mode."""
    switch(job, mode)
    with warnings.catch_warnings():
        # torch 2.4's checkpointing calls a torch function that torch 2.4 deprecates.
        warnings.filterwarnings("ignore", r"`torch.cpu.amp.autocast\(args...\)` is deprecated", FutureWarning)
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
