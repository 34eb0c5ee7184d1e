"""What waits for a card's queue is told from what is queued; the card is a stand-in that is busy until a moment."""

from __future__ import annotations

import time

import pytest
import torch

from stackproof.probes import clock, served
from stackproof.record.checks import CheckInconclusive


class Queue:
    """Work that is done so many milliseconds after it was submitted."""

    def __init__(self, unit_s: float) -> None:
        self._unit, self._until = unit_s, 0.0

    def submit(self, units: int) -> None:
        self._until = time.perf_counter() + units * self._unit

    def read(self) -> float:
        time.sleep(max(0.0, self._until - time.perf_counter()))
        return 0.0


def test_what_returns_at_once_is_served_by_the_card() -> None:
    queue = Queue(0.02)
    assert served.served({"mm": lambda: None}, queue, 5)["mm"] < 0.3


def test_a_queue_that_is_empty_at_once_proves_nothing() -> None:
    with pytest.raises(CheckInconclusive, match="nothing can be judged"):
        served.served({"mm": lambda: None}, Queue(0.0), 5)


def test_the_queue_is_made_long_enough() -> None:
    assert clock.lasting(Queue(0.01), served.BACKLOG_S) == 16


def traced() -> served.Traced:
    """Trace a small step on the CPU: forward, backward, a mask, a number that the host wants."""
    weight = torch.ones(4, 4, requires_grad=True)
    found = served.Traced(torch.device("cpu"))
    with found:
        loss = (torch.ones(2, 4) @ weight).relu().sum()
        loss.backward()
        weight.detach()[weight.detach() > 0].sum().item()
    return found


def test_forward_and_backward_are_traced_and_can_be_called_again() -> None:
    calls = traced().calls
    assert {"mm float32", "relu float32", "threshold_backward float32 with gaps"} <= set(calls)
    for call in calls.values():
        call()


def test_the_largest_call_of_a_kind_is_kept() -> None:
    found = served.Traced(torch.device("cpu"))
    with found:
        for size in (2, 9, 5):
            torch.ones(size).exp()
    assert found.calls["exp float32"]().shape == (9,)  # type: ignore[attr-defined]


def test_what_must_tell_the_host_something_is_excused_by_name() -> None:
    excused = traced().excused
    assert excused["_local_scalar_dense"] == "tells the host a number"
    assert excused["index.Tensor"] == "tells the host a size"


def test_kinds_of_arguments_are_called_apart() -> None:
    found = served.Traced(torch.device("cpu"))
    with found:
        torch.ones(4, 4).exp()
        torch.ones(4, 4).t()[:, :2].exp()
        torch.ones(4, 4, dtype=torch.float64).exp()
    assert {"exp float32", "exp float32 with gaps", "exp float64"} <= set(found.calls)


def test_an_index_by_places_tells_no_size() -> None:
    found = served.Traced(torch.device("cpu"))
    with found:
        torch.ones(4, 4)[torch.tensor([2, 0])]
        torch.ones(4)[torch.tensor([True, False, True, True])]
    assert "index.Tensor float32 int64" in found.calls
    assert "index.Tensor float32 bool" not in found.calls
    assert found.excused["index.Tensor"] == "tells the host a size"
