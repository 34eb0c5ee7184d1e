"""What all suites share: workloads with their float64 references, and the rules that say what a stack cannot do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stackproof.device.devices import HOST
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
    return get(name).build(HOST.torch, preset, SEED, torch.float32, autocast).observe()


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


class MatrixKernels(TorchDispatchMode):
    """Counts the kernels that multiply matrices, attend or convolve, by name and dtypes of the numbers that they are given."""

    WORDS = (
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "convolution",
        "convolution_backward",
        "_scaled_dot_product",
        "convolution_overrideable",
    )

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, torch.dtype]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and note the widest of its numbers' dtypes; states that attention keeps for itself are no factors."""
        name = str(func._schema.name).removeprefix("aten::")
        if name in self.WORDS or name.startswith(self.WORDS[-2:]):
            dtypes = {
                leaf.dtype
                for leaf in tree_leaves(args[:3])
                if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            }
            self.seen[name, max(dtypes, key=lambda dtype: dtype.itemsize)] += 1
        return func(*args, **(kwargs or {}))

    @property
    def count(self) -> int:
        """How many kernels ran."""
        return self.seen.total()

    def others(self, dtype: torch.dtype, attention: bool) -> int:
        """Return how many of them were given another dtype; without those of attention, whose slow path multiplies in float32 by design.

        That path is torch's own (`allow_fp16_bf16_reduction_math_sdp`): batched products, which linear layers and convolutions do not run.
        """
        spared = () if attention else ("bmm", "baddbmm")
        return sum(count for (name, seen), count in self.seen.items() if seen is not dtype and name not in spared)

    @property
    def told(self) -> str:
        """Say what ran."""
        return ", ".join(f"{count} {name} in {dtype}" for (name, dtype), count in self.seen.items()) or "no product"


def watch_backward(job: Job) -> MatrixKernels:
    """Count the matrix kernels of a job's next backward passes."""
    kernels, plain = MatrixKernels(), job.differentiate

    def watched(loss: torch.Tensor) -> None:
        with kernels:
            plain(loss)

    job.differentiate = watched  # type: ignore[method-assign]
    return kernels
