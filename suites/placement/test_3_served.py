"""The card serves its operators itself: none is computed by the host in silence."""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.probes import clock
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack


@pytest.mark.deadline(120)
def test_by_the_card(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """With the card's queue full, every operator's call returns at once (pytorch#126488)."""
    capabilities.require(stack, "device-events")
    work = clock.products(device)
    shares = clock.served(clock.calls(device), work, clock.lasting(work, clock.BACKLOG_S))
    slowest = max(shares, key=lambda name: shares[name])
    figures["slowest"] = shares[slowest]
    figures["summary"] = (
        f"{len(shares)} operators return before the queue is empty; {slowest} after {shares[slowest]:.1%} of it"
    )
