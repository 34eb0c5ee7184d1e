"""Workers that are spawned deliver what one process would, each with a seed of its own."""

from __future__ import annotations

import pytest

from stackproof.probes import transfer
from stackproof.record.records import Figure


@pytest.fixture(scope="module")
def delivery() -> transfer.Delivery:
    """One epoch through two spawned workers; they take seconds to start."""
    return transfer.deliver(iter(transfer.loader(transfer.WORKERS)))


@pytest.mark.deadline(120)
def test_order(delivery: transfer.Delivery, figures: dict[str, Figure]) -> None:
    """Every sample comes once, unharmed, in the order that the seed gives without workers; each epoch has another."""
    alone = transfer.deliver(iter(transfer.loader(0)))
    transfer.complete(alone, alone.order)
    transfer.complete(delivery, alone.order)
    transfer.shuffles()
    figures["summary"] = (
        f"{len(delivery.order)} samples from {transfer.WORKERS} spawned workers, in the seed's order; epochs in other ones"
    )


@pytest.mark.deadline(120)
def test_seeds(delivery: transfer.Delivery, figures: dict[str, Figure]) -> None:
    """No two workers draw the same random numbers, from torch, NumPy or Python."""
    transfer.seeds_differ(delivery)
    figures["summary"] = f"{transfer.WORKERS} workers with {len(set(delivery.seeds))} seeds"
