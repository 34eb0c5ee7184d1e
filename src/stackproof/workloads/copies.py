"""Copies of memory: within the device, and between host and device from pinned and from pageable memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import torch

from stackproof.base.toml import OneOf
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.workloads.work import Setting, Work

_MIB = 1 << 20
_RING = 3
_MOST_BYTES = 4 << 30
"""For the targets of a block over the link, each of which receives one copy."""
_MOST_TARGETS = 8

_PlaceName = Annotated[str, OneOf(("host", "pinned", "device"))]


@dataclass(frozen=True)
class _Parameters:
    mib: int
    source: _PlaceName
    target: _PlaceName


class Copy(Work):
    """One block copied into another; `source` and `target` are "host", "pinned" or "device".

    Within the device the bytes read and the bytes written both count (as STREAM counts, https://www.cs.virginia.edu/stream/ref.html);
    between host and device each byte crosses the link once and counts once.

    Within one place the block before is filled from the one behind, around a ring of three that hold a pattern and its complement: every
    copy changes every bit, and one that is left out or cut loses one of the two for good. Over a link each copy of a block has a target of
    its own.
    """

    dtype = "uint8"

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        size, self.device = row.mib * _MIB, setting.device
        self._ring = row.source == row.target
        self.most_runs = Work.most_runs if self._ring else max(1, min(_MOST_TARGETS, _MOST_BYTES // size))
        pattern = _pattern(size)
        self.sources = [_PLACES[row.source](size, setting.device) for _ in range(_RING if self._ring else 2)]
        self.targets = (
            self.sources if self._ring else [_PLACES[row.target](size, setting.device) for _ in range(self.most_runs)]
        )
        self._first, self._sums = pattern.to(self.sources[0].device, copy=True), sums(pattern)
        self._size, self._turn = size, 0
        self.facts = {"memory": "device" if self._ring else "link"}

    @property
    def worth(self) -> Mapping[str, float]:
        """GB of 1e9 bytes."""
        return {"GB": (2 if self._ring else 1) * self._size / 1e9}

    def begin(self, runs: int) -> None:  # noqa: ARG002 - the same start for any number
        """Write the pattern and its complement, and into the targets what is not to come."""
        self._turn = 0
        self.sources[-1].copy_(self._first).bitwise_not_()
        self.sources[-2].copy_(self._first)
        if self._ring:
            self.sources[0].zero_()
            return
        for number, target in enumerate(self.targets):
            target.copy_(self.sources[1 - number % 2])

    def run(self) -> torch.Tensor:
        """Queue the next copy."""
        turn, self._turn = self._turn, self._turn + 1
        source = self.sources[(turn + 1) % _RING if self._ring else turn % 2]
        return self.targets[turn % len(self.targets)].copy_(source, non_blocking=True)

    def verify(self, runs: int) -> None:
        """Hold every byte: which block has the pattern and which its complement tells how many copies there were."""
        self.device.synchronize()
        if self._ring:
            contents = [2, 0, 1]
            for turn in range(runs):
                contents[turn % _RING] = contents[(turn + 1) % _RING]
            held = [
                (block, bool(content)) for block, content in zip(self.targets, contents, strict=True) if content < 2
            ]
        else:
            held = [(target, bool(number % 2)) for number, target in enumerate(self.targets[:runs])]
            self._summed(self.sources[0], turned=False, what="changed some of its source")
        for block, turned in held:
            self._summed(block, turned=turned, what=f"changed some of them, or one of {runs} was not made")

    def prove(self) -> str:
        """Every byte arrives, and none is changed where it came from."""
        self.begin(1)
        self.run()
        self.device.synchronize()
        for block, what in (
            (self.targets[0], "changed some of them"),
            (self.sources[-2], "changed some of its source"),
        ):
            self._require(torch.equal(block.to(self._first.device), self._first), what)
        return f"{self._size} bytes arrived unchanged"

    def _summed(self, block: torch.Tensor, *, turned: bool, what: str) -> None:
        expected = -_GROUP - self._sums if turned else self._sums  # not x is -1 - x
        self._require(torch.equal(sums(block), expected), what)

    def _require(self, right: bool, what: str) -> None:
        require(right, f"a copy of {self._size} bytes {what}")


_GROUP = 256  # numbers of eight bytes in a sum: 2 KiB


def sums(block: torch.Tensor) -> torch.Tensor:
    """Return the sum modulo 2**64 of each 2 KiB, as numbers of eight bytes: exact on every device, and one pass over memory."""
    return block.view(torch.int64).view(-1, _GROUP).sum(1).cpu()


def _pattern(size: int) -> torch.Tensor:
    """Return bytes whose period no power of two divides, so that a block in the wrong place shows."""
    piece = torch.arange(251, dtype=torch.uint8).repeat(4096)
    return piece.repeat(-(-size // len(piece)))[:size]


def _zeros(size: int, place: torch.device) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8, device=place)


_PLACES: Mapping[str, Callable[[int, Device], torch.Tensor]] = {
    "host": lambda size, _: _zeros(size, HOST.torch),
    "pinned": lambda size, _: _zeros(size, HOST.torch).pin_memory(),
    "device": lambda size, device: _zeros(size, device.torch),
}
KINDS = {"copy": Copy}
