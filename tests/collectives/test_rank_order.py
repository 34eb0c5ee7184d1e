"""Order among ranks, arranged by notes in the store: two ranks in threads, with a barrier and works that can be made to lie."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.collectives import rank as order
from stackproof.collectives.calls import Case
from stackproof.collectives.table import Row
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank

LATE = Row("all_reduce", "late", "float32")


@dataclass
class Meeting:
    """An all-reduce and a barrier of two ranks that are threads of this process; each can be told to lie."""

    waits: bool = True
    completes_early: bool = False
    blocks: bool = False
    _room: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    _given: list[torch.Tensor] = field(default_factory=list)

    def all_reduce(self, tensor: torch.Tensor, *arguments: Any) -> SimpleNamespace:
        self._given.append(tensor)
        if self.blocks:
            self._room.wait(60)
        return SimpleNamespace(
            is_completed=lambda: self.completes_early or len(self._given) == 2, wait=lambda: self._sum(tensor)
        )

    def _sum(self, tensor: torch.Tensor) -> None:
        if not self.waits:
            return
        if not self.blocks:
            self._room.wait(60)
        before = [one.clone() for one in self._given]
        self._room.wait(60)
        tensor.copy_(before[0] + before[1])

    def barrier(self, *arguments: Any, **keywords: Any) -> None:
        if self.waits:
            self._room.wait(60)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[dist.Store]:
    found = dist.HashStore()
    monkeypatch.setattr(order.Board, "_store", found)
    monkeypatch.setattr(order, "_LATE_S", 0.02)
    yield found


def ranks(action: Callable[[Rank], Any]) -> list[Any]:
    found: list[Any] = [None, None]

    def run(number: int) -> None:
        found[number] = action(Rank(number, 2, Host("cpu", 0), "gloo", 0.1, {}, Path()))

    threads = [threading.Thread(target=run, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


def meet(monkeypatch: pytest.MonkeyPatch, meeting: Meeting) -> None:
    monkeypatch.setattr(dist, "all_reduce", meeting.all_reduce)
    monkeypatch.setattr(dist, "barrier", meeting.barrier)


def test_a_late_rank_is_waited_for(store: dist.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(monkeypatch, Meeting())
    assert ranks(lambda rank: order.late(rank, LATE)) == [{"blocks": False, "fault": None}] * 2


def test_work_that_is_complete_before_everybody_called_is_told(
    store: dist.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet(monkeypatch, Meeting(completes_early=True))
    found = ranks(lambda rank: order.late(rank, LATE))
    assert found[0] == {"sentence": "all_reduce was complete on rank 0 before rank 1 had called it"}
    assert found[1]["fault"] is None


@dataclass(frozen=True)
class Card(Host):
    """A device whose queue ends when the late rank has come."""

    coming: threading.Event = field(default_factory=threading.Event)

    def synchronize(self) -> None:
        assert self.coming.wait(60)


def test_a_future_that_is_done_once_it_is_in_a_queue_is_not_early(
    store: dist.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, put = Card("cpu", 0), order.Board.put
    monkeypatch.setattr(order, "_JUDGING_S", 0.1)

    def told(board: Any, note: str) -> None:
        put(board, note)
        if note == "coming":
            card.coming.set()

    monkeypatch.setattr(order.Board, "put", told)
    meet(monkeypatch, Meeting(completes_early=True))
    found = ranks(lambda rank: order.late(replace(rank, device=card), LATE))
    assert [one.get("sentence") for one in found] == [None, None]


def test_a_wait_that_does_not_wait_leaves_wrong_numbers(store: dist.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(monkeypatch, Meeting(waits=False))
    found = ranks(lambda rank: order.late(rank, LATE))
    assert all(one["fault"]["what"] == "result" and one["fault"]["case"]["collective"] == "all_reduce" for one in found)


def test_a_backend_whose_calls_block_is_told_and_not_failed(store: dist.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_PATIENCE_S", 0.3)
    meet(monkeypatch, Meeting(blocks=True))
    found = ranks(lambda rank: order.late(rank, LATE))
    assert [one.get("sentence") for one in found] == [None, None]
    assert found[1]["blocks"] is True


@pytest.mark.parametrize("form", ["world", "async"])
def test_a_barrier_that_waits_lets_nobody_go_early(
    form: str, store: dist.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet(monkeypatch, Meeting())
    assert ranks(lambda rank: order.barrier(rank, Row("barrier", form, "none"))) == [{}, {}]


def test_a_barrier_that_does_not_wait_is_told(store: dist.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(monkeypatch, Meeting(waits=False))
    found = ranks(lambda rank: order.barrier(rank, Row("barrier", "world", "none")))
    assert "the barrier of ranks 0, 1 let rank 1 go before rank 0 had come" in str(found)


def test_notes_are_kept_apart_by_row(store: dist.Store) -> None:
    order.Board("one").put("here")
    assert order.Board("one").has("here") and not order.Board("other").has("here")
    assert not order.Board("other").wait("here", seconds=0.2)
    order.Board("one").put("text", "7 5")
    assert order.Board("one").text("text") == "7 5"


def test_results_of_a_group_are_its_own(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("groups", "interleaved", "float32")
    assert order.groups(alone, row) == {}
    tensors: list[torch.Tensor] = []
    original = dist.broadcast

    def swapped(tensor: torch.Tensor, *arguments: Any) -> Any:
        tensors.append(tensor)
        work = original(tensor, *arguments)
        if len(tensors) == 2:
            tensors[0].copy_(tensors[1])
        return work

    monkeypatch.setattr(dist, "broadcast", swapped)
    found = order.groups(alone, row)
    assert found["fault"]["case"]["collective"] == "broadcast"


def test_ordinary_numbers_are_held_against_float64(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("all_reduce", "sum", "float32", 65, 0, (0,), 0, data="real")
    right = order.real(alone, case)
    assert right["sentence"] == "" and right["error"] <= right["bound"] and len(right["digest"]) == 64
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, *arguments: [tensor.mul_(1.01)].clear())
    wrong = order.real(alone, case)
    assert "exceeds the bound" in wrong["sentence"] and wrong["digest"] != right["digest"]
