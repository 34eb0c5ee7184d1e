"""Copies of memory: within the device, and between host and device from pinned and from pageable memory."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.base import Setting, Work

_MIB = 1 << 20


class Copy(Work):
    """One block copied into another; `source` and `target` are "host", "pinned" or "device".

    Within the device the bytes read and the bytes written both count (as STREAM counts, https://www.cs.virginia.edu/stream/ref.html);
    between host and device each byte crosses the link once and counts once.
    """

    dtype = "uint8"

    def __init__(self, setting: Setting) -> None:
        with setting.parameters as row:
            size = row.take("mib", int) * _MIB
            source, target = (row.take(end, str, allowed=tuple(_PLACES)) for end in ("source", "target"))
        self.device, self._passes = setting.device, 2 if source == target else 1
        self.source = _PLACES[source](size, setting.device)
        self.target = _PLACES[target](size, setting.device)
        self.source.copy_(_pattern(size))

    @property
    def worth(self) -> Mapping[str, float]:
        """GB of 1e9 bytes."""
        return {"GB": self._passes * self.source.numel() / 1e9}

    def conclude(self) -> Mapping[str, Figure]:
        """Say what the bytes went through."""
        return {"memory": "device" if self._passes == 2 else "link"}

    def run(self) -> torch.Tensor:
        """Queue the copy."""
        return self.target.copy_(self.source, non_blocking=True)

    def prove(self) -> str:
        """Every byte arrives."""
        self.target.fill_(255)
        self.run()
        self.device.synchronize()
        expected = _pattern(self.source.numel())
        require(torch.equal(self.target.cpu(), expected), f"a copy of {expected.numel()} bytes changed some of them")
        return f"{expected.numel()} bytes arrived unchanged"


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
