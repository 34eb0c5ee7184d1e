"""Memory on a stand-in card that counts in a ledger: what is refused, and what spills; the drill plants wrong counters."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from stackproof.device.kinds import Device, Memory
from stackproof.probes import memory
from stackproof.record.checks import CheckFailed

TOTAL = 64 * memory.MIB


@dataclass(frozen=True)
class Ledger(Device):
    """A test double of a card with 64 MiB; its tensors lie in the host's memory. Not an accelerator."""

    kind: str = "cpu"
    index: int = 0
    grants: bool = False
    book: dict[str, int] = field(default_factory=lambda: {"now": 1000, "peak": 1000}, hash=False)

    @property
    def torch(self) -> torch.device:
        return torch.device("cpu")

    def take(self, size: int) -> Tensor:
        if not self.grants and self.book["now"] + size > TOTAL:
            raise RuntimeError(f"XPU out of memory. Tried to allocate {size} bytes.\nMore lines.")
        self._move(size)
        block = torch.zeros(size, dtype=torch.uint8)
        weakref.finalize(block, self._move, -size)
        return block

    def _move(self, size: int) -> None:
        self.book["now"] += size
        self.book["peak"] = max(self.book["peak"], self.book["now"])

    def memory(self) -> Memory:
        now = self.book["now"]
        return Memory(now, now, self.book["peak"], TOTAL - now, TOTAL)

    def reset_peak(self) -> None:
        self.book["peak"] = self.book["now"]

    def name(self) -> str:
        return "ledger"

    def synchronize(self) -> None: ...

    def stopwatch(self) -> Any:
        raise NotImplementedError

    def empty_cache(self) -> None: ...

    def driver(self) -> dict[str, str]:
        return {}

    @contextmanager
    def current(self) -> Iterator[None]:
        yield

    def bind(self) -> None: ...


SIZE = 8 * memory.MIB


def test_the_size_is_a_gibibyte_or_fits_the_card() -> None:
    assert memory.known_size(24 << 30) == 1073741824
    assert memory.known_size(1 << 30) == 256 * memory.MIB
    assert memory.known_size((8 * memory.MIB) + 5) == 2 * memory.MIB


def test_a_card_that_refuses_passes() -> None:
    card = Ledger()
    found = memory.overcommit(card, card.memory().free, card.take, lambda _: 100.0)
    assert "out of memory" in found.words
    assert 0.8 * found.free < found.granted <= found.free


def test_pieces_that_are_granted_without_end_fail_with_their_rates() -> None:
    card, rates = Ledger(grants=True), iter([456.0, 21.0, 20.0, 450.0])
    free = card.memory().free

    def take(size: int) -> torch.Tensor:
        if size > free:
            raise RuntimeError("out of memory")
        return card.take(size)

    with pytest.raises(CheckFailed, match="without an error: 456.0 GB/s before, 20.0 when full, 450.0 after"):
        memory.overcommit(card, free, take, lambda _: next(rates))


def test_memory_that_gets_slow_when_full_has_spilled() -> None:
    card, rates = Ledger(), iter([456.0, 21.0, 20.0, 450.0])
    with pytest.raises(CheckFailed, match="memory spilled in silence: 456.0 GB/s before, 20.0 when full"):
        memory.overcommit(card, card.memory().free, card.take, lambda _: next(rates))


def test_another_error_is_not_a_refusal() -> None:
    def lost(size: int) -> torch.Tensor:
        raise RuntimeError("device lost")

    with pytest.raises(RuntimeError, match="device lost"):
        memory.overcommit(Ledger(), SIZE, lost, lambda _: 1.0)
