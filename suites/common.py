"""What all suites share: workloads with their float64 references, and the rules that say what a stack cannot do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from stackproof.record.checks import CapabilityMissing
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Job, Preset, StepResult, Workload
from stackproof.workloads.catalogue import get

SEED = 7


@cache
def reference(name: str, preset: Preset) -> StepResult:
    """Return a workload's float64 outcome on the CPU, computed once a process."""
    return get(name).reference(preset, SEED)


@cache
def anchor(name: str, preset: Preset, autocast: torch.dtype | None) -> StepResult:
    """Return the workload's outcome on the CPU in float32 or under autocast: what the device is allowed to err by."""
    return get(name).build(torch.device("cpu"), preset, SEED, torch.float32, autocast).observe()


def possible(name: str) -> Workload:
    """Return the workload, or end the check with the rule that says why this environment cannot run it."""
    workload = get(name)
    workload.require()
    return workload


def supported(stack: Stack, dtype: torch.dtype) -> None:
    """End the check with the rule that says why this stack has no such precision."""
    word = str(dtype).removeprefix("torch.")
    if word not in stack.precisions:
        raise CapabilityMissing(f"stacks/{stack.name}/stack.toml: precisions has no {word}")


def watch_layers(job: Job) -> dict[str, torch.dtype]:
    """Note the dtype that each matrix layer gives; what a model returns may have been cast back (transformers 4.45)."""
    seen: dict[str, torch.dtype] = {}

    def note(name: str) -> Callable[..., None]:
        return lambda _module, _inputs, output: seen.__setitem__(name, output.dtype)

    for name, module in job.model.named_modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
            module.register_forward_hook(note(name))
    return seen
