"""Copies between host and device arrive intact, also those that nobody waits for."""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.probes import transfer
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack


@pytest.mark.deadline(60)
def test_non_blocking(device: Device, figures: dict[str, Figure]) -> None:
    """What comes back is what was sent, in every dtype and layout, from memory that is not pinned."""
    sent = transfer.copies(device)
    buffers = transfer.overlap(device, lambda tensor: tensor)
    figures["summary"] = f"{sent} tensors and {buffers} sums over copies on their way are right"


@pytest.mark.deadline(60)
def test_pinned(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """The same from pinned memory, where copies really run beside the host."""
    capabilities.require(stack, "pinned-memory")
    sent = transfer.copies(device, lambda tensor: tensor.pin_memory())
    buffers = transfer.overlap(device, lambda tensor: tensor.pin_memory())
    figures["summary"] = f"{sent} pinned tensors and {buffers} sums over copies on their way are right"


@pytest.mark.deadline(60)
def test_pinned_loader(stack: Stack, figures: dict[str, Figure]) -> None:
    """A loader that is asked for pinned memory delivers pinned tensors, whole."""
    capabilities.require(stack, "pinned-memory")
    batches = list(transfer.loader(0, pinned=True))
    loose = [name for batch in batches for name, tensor in batch.items() if not tensor.is_pinned()]
    require(not loose, f"pin_memory=True left {sorted(set(loose))} in memory that is not pinned")
    delivered = transfer.deliver(iter(batches))
    transfer.complete(delivered, delivered.order)
    figures["summary"] = f"{len(batches)} batches arrived in pinned memory"
