"""Copies of memory: within the device, and between host and device from pinned and from pageable memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import torch

from stackproof.base.toml import OneOf
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
        self._size, self.device = row.mib * _MIB, setting.device
        self._ring = row.source == row.target
        self.most_runs = Work.most_runs if self._ring else max(1, min(_MOST_TARGETS, _MOST_BYTES // self._size))
        sources, targets = (
            [_PLACES[place](self._size, setting.device) for _ in range(count)]
            for place, count in (
                (row.source, _RING if self._ring else 2),
                (row.target, 0 if self._ring else self.most_runs),
            )
        )
        self.sources, self.targets = sources, sources if self._ring else targets
        # The period is no power of two, so that a block in the wrong place shows.
        pattern = torch.arange(251, dtype=torch.uint8).repeat(self._size // 251 + 1)[: self._size]
        places = {block.device for block in (self.sources[0], self.targets[0])}
        self._contents = [{place: tensor.to(place) for place in places} for tensor in (pattern, pattern.bitwise_not())]
        self._turn = 0
        self.facts = {"memory": "device" if self._ring else "link"}
        self.worth = {"GB": (2 if self._ring else 1) * self._size / 1e9}
        self.proof = f"{self._size} bytes arrived unchanged"

    def begin(self, runs: int) -> None:  # noqa: ARG002 - the same start for any number
        """Write the pattern and its complement, and into the targets what is not to come."""
        self._turn = 0
        place = self.sources[0].device
        for block, content in zip(self.sources[-2:], self._contents, strict=True):
            block.copy_(content[place])
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
        else:
            contents = [number % 2 for number in range(min(runs, len(self.targets)))]
            self._require(self.sources[0], 0, "changed some of its source")
        for block, content in zip(self.targets, contents, strict=False):
            if content < 2:
                self._require(block, content, f"changed some of them, or one of {runs} was not made")

    def _require(self, block: torch.Tensor, content: int, what: str) -> None:
        right = torch.equal(block.view(torch.int64), self._contents[content][block.device].view(torch.int64))
        require(right, f"a copy of {self._size} bytes {what}")


_PLACES: Mapping[str, Callable[[int, Device], torch.Tensor]] = {
    "host": lambda size, _: torch.zeros(size, dtype=torch.uint8),
    "pinned": lambda size, _: torch.zeros(size, dtype=torch.uint8).pin_memory(),
    "device": lambda size, device: torch.zeros(size, dtype=torch.uint8, device=device.torch),
}
KINDS = {"copy": Copy}
