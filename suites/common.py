"""What all suites share: workloads with their float64 references, and the rules that say what a stack cannot do."""

from __future__ import annotations

from functools import cache

import torch

from stackproof.checks import CapabilityMissing
from stackproof.stacks import Stack
from stackproof.workloads import Outcome, Workload, get

SEED = 7


@cache
def reference(name: str, preset: str) -> Outcome:
    """Return a workload's float64 outcome on the CPU, computed once a process."""
    return get(name).reference(preset, SEED)


@cache
def anchor(name: str, preset: str, autocast: torch.dtype | None) -> Outcome:
    """Return the workload's outcome on the CPU in float32 or under autocast: what the device is allowed to err by."""
    return get(name).build(torch.device("cpu"), preset, SEED, torch.float32, autocast).observe()


def possible(name: str) -> Workload:
    """Return the workload, or end the check with the rule that says why this environment cannot run it."""
    workload = get(name)
    if reason := workload.missing():
        raise CapabilityMissing(f"fixtures/workloads.toml: {reason}")
    return workload


def supported(stack: Stack, dtype: torch.dtype) -> None:
    """End the check with the rule that says why this stack has no such precision."""
    word = str(dtype).removeprefix("torch.")
    if word not in stack.precisions:
        raise CapabilityMissing(f"stacks/{stack.name}/stack.toml: precisions has no {word}")
