"""What a single call costs: launching a kernel, dispatching small operators, waiting for an idle device."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller

import numpy as np
import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.work import Work
from suites.latency.conftest import Timed

_SMALL = 64
_TWOS = 60
"""Two to this power, and its inverse, are far from what float32 cannot square."""


class Chain(Work):
    """Calls that each take the result of the one before, so that a block's end shows their number: it is `expected` of that number."""

    dtype = "float32"
    worth = {}  # noqa: RUF012 - never written

    def __init__(
        self,
        proof: str,
        start: torch.Tensor,
        call: Callable[[torch.Tensor], torch.Tensor],
        expected: Callable[[int], object],
        most: int = 4096,
    ) -> None:
        self.proof, self.start, self.call, self.expected, self.most_runs = proof, start, call, expected, most

    def begin(self, runs: int, compared: bool = True) -> None:  # noqa: ARG002 - the same start for any number
        self.value = self.start.detach().clone().requires_grad_(self.start.requires_grad)

    def run(self) -> None:
        self.value = self.call(self.value)

    def verify(self, runs: int) -> None:
        right = np.array_equal(self.value.detach().cpu().numpy(), np.asarray(self.expected(runs), dtype=np.float32))
        require(right, f"{self.proof}: wrong after {runs} calls")


@pytest.mark.deadline(120)
def test_kernel_launch(device: Device, timed: Timed) -> None:
    """One kernel on one element, hundreds in a row."""
    start = torch.zeros(1, device=device.torch)
    timed("kernel-launch", Chain("one is added to one element", start, methodcaller("add_", 1), lambda runs: [runs]))


@pytest.mark.deadline(120)
def test_small_operators(device: Device, timed: Timed) -> None:
    """A product, a sum and a non-linearity on 64 x 64 numbers: what eager training pays for each layer."""
    left = torch.eye(_SMALL, device=device.torch).roll(1, 0)
    right = torch.arange(_SMALL, dtype=torch.float32, device=device.torch)

    def expected(runs: int) -> object:
        """All numbers move on by one place, and each place gets its own added."""
        rounds, rest = divmod(runs, _SMALL)
        places = np.arange(_SMALL)
        return sum((np.roll(places, shift) for shift in range(rest)), start=np.full(_SMALL, rounds * places.sum()))

    three = Chain("three small operators", right * 0, lambda value: torch.relu(torch.mv(left, value) + right), expected)
    timed("small-operators", three)


@pytest.mark.deadline(120)
def test_small_backward(device: Device, timed: Timed) -> None:
    """Forward and backward of one small operator through autograd: the gradient is twice the leaf, and the next leaf."""
    start = (torch.linspace(1, 2, _SMALL, device=device.torch) * 2.0**-_TWOS).requires_grad_()

    def both(leaf: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((leaf * leaf).sum(), leaf)[0].requires_grad_()

    expected = start.detach().cpu().numpy()
    name = "the gradient of a sum of squares"
    timed("small-backward", Chain(name, start, both, lambda runs: expected * 2.0**runs, 2 * _TWOS))


@pytest.mark.deadline(120)
def test_synchronise(device: Device, stack: Stack, timed: Timed) -> None:
    """Waiting for a device that has nothing to do, which leaves no trace."""
    capabilities.require(stack, "device-events")
    idle = torch.zeros(1, device=device.torch)

    def wait(value: torch.Tensor) -> torch.Tensor:
        device.synchronize()
        return value

    timed("synchronise", Chain("waiting leaves nothing", idle, wait, lambda _: [0]))
