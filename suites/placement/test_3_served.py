"""The card serves its operators itself: none is computed by the host in silence."""

from __future__ import annotations

import pytest

from stackproof import capabilities
from stackproof.device import Device
from stackproof.probes import backlog, timekeeping
from stackproof.records import Figure
from stackproof.stacks import Stack


@pytest.mark.deadline(120)
def test_by_the_card(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """With the card's queue full, every operator's call returns at once (pytorch#126488)."""
    capabilities.require(stack, "device-events")
    work = timekeeping.products(device)
    shares = backlog.served(backlog.calls(device), work, timekeeping.lasting(work, backlog.BACKLOG_S))
    slowest = max(shares, key=lambda name: shares[name])
    figures["slowest"] = shares[slowest]
    figures["summary"] = (
        f"{len(shares)} operators return before the queue is empty; {slowest} after {shares[slowest]:.1%} of it"
    )
