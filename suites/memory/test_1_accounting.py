"""A known allocation appears with its size, and is gone when it is released (docs/users-reports.md A4)."""

from __future__ import annotations

import pytest

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.device.telemetry import unless_shared
from stackproof.probes import memory
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.runner.request import Request
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack

_HOST_SIZE = 256 * memory.MIB
_HOST_SLACK = 16 * memory.MIB
_DRIVER_SLACK = 64 * memory.MIB  # the driver's own granularity, and what a neighbour on the card does meanwhile


@pytest.mark.deadline(60)
def test_device(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """On a card, 1 GiB is 1073741824 bytes, to the byte: in what is allocated, in the peak, and gone after."""
    capabilities.require(stack, "device-memory")
    memory.filled(device)(memory.MIB)  # the context takes memory of its own at the first use
    size = memory.known_size(device.memory().free)
    require(size > 0, f"{device}: no memory is free: {device.memory()}")
    figures |= memory.follow(device, size, memory.filled(device))
    with unless_shared(device, stack):
        figures["free fell by"] = memory.follow_free(device, size, memory.filled(device), _DRIVER_SLACK)
    figures["summary"] = f"{size} bytes appeared as {figures['appeared']}, peak {figures['peak']}, gone after release"


@pytest.mark.deadline(150)
def test_idle(stack: Stack, device: Device, run_request: Request, figures: dict[str, Figure]) -> None:
    """A fresh process has nothing allocated on a card: a counter that is off by a constant is right in every difference."""
    capabilities.require(stack, "device-memory")
    figures |= memory.idle(device, stack.imports, 120 * run_request.deadline_scale)
    figures["summary"] = f"nothing is allocated in a fresh process, then {figures['taken']} bytes"


@pytest.mark.deadline(60)
def test_host(figures: dict[str, Figure]) -> None:
    """A tensor on the CPU appears in the process's resident set and leaves it."""
    memory.filled(HOST)(memory.MIB)
    figures |= memory.follow(HOST, _HOST_SIZE, memory.filled(HOST), _HOST_SLACK)
    figures["summary"] = f"{_HOST_SIZE} bytes appeared as {figures['appeared']}, {figures['left']} left after release"
