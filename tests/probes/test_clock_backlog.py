"""What waits for a card's queue is told from what is queued; the card is a stand-in that is busy until a moment."""

from __future__ import annotations

import time

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.probes import clock
from stackproof.record.checks import CheckFailed, CheckInconclusive


class Queue:
    """Work that is done so many milliseconds after it was submitted."""

    def __init__(self, unit_s: float) -> None:
        self._unit, self._until = unit_s, 0.0

    def submit(self, units: int) -> None:
        """Return at once."""
        self._until = time.perf_counter() + units * self._unit

    def read(self) -> float:
        """Wait until it is done."""
        time.sleep(max(0.0, self._until - time.perf_counter()))
        return 0.0


def test_what_returns_at_once_is_served_by_the_card() -> None:
    """Its share of the queue's time is small."""
    queue = Queue(0.02)
    assert clock.served({"mm": lambda: None}, queue, 5)["mm"] < 0.3


def test_what_waits_for_the_queue_is_named() -> None:
    """And only that."""
    queue = Queue(0.02)
    with pytest.raises(CheckFailed, match=r"waited for the card's queue.*: softmax \(\d+%\);"):
        clock.served({"mm": lambda: None, "softmax": queue.read}, queue, 5)


def test_a_queue_that_is_empty_at_once_proves_nothing() -> None:
    """As on a device whose calls return when the work is done."""
    with pytest.raises(CheckInconclusive, match="nothing can be told"):
        clock.served({"mm": lambda: None}, Queue(0.0), 5)


def test_the_queue_is_made_long_enough() -> None:
    """A tenth of a second, by doubling."""
    assert clock.lasting(Queue(0.01), clock.BACKLOG_S) == 16


def test_every_operator_can_be_called() -> None:
    """On the host as on any card, and gives numbers."""
    for name, call in clock.calls(HOST).items():
        found = call()
        assert isinstance(found, torch.Tensor), name
        assert torch.isfinite(found).all(), name
