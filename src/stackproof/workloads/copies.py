"""Copies of memory: within the device, and between host and device from pinned and from pageable memory."""

from __future__ import annotations

from collections.abc import Mapping
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
        self._turned = False
        self._expected = {False: checksum(pattern), True: checksum(pattern.bitwise_not_())}

    @property
    def worth(self) -> Mapping[str, float]:
        """GB of 1e9 bytes."""
        return {"GB": self._passes * self.source.numel() / 1e9}

    def conclude(self) -> Mapping[str, Figure]:
        """Look at the last copy and at one more; say what the bytes went through."""
        self.again()
        return {"memory": "device" if self._passes == 2 else "link"}

    def run(self) -> torch.Tensor:
        """Queue the copy."""
        return self.target.copy_(self.source, non_blocking=True)

    def prove(self) -> str:
        """Every byte arrives, and none is changed where it came from."""
        self.spoil()
        self.run()
        self.verify()
        return f"{self.source.numel()} bytes arrived unchanged"

    def verify(self) -> None:
        """Hold checksums of both ends, in which each eight bytes weigh by their place, against what was written."""
        self.device.synchronize()
        expected = self._expected[self._turned]
        found = {"changed some of them": checksum(self.target), "changed some of its source": checksum(self.source)}
        for what, seen in found.items():
            require(seen == expected, f"a copy of {self.source.numel()} bytes {what}")

    def spoil(self) -> None:
        """Turn every bit of the source; no byte of the target is what it will be."""
        self.source.bitwise_not_()
        self.target.copy_(self.source).bitwise_not_()
        self._turned = not self._turned


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


def _host(size: int, _: Device) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8, device=HOST.torch)


def _pinned(size: int, _: Device) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8, device=HOST.torch).pin_memory()


def _device(size: int, device: Device) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8, device=device.torch)


_PLACES = {"host": _host, "pinned": _pinned, "device": _device}
KINDS = {"copy": Copy}
