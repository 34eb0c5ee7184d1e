"""Workers that are spawned deliver what one process would, each with a seed of its own."""

from __future__ import annotations

import pytest

from stackproof.probes import feeding
from stackproof.records import Figure


@pytest.fixture(scope="module")
def delivery() -> feeding.Delivery:
    """One epoch through two spawned workers; they take seconds to start."""
    return feeding.deliver(iter(feeding.loader(feeding.WORKERS)))


@pytest.mark.deadline(120)
def test_order(delivery: feeding.Delivery, figures: dict[str, Figure]) -> None:
    """Every sample comes once, unharmed, in the order that the seed gives without workers."""
    alone = feeding.deliver(iter(feeding.loader(0)))
    feeding.complete(alone, alone.order)
    feeding.complete(delivery, alone.order)
    figures["summary"] = f"{len(delivery.order)} samples from {feeding.WORKERS} spawned workers, in the seed's order"


@pytest.mark.deadline(120)
def test_seeds(delivery: feeding.Delivery, figures: dict[str, Figure]) -> None:
    """No two workers draw the same random numbers."""
    feeding.seeds_differ(delivery)
    figures["summary"] = f"{feeding.WORKERS} workers with {len(set(delivery.seeds))} seeds"
