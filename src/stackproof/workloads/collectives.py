"""Collectives over all ranks of the default group, verified on data that no rank has alone, then timed.

algbw is S / t with S the bytes of the whole tensor; busbw is what a link carries: algbw times a factor that depends on the collective
and the number n of ranks (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.distributed as dist

from stackproof.base.toml import OneOf
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.work import FloatingDtype, Setting, Work, name_of

_MIB = 1 << 20
_PERIOD = 7
"""Values are small whole numbers, exact in every dtype and in every order of summing."""
_PERIODS = 1024
"""So many are computed, and repeated for the rest: a remainder takes longer than a copy."""

_MOST_BYTES = 1 << 30
"""For the data of runs to come on a rank: a number that all ranks agree on."""

_IN_PLACE = ("all-reduce", "reduce")
"""Calls whose result is the next call's data, and sums of sums would leave the range: a run that `ready` knew of has a tensor of its own
with this rank's data, any other is on zeros."""

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
    """One collective on one size: `mib` of the whole tensor."""

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._call, mib, dtype = row.call, row.mib, row.dtype
        self.device, self.dtype = setting.device, name_of(dtype)
        self._rank, self._world = dist.get_rank(), dist.get_world_size()
        width = torch.empty((), dtype=dtype).element_size()
        self._part = max(1, int(mib * _MIB) // width // self._world)
        whole = self._part * self._world
        self._turn, self._calls, self._zero = 0, 0, False
        self._kept: torch.Tensor | None = None
        self._bytes = whole * width
        place = self.device.torch
        self._longs = [torch.empty(whole, dtype=dtype, device=place)]
        self._mine = torch.empty(whole, dtype=dtype, device=place)
        self._short = torch.empty(self._part, dtype=dtype, device=place)
        self._other = torch.empty(whole, dtype=dtype, device=place)

    @property
    def worth(self) -> Mapping[str, float]:
        """GB of the whole tensor, and GB that cross a link; a single rank sends nothing."""
        factor = bus_factor(self._call, self._world)
        over_link = {"GB over a link": factor * self._bytes / 1e9} if factor else {}
        return {"GB": self._bytes / 1e9, **over_link}

    def conclude(self) -> Mapping[str, Figure]:
        """Look at what the last timed call left, then at one more on fresh data; say which collective it was."""
        return {**super().conclude(), "call": self._call}

    @property
    def _long(self) -> torch.Tensor:
        """The whole tensor of the run that is next, or of the last one."""
        return self._longs[max(0, self._calls - 1) % len(self._longs)]

    def run(self) -> None:
        """Call it once."""
        self._calls += 1
        _CALLS[self._call](self)

    def ready(self, runs: int) -> None:
        """Give each of the coming runs this rank's data again, where the last ones wrote over them; zeros, where there is no room."""
        if self._call not in _IN_PLACE:
            return
        self._calls, self._zero = 0, runs * self._bytes > _MOST_BYTES
        if self._zero:
            for one in self._longs:
                one.zero_()
            return
        self._longs += [torch.empty_like(self._mine) for _ in range(runs - len(self._longs))]
        for one in self._longs:
            one.copy_(self._mine)

    def prove(self) -> str:
        """Every rank gets what the collective promises, computed without the backend."""
        self.poison_output()
        self.run()
        self.verify()
        if self._call in _IN_PLACE:
            self._longs[0].zero_()
            self._zero = True
        return f"{self._call} of {self._bytes} bytes is exact on {self._world} ranks"

    def verify(self) -> None:
        """Hold every element that the last runs left against what the call promises: of each run that has a tensor of its own."""
        self.device.synchronize()
        found, expected = self._received(), self._promised()
        expected = torch.zeros_like(expected) if self._zero else expected
        seen = self._longs[: self._calls] if found is self._long and self._call in _IN_PLACE else [found]
        right = all(torch.equal(one.cpu(), expected) for one in seen)
        require(right, f"{self._call} of {self._bytes} bytes on {self._world} ranks is wrong")

    def begin_spot_check(self) -> bool:
        """Give every rank data that no call had."""
        self.poison_output()
        return True

    def end_spot_check(self) -> None:
        """Hold every element."""
        self.verify()

    def poison_output(self) -> None:
        """Give every rank other data than before, and what receives a value that nobody sends."""
        self._turn += 1
        self._fill()

    def _of(self, rank: int) -> torch.Tensor:
        """Return the whole tensor that a rank starts with, on the CPU."""
        places, whole = torch.arange(_PERIODS * _PERIOD, dtype=torch.int32), self._part * self._world
        some = ((places * (rank + 1) + self._turn) % _PERIOD - 3).to(self._long.dtype)
        return some.repeat(-(-whole // len(some)))[:whole]

    def _fill(self) -> None:
        """Fill what is sent with this rank's data, and what is received with a value that nobody sends."""
        self._mine.copy_(self._of(self._rank))
        self._calls, self._zero, self._kept = 0, False, None
        for one in self._longs:
            one.copy_(self._mine)
        self._short.copy_(self._mine[self._part * self._rank : self._part * (self._rank + 1)])
        if self._call == "reduce-scatter":
            self._short.fill_(99.0)
        self._other.fill_(99.0)

    def _received(self) -> torch.Tensor:
        """Return what this rank holds its result in, or what a call must have left alone."""
        if self._call in ("all-reduce", "broadcast") or (self._call == "reduce" and self._rank == 0):
            return self._long
        return self._short if self._call in ("reduce", "reduce-scatter") else self._other

    def _promised(self) -> torch.Tensor:
        """Return what this rank should hold, computed once for the data that are there now."""
        if self._kept is None:
            everyone = [self._of(rank) for rank in range(self._world)]
            part = slice(self._part * self._rank, self._part * (self._rank + 1))
            results: dict[str, Callable[[], torch.Tensor]] = {
                "all-reduce": lambda: sum(everyone[1:], everyone[0]),
                "broadcast": lambda: everyone[0],
                "reduce": lambda: sum(everyone[1:], everyone[0]) if self._rank == 0 else everyone[self._rank][part],
                "all-gather": lambda: torch.cat([_part_of(one, rank, self._part) for rank, one in enumerate(everyone)]),
                "reduce-scatter": lambda: sum(everyone[1:], everyone[0])[part],
                "all-to-all": lambda: torch.cat([one[part] for one in everyone]),
            }
            self._kept = results[self._call]()
        return self._kept


def _part_of(whole: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    return whole[rank * size : (rank + 1) * size]


_CALLS: dict[str, Callable[[TimedCollective], object]] = {
    "all-reduce": lambda work: dist.all_reduce(work._long),
    "broadcast": lambda work: dist.broadcast(work._long, 0),
    "reduce": lambda work: dist.reduce(work._long, 0),
    "all-gather": lambda work: dist.all_gather_into_tensor(work._other, work._short),
    "reduce-scatter": lambda work: dist.reduce_scatter_tensor(work._short, work._long),
    "all-to-all": lambda work: dist.all_to_all_single(work._other, work._long),
}
