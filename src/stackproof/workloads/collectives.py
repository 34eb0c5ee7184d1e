"""Collectives over all ranks of the default group, timed on data that no rank has alone and that tell how often they were exchanged.

algbw is S / t with S the bytes of the whole tensor; busbw is what a link carries: algbw times a factor that depends on the collective
and the number n of ranks (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.distributed as dist

from stackproof.base.toml import OneOf
from stackproof.record.checks import require
from stackproof.workloads.work import FloatingDtype, Setting, Work, name_of

_MIB = 1 << 20
_DRAWN = 7168
"""So many whole numbers are made, and repeated for the rest: a remainder takes longer than a copy."""
_MOST_BYTES = 1 << 29
"""For the results of a block on a rank, where each run has one of its own, and as much for what is sent."""
_NOBODYS = 98.0
"""Even, where all that is sent is odd."""

_FACTORS: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1.0,
    "reduce": lambda _: 1.0,
    "send-recv": lambda _: 1.0,
}


def bus_factor(collective: str, world_size: int) -> float:
    """Return busbw over algbw, by nccl-tests' table; 0 for one rank, which sends nothing."""
    return _FACTORS[collective.replace("_", "-")](world_size) if world_size > 1 else 0.0


@dataclass(frozen=True)
class _Parameters:
    call: Annotated[str, OneOf(tuple(_CALLS))]
    mib: float
    dtype: FloatingDtype


