"""Every optimiser of torch that has variants, and a run of a few steps over awkward parameters with known gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from stackproof.device.devices import HOST, Operators
from stackproof.record.checks import CapabilityMissing
from stackproof.workloads.weights import hashed

STEPS = 5
CPU = HOST.torch
VARIANTS: Mapping[str, Mapping[str, bool]] = {
    "single": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
# What the kernels of a variant are called; the single-tensor form has none of its own.
KERNELS = {"foreach": "_foreach_", "fused": "_fused_"}

# By optimiser, settings that exercise more of it than its defaults do; and whether torch has a fused form on any device.
# Adam's betas and 1 - beta are exact in float32. CUDA's fused kernels take betas in float32 and compute 1 - beta from that, by design
# (https://github.com/pytorch/pytorch/pull/173224): with the default of 0.999 the second moment of torch 2.11 is 1.3e-5 off.
_BETAS = (0.875, 0.984375)
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"lr": 0.01, "weight_decay": 0.01, "amsgrad": True, "betas": _BETAS},
    "AdamW": {"lr": 0.01, "weight_decay": 0.1, "betas": _BETAS},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.01},
    "Adadelta": {"lr": 1.0, "weight_decay": 0.01},
    "Adamax": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "centered": True},
    "ASGD": {"lr": 0.01},
    "Rprop": {"lr": 0.01},
}
# What an optimiser says at its first step if it has a fused form for other devices.
_REFUSAL = "`fused=True` requires all the params to be"
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")

# A scalar, one element, odd sizes around what a kernel takes at once, and kernels of a convolution; one longer than what a block of a
# kernel over lists takes (2^16), and more small ones than such a kernel takes at once (110).
SHAPES = ((), (1,), (7,), (33, 5), (129, 31), (4, 3, 3, 3), (70_001,), *[(3,)] * 112)


@dataclass(frozen=True)
class Case:
    """An optimiser in one variant on a device and in a dtype."""

    optimiser: str
    variant: str
    device: torch.device
    dtype: torch.dtype

    def build(self, parameters: Sequence[torch.Tensor] | Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimiser of tensors, or of groups of them; end the check as skipped if torch refuses the variant here."""
        make: Callable[..., torch.optim.Optimizer] = getattr(torch.optim, self.optimiser)
        try:
            return make(parameters, **SETTINGS[self.optimiser], **VARIANTS[self.variant])
        except (RuntimeError, TypeError) as error:
            raise self.refused(error) from error

    def step(self, optimiser: torch.optim.Optimizer) -> None:
        """Take a step; the first one is where a fused kernel that is not there is missed."""
        try:
            optimiser.step()
        except RuntimeError as error:
            if isinstance(error, NotImplementedError) or _REFUSAL in str(error):
                raise self.refused(error) from error
            raise

    def refused(self, error: Exception) -> CapabilityMissing:
        """Return the end of a check whose variant torch refuses."""
        reason = str(error).split("\n")[0][:200]
        return CapabilityMissing(
            f"{self.optimiser}({self.variant}=True), measured on {self.device}: torch {torch.__version__} refuses it: {reason}"
        )


@dataclass
class Course:
    """What the steps left: parameters and the optimiser's own state, on the CPU; and the kernels that ran."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)


def parameters(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return parameters of awkward shapes, pictures in channels-last order, with values that every device makes alike."""
    counts = [math.prod(shape) for shape in SHAPES]
    drawn = zip(_numbers(sum(counts), 1000).split(counts), SHAPES, strict=True)
    made = [values.reshape(shape).clone().to(device, dtype) for values, shape in drawn]
    orders = [torch.channels_last if len(shape) == 4 else torch.contiguous_format for shape in SHAPES]
    return [tensor.contiguous(memory_format=one).requires_grad_() for tensor, one in zip(made, orders, strict=True)]


def give_gradients(tensors: Sequence[torch.Tensor], step: int) -> None:
    """Set the gradients of one step; the first parameter gets none, as an unused one does not."""
    counts = [tensor.numel() for tensor in tensors[1:]]
    for values, tensor in zip(_numbers(sum(counts), step).split(counts), tensors[1:], strict=True):
        tensor.grad = torch.empty_like(tensor).copy_(values.reshape(tensor.shape))


def run(case: Case) -> Course:
    """Take the steps and return what they leave."""
    tensors = parameters(case.device, case.dtype)
    optimiser = case.build(tensors)
    with Operators() as ran:
        for step in range(STEPS):
            give_gradients(tensors, step)
            case.step(optimiser)
    return Course(left(optimiser, tensors), set(ran.seen))


def left(optimiser: torch.optim.Optimizer, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return copies of parameters and of every tensor of the optimiser's state."""
    found = {f"parameter {key}": tensor for key, tensor in enumerate(tensors)}
    for key, tensor in enumerate(tensors):
        state = optimiser.state.get(tensor, {})
        found |= {f"{name} of parameter {key}": value for name, value in state.items() if torch.is_tensor(value)}
    return {name: value.detach().cpu().clone() for name, value in found.items()}


@cache
def _numbers(count: int, key: int) -> torch.Tensor:
    return hashed(0, count, key, CPU)
