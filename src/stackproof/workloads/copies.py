"""Copies of memory: within the device, and between host and device from pinned and from pageable memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from stackproof.base.toml import OneOf
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.work import Setting, Work

_MIB = 1 << 20


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
    """

    dtype = "uint8"

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        size, source, target = row.mib * _MIB, row.source, row.target
        self.device, self._passes = setting.device, 2 if source == target else 1
        self.source = _PLACES[source](size, setting.device)
        self.target = _PLACES[target](size, setting.device)
        pattern = _pattern(size)
        self.source.copy_(pattern)
        self._turned, self._sums = False, sums(pattern)
        self._reference = pattern.to(self.target.device, copy=True)
        """What the target must hold, on the same device, turned with the source."""

    @property
    def worth(self) -> Mapping[str, float]:
        """GB of 1e9 bytes."""
        return {"GB": self._passes * self.source.numel() / 1e9}

    def conclude(self) -> Mapping[str, Figure]:
        """Look at the last copy; then at one more, byte by byte, and at the source; say what the bytes went through."""
        self.verify()
        self.poison_output()
        self.run()
        self._exact()
        return {"memory": "device" if self._passes == 2 else "link"}

    def run(self) -> torch.Tensor:
        """Queue the copy."""
        return self.target.copy_(self.source, non_blocking=True)

    def prove(self) -> str:
        """Every byte arrives, and none is changed where it came from."""
        self.poison_output()
        self.run()
        self._exact()
        return f"{self.source.numel()} bytes arrived unchanged"

    def verify(self) -> None:
        """Hold the sums of all groups of bytes that arrived, and an eighth of them byte by byte, against what was written."""
        self.device.synchronize()
        self._summed(self.target, "changed some of them")
        step = self.source.numel() // _PARTS
        start = random.randrange(_PARTS) * step
        self._equal(slice(start, start + step))

    def _exact(self) -> None:
        self.device.synchronize()
        self._equal(slice(None))
        self._summed(self.source, "changed some of its source")

    def _equal(self, part: slice) -> None:
        left, right = (block[part].view(torch.int64) for block in (self.target, self._reference))
        self._require(torch.equal(left, right), "changed some of them")

    def _summed(self, block: torch.Tensor, what: str) -> None:
        expected = -_GROUP - self._sums if self._turned else self._sums  # not x is -1 - x
        self._require(torch.equal(sums(block), expected), what)

    def _require(self, right: bool, what: str) -> None:
        require(right, f"a copy of {self.source.numel()} bytes {what}")

    def outputs(self) -> Sequence[torch.Tensor]:
        """The tensor that each run overwrites."""
        return (self.target,)

    def poison_output(self) -> None:
        """Turn every bit of the source; no byte of the target is what it will be, if it is what it was."""
        self.source.bitwise_not_()
        self._reference.bitwise_not_()
        self._turned = not self._turned

    def fresh_inputs(self) -> bool:
        """Add a number that chance picks to an eighth of the source."""
        self.source.view(torch.int64).chunk(_PARTS)[random.randrange(_PARTS)].add_(random.randrange(1, 1 << 62))
        return True


_PARTS = 8
_GROUP = 256  # numbers of eight bytes in a sum: 2 KiB


def sums(block: torch.Tensor) -> torch.Tensor:
    """Return the sum modulo 2**64 of each 2 KiB, as numbers of eight bytes: exact on every device, and one pass over memory."""
    return block.view(torch.int64).view(-1, _GROUP).sum(1).cpu()


_STEP = 1 << 22  # numbers of eight bytes weighed at once: 32 MiB


def checksum(block: torch.Tensor) -> int:
    """Return the sum modulo 2**64 of every eight bytes times a weight that belongs to their place: exact on every device."""
    words, total = block.view(torch.int64), 0
    for start in range(0, words.numel(), _STEP):
        part = words[start : start + _STEP]
        places = torch.arange(start, start + part.numel(), dtype=torch.int64, device=block.device)
        total += int((places.mul_(0x1E3779B97F4A7C15).bitwise_or_(1).mul_(part)).sum())
    return total % (1 << 64)


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
