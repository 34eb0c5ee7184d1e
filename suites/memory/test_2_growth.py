"""Two hundred training steps need no more memory than the first few."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.probes import memory
from stackproof.project.offers import playing
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.common import SEED, possible

_WORKLOAD = playing("plain")
_STEPS = 200
_WARM_UP = 20
_HOST_ALLOWED = 8 * memory.MIB  # the C library's arenas; a leak of 50 KiB a step is more


@pytest.mark.deadline(90)
def test_device(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """On a card nothing at all may be left behind: the allocator counts every byte."""
    capabilities.require(stack, "device-memory")
    step = possible(_WORKLOAD).build(device.torch, "tiny", SEED, torch.float32).step
    figures["grown"] = memory.growth(device, step, _STEPS, _WARM_UP, allowed=0)
    figures["summary"] = f"{_STEPS} steps left {figures['grown']} bytes behind on {device}"


@pytest.mark.deadline(90)
def test_host(device: Device, figures: dict[str, Figure]) -> None:
    """Whatever the device, the process that drives it does not grow."""
    step = possible(_WORKLOAD).build(device.torch, "tiny", SEED, torch.float32).step
    figures["grown"] = memory.growth(HOST, step, _STEPS, _WARM_UP, _HOST_ALLOWED)
    figures["summary"] = f"{_STEPS} steps moved the process by {figures['grown']} of {_HOST_ALLOWED} bytes allowed"
