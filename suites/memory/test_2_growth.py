"""Training leaves nothing behind on a card; the driver counts for all of its processes, so that none may be beside this."""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.probes import memory
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.memory.growing import steady


@pytest.mark.deadline(300)
def test_device(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """On a card nothing at all may be left behind: in torch's allocator, in its cache, in what the driver has left."""
    capabilities.require(stack, "device-memory")
    steady(stack, device, lambda: memory.of_card(device), memory.OF_CARD, figures)
