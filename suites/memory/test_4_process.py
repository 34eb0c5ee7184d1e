"""Training leaves nothing behind in the process that drives the device."""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.probes import memory
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.memory.growing import steady


@pytest.mark.deadline(300)
def test_growth(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Whatever the device, the process that drives it does not grow: by the C library, in memory, in addresses, in open files."""
    steady(stack, device, memory.of_process, memory.OF_PROCESS, figures)
