"""Asking for 1.2 x the free memory is refused with an out-of-memory error; nothing spills in silence (docs/users-reports.md A5)."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from stackproof.device.kinds import Device
from stackproof.probes import memory
from stackproof.record.records import Figure
from stackproof.runner.request import Request
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack


@pytest.mark.deadline(120)
def test_device(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """A card that is full says so, its memory is as fast as before, and the process goes on computing."""
    capabilities.require(stack, "device-memory")
    device.empty_cache()
    result = memory.overcommit(device, device.memory().free, memory.filled(device), memory.rate(device))
    device.empty_cache()
    memory.still_usable(device)
    _record(result, figures)


@pytest.mark.deadline(120)
def test_host(run_request: Request, figures: dict[str, Figure]) -> None:
    """A process on the CPU that may have no more gets an error it can live with, not a signal."""
    _record(memory.overcommit_host(90 * run_request.deadline_scale), figures)


def _record(result: memory.Overcommitment, figures: dict[str, Figure]) -> None:
    figures |= asdict(result)
    figures["summary"] = (
        f"{result.granted >> 20} MiB of {result.free >> 20} MiB free were granted, then: {result.words}; "
        f"{result.before:.1f} GB/s before, {result.full:.1f} full, {result.after:.1f} after"
    )
