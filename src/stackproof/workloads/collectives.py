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
_PERIOD = 7
"""Values are small whole numbers, exact in every dtype and in every order of summing."""
_PERIODS = 1024
"""So many are computed, and repeated for the rest: a remainder takes longer than a copy."""
_MOST_BYTES = 1 << 30
"""For the results of a block on a rank, where each run has one of its own."""
_RING = 3
_NOBODYS = 99.0

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
    """One collective on one size: `mib` of the whole tensor. Every number of every run of a block leaves its trace, in one of three ways.

    An all-reduce is called on what it left: the power of the number of ranks by which everything grew counts the runs. All-gather and
    all-to-all go around a ring of three buffers with two contents, as copies do: each run changes all of one, and a run that is left out
    loses a content. Where ranks receive and never send on (broadcast, reduce, reduce-scatter) each run has a result of its own.
    """

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._call, self._dtype = row.call, row.dtype
        self.device, self.dtype = setting.device, name_of(row.dtype)
        self._rank, self._world = dist.get_rank(), dist.get_world_size()
        self._part = max(1, int(row.mib * _MIB) // row.dtype.itemsize // self._world)
        self._whole, self._turn = self._part * self._world, 0
        self._bytes = self._whole * row.dtype.itemsize
        self.facts = {"call": self._call}
        self.proof = f"{self._call} of {self._bytes} bytes is exact on {self._world} ranks"
        factor = bus_factor(self._call, self._world)
        over_link = {"GB over a link": factor * self._bytes / 1e9} if factor else {}
        self.worth = {"GB": self._bytes / 1e9, **over_link}
        count = {"all-reduce": 1, "all-gather": _RING, "all-to-all": _RING}.get(self._call, 0)
        # Sums of sums grow by the number of ranks with each run: from so many powers of two below one, at most, to as far above.
        self._range = min(100, int(-0.75 * math.log2(torch.finfo(row.dtype).tiny)))
        if self._call == "all-reduce":
            self.most_runs = min(int(2 * self._range / max(1, math.log2(self._world))), self._exact_runs())
        elif not count:
            self.most_runs = count = max(1, min(Work.most_runs, _MOST_BYTES // self._bytes))
        size = self._part if self._call == "reduce-scatter" else self._whole
        self.buffers = list(torch.empty(count, size, dtype=row.dtype, device=self.device.torch))
        self._sent = self._of(self._rank).to(self.device.torch)
        # Any rank's numbers are others in both.
        self._contents = [self._sent, self._sent + 16] if count == _RING else []

    def _exact_runs(self) -> int:
        """Return for how many runs sums of sums stay exact, in any order: the odd part of the number of ranks adds digits each time."""
        odd = self._world // (self._world & -self._world)
        digits = 1 - math.log2(torch.finfo(self._dtype).eps) - math.log2(_PERIOD // 2 * self._world**2)
        return max(1, 2 + math.floor(digits / math.log2(odd))) if odd > 1 else Work.most_runs

    def begin(self, runs: int, held: bool = True) -> None:  # noqa: ARG002 - sums would grow on
        """Write what this rank sends, and what nobody sends where it receives."""
        self._turn = 0
        if self._call == "all-reduce":
            torch.mul(self._sent, self._scale(runs), out=self.buffers[0])
            return
        if self._contents:
            for buffer, content in zip(self.buffers[1:], self._contents, strict=True):
                buffer.copy_(content)
            self.buffers[0].fill_(_NOBODYS)
            return
        sends = self._call == "reduce" or (self._call == "broadcast" and self._rank == 0)
        for buffer in self.buffers[:runs]:
            buffer.copy_(self._sent) if sends else buffer.fill_(_NOBODYS)

    def run(self) -> object:
        turn, self._turn = self._turn, self._turn + 1
        return _CALLS[self._call](
            self, self.buffers[turn % len(self.buffers)], self.buffers[(turn + 1) % len(self.buffers)]
        )

    def verify(self, runs: int) -> None:
        """Hold every element of what the runs left against what the call promises, computed without the backend."""
        self.device.synchronize()
        for buffer, expected in self._promised(runs):
            right = torch.equal(buffer.cpu(), expected)
            require(right, f"{self._call} of {self._bytes} bytes on {self._world} ranks is wrong after {runs} runs")

    def _scale(self, runs: int) -> float:
        return 2.0 ** -min(self._range, int(runs * math.log2(self._world) / 2))

    def _of(self, rank: int) -> torch.Tensor:
        """Return the whole tensor that a rank starts with, on the CPU."""
        places = torch.arange(_PERIODS * _PERIOD, dtype=torch.int32)
        some = ((places * (rank + 1) + rank) % _PERIOD - 3).to(self._dtype)
        return some.repeat(-(-self._whole // len(some)))[: self._whole]

    def _promised(self, runs: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return buffers, and what each must hold after so many runs."""
        everyone = [self._of(rank) for rank in range(self._world)]
        part = slice(self._part * self._rank, self._part * (self._rank + 1))
        if self._call == "all-reduce":
            factor = self._scale(runs) * float(self._world) ** (runs - 1)
            return [(self.buffers[0], (sum(everyone[1:], everyone[0]).double() * factor).to(self._dtype))]
        if self._call in _MOVED:  # play the ring for all ranks: which content each buffer has, and how it was moved
            states: list[list[torch.Tensor] | None] = [None, everyone, [tensor + 16 for tensor in everyone]]
            for turn in range(runs):
                if (source := states[(turn + 1) % _RING]) is not None:
                    states[turn % _RING] = _MOVED[self._call](source, self._part)
            both = zip(self.buffers, states, strict=True)
            return [(buffer, state[self._rank]) for buffer, state in both if state is not None]
        if self._call == "reduce" and self._rank:
            return []  # a backend may use what the other ranks sent as it likes
        total = everyone[0] if self._call == "broadcast" else sum(everyone[1:], everyone[0])
        return [(buffer, total[part] if self._call == "reduce-scatter" else total) for buffer in self.buffers[:runs]]


def _gathered(whole: list[torch.Tensor], part: int) -> list[torch.Tensor]:
    """Each rank sends the part after its own, so that parts move on."""
    world = len(whole)
    sent = [tensor.view(world, part)[(rank + 1) % world] for rank, tensor in enumerate(whole)]
    return [torch.cat(sent)] * world


def _exchanged(whole: list[torch.Tensor], part: int) -> list[torch.Tensor]:
    split = torch.stack(whole).view(len(whole), len(whole), part)
    return list(split.transpose(0, 1).reshape(len(whole), -1))


_MOVED = {"all-gather": _gathered, "all-to-all": _exchanged}
_CALLS: dict[str, Callable[[TimedCollective, torch.Tensor, torch.Tensor], object]] = {
    "all-reduce": lambda _, own, __: dist.all_reduce(own),
    "broadcast": lambda _, own, __: dist.broadcast(own, 0),
    "reduce": lambda _, own, __: dist.reduce(own, 0),
    "all-gather": lambda work, own, other: dist.all_gather_into_tensor(
        own, other.view(work._world, -1)[(work._rank + 1) % work._world]
    ),
    "reduce-scatter": lambda work, own, _: dist.reduce_scatter_tensor(own, work._sent),
    "all-to-all": lambda _, own, other: dist.all_to_all_single(own, other),
}