class TimedCollective(Work):
    """One collective on one size: `mib` of the whole tensor. Every number of every run of a block leaves its trace, in one of two ways.

    An all-reduce is called on what it left: the power of the number of ranks by which everything grew counts the runs. Any other call has
    a result of its own for each run. What a rank sends is written anew before each block, with numbers that no run had, so that what
    somebody kept is never right; they have as many digits as stay exact in sums: a call that sends fewer of them shows.
    """

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._call, self._dtype = row.call, row.dtype
        self.device, self.dtype = setting.device, name_of(row.dtype)
        self._rank, self._world = dist.get_rank(), dist.get_world_size()
        part = max(1, int(row.mib * _MIB) // row.dtype.itemsize // self._world)
        self._whole, self._turn, self._first, self._next = part * self._world, 0, 0, 0
        self._bytes = self._whole * row.dtype.itemsize
        self.facts = {"call": self._call}
        self.proof = f"{self._call} of {self._bytes} bytes is exact on {self._world} ranks"
        factor = bus_factor(self._call, self._world)
        over_link = {"GB over a link": factor * self._bytes / 1e9} if factor else {}
        self.worth = {"GB": self._bytes / 1e9, **over_link}
        kind = torch.finfo(row.dtype)
        # The odd part of the number of ranks adds digits to sums of sums with each run: half of all are left to that.
        odd = self._world // (self._world & -self._world)
        digits = 1 - math.log2(kind.eps) - math.log2(self._world) * (1 + (odd > 1))
        self._odd = 2 * int(2 ** (digits / (1 + (odd > 1)) - 1)) - 1
        exact = 2 + int(digits / 2 / math.log2(odd)) if odd > 1 else Work.most_runs
        # Everything grows by the number of ranks with each run: from so many powers of two below one, at most, to as far above.
        self._range = min(100, int(0.75 * min(-math.log2(kind.tiny), math.log2(kind.max) - digits)))
        alone = min(int(2 * self._range / max(1, math.log2(self._world))), exact)
        self.most_runs = alone if self._chained else max(1, min(Work.most_runs, _MOST_BYTES // self._bytes))
        count, size = 1 if self._chained else self.most_runs, part if self._call == "reduce-scatter" else self._whole
        self.buffers = list(torch.empty(count, size, dtype=row.dtype, device=self.device.torch))
        size = {"all-gather": part, "reduce-scatter": self._whole, "all-to-all": self._whole}.get(self._call, 0)
        self.contents = list(torch.empty(count, size, dtype=row.dtype, device=self.device.torch))

    @property
    def _chained(self) -> bool:
        return self._call == "all-reduce"

    def begin(self, runs: int, compared: bool = True) -> None:  # noqa: ARG002 - sums would grow on
        """Write what this rank sends, and what nobody sends where it receives."""
        self._turn, self._first, self._next = 0, self._next, self._next + runs
        if self._chained:
            self.buffers[0].copy_(self._of(self._rank, 0)).mul_(self._scale(runs))
            return
        sends = self._call == "reduce" or (self._call == "broadcast" and self._rank == 0)
        for turn, (buffer, sent) in enumerate(zip(self.buffers[:runs], self.contents, strict=False)):
            own = self._of(self._rank, turn)
            buffer.copy_(own) if sends else buffer.fill_(_NOBODYS)
            sent.copy_(own[len(sent) * self._rank :][: len(sent)] if self._call == "all-gather" else own[: len(sent)])

    def run(self) -> object:
        turn = self._turn % len(self.buffers)
        self._turn += 1
        return _CALLS[self._call](self.buffers[turn], self.contents[turn])

    def verify(self, runs: int) -> None:
        """Hold every element of what the runs left against what the call promises, computed without the backend."""
        self.device.synchronize()
        anything = self._call == "reduce" and self._rank  # a backend may leave there what it likes
        left = [] if anything else self.buffers[:runs]
        right = all(torch.equal(buffer, self._promised(runs, turn)) for turn, buffer in enumerate(left))
        require(right, f"{self._call} of {self._bytes} bytes on {self._world} ranks is wrong after {runs} runs")

    def _scale(self, runs: int) -> float:
        return 2.0 ** -min(self._range, int(runs * math.log2(self._world) / 2))

    def _drawn(self, rank: int, turn: int) -> torch.Tensor:
        """Return what a rank sends in a run of this block, as far as it does not repeat: odd whole numbers of either sign."""
        factor = 0x9E3779B1 * (2 * (rank + self._world * (self._first + turn)) + 1)  # odd, and no other's
        drawn = torch.arange(1, min(_DRAWN, self._whole) + 1, dtype=torch.int64) * factor
        return ((drawn >> 3) % (self._odd + 1) * 2 - self._odd).to(self._dtype)

    def _of(self, rank: int, turn: int) -> torch.Tensor:
        """Return the whole tensor that a rank starts with."""
        return self._repeated(self._drawn(rank, turn))

    def _repeated(self, some: torch.Tensor) -> torch.Tensor:
        return some.to(self.device.torch).repeat(-(-self._whole // len(some)))[: self._whole]

    def _promised(self, runs: int, turn: int) -> torch.Tensor:
        """Return what a run of a block of so many must leave; of an all-reduce, the last."""
        if self._call in _MOVED:
            parts = torch.stack([self._of(rank, turn) for rank in range(self._world)])
            return _MOVED[self._call](parts.view(self._world, self._world, -1), self._rank).flatten()
        total = torch.stack([self._drawn(rank, turn) for rank in range(self._world)]).double().sum(0)
        grown = self._scale(runs) * float(self._world) ** (runs - 1) if self._chained else 1.0
        whole = self._repeated((total * grown).to(self._dtype))
        return whole.view(self._world, -1)[self._rank] if self._call == "reduce-scatter" else whole


_MOVED: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "broadcast": lambda parts, _: parts[0],
    "all-gather": lambda parts, _: parts.diagonal().T,
    "all-to-all": lambda parts, rank: parts[:, rank],
}
"""What a rank has in the end, of (rank, part of it, number)."""
_CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "all-reduce": lambda own, _: dist.all_reduce(own),
    "broadcast": lambda own, _: dist.broadcast(own, 0),
    "reduce": lambda own, _: dist.reduce(own, 0),
    "all-gather": lambda own, sent: dist.all_gather_into_tensor(own, sent),
    "reduce-scatter": lambda own, sent: dist.reduce_scatter_tensor(own, sent),
    "all-to-all": lambda own, sent: dist.all_to_all_single(own, sent),
}
