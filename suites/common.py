"""What all suites share: workloads with their float64 references, and the rules that say what a stack cannot do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stackproof.device.devices import HOST
from stackproof.record.checks import CapabilityMissing, NotApplicable
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Evaluation, Job, Preset, StepResult, Workload
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
    """End the check with the rule that says why this stack has no such precision; complex64 is where float32 is, unless it lacks it."""
    word, real = (str(name).removeprefix("torch.") for name in (dtype, dtype.to_real()))
    if word in stack.missing:
        raise CapabilityMissing(f"{stack.definition}, missing.{word}: {stack.missing[word]}")
    if real not in stack.precisions:
        raise CapabilityMissing(f"{stack.definition}: precisions has no {real}")


def offered(stack: Stack, *names: str) -> bool:
    """Whether the stack, and this environment, has these capabilities."""
    with suppress(CapabilityMissing):
        for name in names:
            capabilities.require(stack, name)
        return True
    return False


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
    def summary(self) -> str:
        return ", ".join(f"{count} {name} in {dtype}" for (name, dtype), count in self.seen.items()) or "no product"


class ForwardProducts:
    """What a model multiplies in forward: by its matrix layers, or where it calls none by its products, as of `F.linear`."""

    def __init__(self) -> None:
        self.layers: dict[str, torch.dtype] = {}
        self.kernels = MatrixKernels()

    def note(self, name: str) -> Callable[..., None]:
        """Return a hook that keeps the dtype that a layer gives; what a model returns may have been cast back (transformers 4.45)."""
        return lambda _module, _inputs, output: self.layers.__setitem__(name, output.dtype)

    @property
    def count(self) -> int:
        """How many there were; none where all are in kernels that are not counted, such as cuDNN's recurrent ones."""
        return len(self.layers) or self.kernels.count

    def cast(self, dtype: torch.dtype) -> int:
        """Return how many computed in a dtype."""
        if self.layers:
            return sum(seen is dtype for seen in self.layers.values())
        return self.count - self.kernels.others(dtype, attention=True)

    def all_in(self, dtype: torch.dtype) -> bool:
        """Whether all computed in a dtype; of products, those of attention's slow path are spared."""
        return self.cast(dtype) == self.count if self.layers else not self.kernels.others(dtype, attention=False)

    def summary(self, dtype: torch.dtype) -> str:
        """Say how many computed in a dtype, and in what the others did."""
        what = "matrix layers" if self.layers else "matrix products"
        seen = self.layers.values() if self.layers else [used for _, used in self.kernels.seen]
        others = sorted({str(used) for used in seen} - {str(dtype)})
        words = f"{self.cast(dtype) or 'none'} of {self.count} {what} computed in {dtype}"
        return words + (f", others in {', '.join(others)}" if others else "")


def watch_forward(job: Job) -> ForwardProducts:
    """Note what the next forward passes of a job multiply."""
    products, plain = ForwardProducts(), job.forward
    for name, module in job.model.named_modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
            module.register_forward_hook(products.note(name))

    def watched(index: int = 0) -> Evaluation:
        with products.kernels:
            return plain(index)

    job.forward = watched  # type: ignore[method-assign]
    return products


def require_counted(name: str, products: ForwardProducts) -> None:
    """End a check whose other rules all held, where nothing was seen that autocast could have cast."""
    if not products.count:
        raise NotApplicable(f"{name} calls no matrix layer and no product that is counted, so that casting is not seen")


def watch_backward(job: Job) -> MatrixKernels:
    """Count the matrix kernels of a job's next backward passes."""
    kernels, plain = MatrixKernels(), job.differentiate

    def watched(loss: torch.Tensor) -> None:
        with kernels:
            plain(loss)

    job.differentiate = watched  # type: ignore[method-assign]
    return kernels
