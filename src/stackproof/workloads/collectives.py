"""Collectives over all ranks of the default group, timed on data that no rank has alone and that tell how often they were exchanged.

algbw is S / t with S the bytes of the whole tensor; busbw is what a link carries: algbw times a factor that depends on the collective
and the number n of ranks (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Annotated

import torch
import torch.distributed as dist

from stackproof.base.toml import OneOf
from stackproof.operators.relation import word
from stackproof.record.checks import require
from stackproof.workloads.work import FloatingDtype, Setting, Work

_MIB = 1 << 20
_DRAWN = 7168
"""So many whole numbers are drawn for a block, and repeated for the rest: drawing takes longer than a copy."""
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
    """One collective on one size: `mib` of the whole tensor. Every number of every run of a block leaves its trace.

    Each run has an input and a result of its own. What a rank sends is written anew before each block, with numbers that no run had, so
    that what somebody kept is never right; they have as many digits as stay exact in sums: a call that sends fewer of them shows.
    """

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._call, self._dtype = row.call, row.dtype
        self.device, self.dtype = setting.device, word(row.dtype)
        self._rank, self._world = dist.get_rank(), dist.get_world_size()
        part = max(1, int(row.mib * _MIB) // row.dtype.itemsize // self._world)
        self._whole, self._block = part * self._world, 0
        self._bytes = self._whole * row.dtype.itemsize
        self.facts = {"call": self._call}
        self.proof = f"{self._call} of {self._bytes} bytes is exact on {self._world} ranks"
        factor = bus_factor(self._call, self._world)
        over_link = {"GB over a link": factor * self._bytes / 1e9} if factor else {}
        self.worth = {"GB": self._bytes / 1e9, **over_link}
        self._odd = 2 * int(1 / torch.finfo(row.dtype).eps / self._world) - 1
        self.most_runs = max(1, min(Work.most_runs, _MOST_BYTES // self._bytes))
        size = part if self._call == "reduce-scatter" else self._whole
        self.buffers = list(torch.empty(self.most_runs, size, dtype=row.dtype, device=self.device.torch))
        size = {"all-gather": part, "reduce-scatter": self._whole, "all-to-all": self._whole}.get(self._call, 0)
        self.contents = list(torch.empty(self.most_runs, size, dtype=row.dtype, device=self.device.torch))

    def begin(self, runs: int, compared: bool = True) -> None:  # noqa: ARG002 - sums would grow on
        """Write what this rank sends, and what nobody sends where it receives."""
        self._block += 1
        numbers = self._numbers(self._drawn(self._rank)[None])[0]
        sends = self._call in ("all-reduce", "reduce") or (self._call == "broadcast" and self._rank == 0)
        for turn, (buffer, sent) in enumerate(zip(self.buffers[:runs], self.contents, strict=False)):
            own = numbers[turn : turn + self._whole]
            buffer.copy_(own) if sends else buffer.fill_(_NOBODYS)
            sent.copy_(own[len(sent) * self._rank :][: len(sent)] if self._call == "all-gather" else own[: len(sent)])

        call = _CALLS[self._call]  # made ready: a small collective takes little longer than queueing it
        self._calls = cycle(
            [partial(call, buffer, sent) for buffer, sent in zip(self.buffers, self.contents, strict=True)]
        )

    def run(self) -> object:
        return next(self._calls)()

    def verify(self, runs: int) -> None:
        """Hold every element of what the runs left against what the call promises, computed without the backend."""
        self.device.synchronize()
        anything = self._call == "reduce" and self._rank  # a backend may leave there what it likes
        left = [] if anything else self.buffers[:runs]
        drawn = torch.stack([self._drawn(rank) for rank in range(self._world)])
        numbers = self._numbers(drawn.sum(0, keepdim=True) if self._call in _SUMS else drawn)
        for turn, buffer in enumerate(left):
            parts = numbers[:, turn : turn + self._whole].reshape(len(numbers), self._world, -1)
            right = torch.equal(buffer, _PROMISED[self._call](parts, self._rank).flatten())
            require(right, f"{self._call} of {self._bytes} bytes on {self._world} ranks is wrong after {runs} runs")

    def _drawn(self, rank: int) -> torch.Tensor:
        """Return what a rank sends in this block, as far as it does not repeat: odd whole numbers of either sign, exact in sums."""
        seeded = torch.Generator().manual_seed(rank + self._world * self._block)
        return (
            torch.randint(self._odd + 1, (min(_DRAWN, self._whole + self.most_runs),), generator=seeded) * 2 - self._odd
        )

    def _numbers(self, drawn: torch.Tensor) -> torch.Tensor:
        """Repeat what ranks drew: a run has those of the whole tensor from its own turn on."""
        times = -(-(self._whole + self.most_runs) // drawn.shape[1])
        return drawn.to(self._dtype).to(self.device.torch).repeat(1, times)


_SUMS = ("all-reduce", "reduce", "reduce-scatter")
_PROMISED: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "all-reduce": lambda parts, _: parts[0],
    "broadcast": lambda parts, _: parts[0],
    "reduce": lambda parts, _: parts[0],
    "all-gather": lambda parts, _: parts.diagonal().T,
    "reduce-scatter": lambda parts, rank: parts[0, rank],
    "all-to-all": lambda parts, rank: parts[:, rank],
}
"""What a rank has in the end, of (rank that sent, or the sum of all; part; number)."""
_CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "all-reduce": lambda own, _: dist.all_reduce(own),
    "broadcast": lambda own, _: dist.broadcast(own, 0),
    "reduce": lambda own, _: dist.reduce(own, 0),
    "all-gather": lambda own, sent: dist.all_gather_into_tensor(own, sent),
    "reduce-scatter": lambda own, sent: dist.reduce_scatter_tensor(own, sent),
    "all-to-all": lambda own, sent: dist.all_to_all_single(own, sent),
}
