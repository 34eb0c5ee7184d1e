"""What a single call costs: launching a kernel, dispatching small operators, waiting for an idle device."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.latency.conftest import Timed

_SMALL = 64


@pytest.mark.deadline(120)
def test_kernel_launch(device: Device, timed: Timed) -> None:
    """One kernel on one element, thousands in a row."""
    value = torch.ones(1, device=device.torch)
    require(float(value.zero_().item()) == 0.0, "zeroing one element did not")
    timed("kernel-launch", value.zero_)


@pytest.mark.deadline(120)
def test_small_operators(device: Device, timed: Timed) -> None:
    """A product, a sum and a non-linearity on 64 x 64 numbers: what eager training pays for each layer."""
    left = torch.eye(_SMALL, device=device.torch)
    right = torch.arange(_SMALL, dtype=torch.float32, device=device.torch)

    def three() -> torch.Tensor:
        return torch.relu(torch.mv(left, right) + right)

    require(torch.equal(three().cpu(), 2 * right.cpu()), "three small operators gave wrong numbers")
    timed("small-operators", three)


@pytest.mark.deadline(120)
def test_small_backward(device: Device, timed: Timed) -> None:
    """Forward and backward of one small operator through autograd."""
    leaf = torch.ones(_SMALL, device=device.torch, requires_grad=True)

    def both() -> torch.Tensor:
        (gradient,) = torch.autograd.grad((leaf * leaf).sum(), leaf)
        return gradient

    require(torch.equal(both().cpu(), torch.full((_SMALL,), 2.0)), "the gradient of a sum of squares is wrong")
    timed("small-backward", both)


@pytest.mark.deadline(120)
def test_synchronise(device: Device, stack: Stack, timed: Timed) -> None:
    """Waiting for a device that has nothing to do."""
    capabilities.require(stack, "device-events")
    timed("synchronise", device.synchronize)
