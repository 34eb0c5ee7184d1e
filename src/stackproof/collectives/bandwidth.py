"""Bandwidth of collectives by size, on the slowest rank, with the timed buffers verified after every span of calls.

Sizes and bus factors are those of nccl-tests (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): `algbw` is size
over time, `busbw` scales it so that it can be held against the links whatever the number of ranks. Stored are seconds per GB of either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from stackproof.base.text import error_line
from stackproof.collectives.calls import GUARD, fold, values
from stackproof.collectives.rank import Board
from stackproof.ranks.exact import timed
from stackproof.ranks.rank import Rank

_KIB = 1024
SMALLEST = 4 * _KIB
LARGEST = {"tiny": 16 * _KIB**2, "full": 256 * _KIB**2}
_STEP = 4
_PERIOD = 65521  # a prime: no chunk of a backend's begins with the same numbers as the one before

_WARM_UP = 3
_SPAN_S = 5e-3
_BUDGET_S = 0.2
_SPANS = (5, 15)
_MOST_CALLS = 50


@dataclass
class Buffers:
    """Tensors of one size on one rank's device: passed in, where the result arrives, and what both must be before and after a call."""

    mine: torch.Tensor
    out: torch.Tensor
    source: torch.Tensor
    expected: torch.Tensor

    def fill(self) -> None:
        """Set the buffers as they are before a span; the result holds nothing right."""
        self.out.fill_(GUARD)
        self.mine.copy_(self.source)

    def wrong(self, scale: float) -> int:
        """Return how many numbers of the result are not `scale` times what one call makes."""
        return int((self.out != self.expected * scale).sum())


@dataclass(frozen=True)
class Share:
    """A rank's part in a transfer of so many elements for each peer."""

    rank: int
    world: int
    count: int
    device: torch.device

    def numbers(self, rank: int, part: int, parts: int = 1) -> torch.Tensor:
        """Return small whole numbers that a rank has for the peers from `part` on, on the device."""
        few = [values("sum", torch.float32, _PERIOD, rank, part + more, 0, self.world) for more in range(parts)]
        long = [numbers.repeat(-(-self.count // _PERIOD))[: self.count] for numbers in few]
        return torch.cat(long).to(self.device)

    def out_of_place(self, source: torch.Tensor, expected: torch.Tensor) -> Buffers:
        """Return buffers whose result arrives elsewhere."""
        return Buffers(torch.empty_like(source), torch.empty_like(expected), source, expected)

    def in_place(self, source: torch.Tensor, expected: torch.Tensor) -> Buffers:
        """Return buffers whose result takes the place of what was passed in."""
        buffer = torch.empty_like(source)
        return Buffers(buffer, buffer, source, expected)


def _all_reduce(share: Share) -> Buffers:
    ranks = [share.numbers(rank, 0, share.world) for rank in range(share.world)]
    return share.in_place(ranks[share.rank], fold("sum", ranks))


def _broadcast(share: Share) -> Buffers:
    return share.in_place(share.numbers(share.rank, 0, share.world), share.numbers(0, 0, share.world))


def _all_gather(share: Share) -> Buffers:
    everyone = torch.cat([share.numbers(rank, 0) for rank in range(share.world)])
    return share.out_of_place(share.numbers(share.rank, 0), everyone)


def _reduce_scatter(share: Share) -> Buffers:
    mine = fold("sum", [share.numbers(rank, share.rank) for rank in range(share.world)])
    return share.out_of_place(share.numbers(share.rank, 0, share.world), mine)


def _all_to_all(share: Share) -> Buffers:
    theirs = torch.cat([share.numbers(rank, share.rank) for rank in range(share.world)])
    return share.out_of_place(share.numbers(share.rank, 0, share.world), theirs)


def _ring(share: Share) -> Buffers:
    before = (share.rank - 1) % share.world
    return share.out_of_place(share.numbers(share.rank, 0, share.world), share.numbers(before, 0, share.world))


def _send_to_next(buffers: Buffers) -> None:
    after, before = (dist.get_rank() + 1) % dist.get_world_size(), (dist.get_rank() - 1) % dist.get_world_size()
    steps = [dist.P2POp(dist.isend, buffers.mine, after), dist.P2POp(dist.irecv, buffers.out, before)]
    for work in dist.batch_isend_irecv(steps):
        work.wait()


@dataclass(frozen=True)
class Transfer:
    """One collective: its buffers, its call; `grows`: each call multiplies by the world size."""

    buffers: Callable[[Share], Buffers]
    call: Callable[[Buffers], Any]
    row: str
    """The check of exactness that it builds on."""
    grows: bool = False


TRANSFERS = {
    "all_reduce": Transfer(_all_reduce, lambda at: dist.all_reduce(at.mine), "all_reduce-sum", grows=True),
    "all_gather": Transfer(
        _all_gather, lambda at: dist.all_gather_into_tensor(at.out, at.mine), "all_gather_into_tensor-copy"
    ),
    "reduce_scatter": Transfer(
        _reduce_scatter, lambda at: dist.reduce_scatter_tensor(at.out, at.mine), "reduce_scatter_tensor-sum"
    ),
    "all_to_all": Transfer(_all_to_all, lambda at: dist.all_to_all_single(at.out, at.mine), "all_to_all_single-copy"),
    "broadcast": Transfer(_broadcast, lambda at: dist.broadcast(at.mine, 0), "broadcast-copy"),
    "send_recv": Transfer(_ring, _send_to_next, "batch_isend_irecv-copy"),
}


def sizes(preset: str) -> list[int]:
    """Return the sizes in bytes, each four times the one before."""
    steps = round(math.log(LARGEST[preset] / SMALLEST, _STEP))
    return [SMALLEST * _STEP**power for power in range(steps + 1)]


def words(size: int) -> str:
    """Return a size as people say it."""
    return f"{size // _KIB**2} MiB" if size >= _KIB**2 else f"{size // _KIB} KiB"


def per_gb(spans: Sequence[float], size: int, factor: float = 1.0) -> list[float]:
    """Return seconds per 10^9 bytes for calls that moved `size` bytes: of algbw, or of busbw with its factor."""
    return [one / (size * factor / 1e9) for one in spans]


def most_calls(world: int) -> int:
    """Return how many sums in place stay exact in float32: 24 bits for the odd factor of n^calls, 127 powers of two."""
    odd = world // (world & -world)
    digits = (24 - 3 - math.log2(world)) / math.log2(odd) if odd > 1 else math.inf
    powers = 120 / math.log2(world) if world > 1 else math.inf
    return max(1, int(min(digits, powers, _MOST_CALLS)))


def measure(rank: Rank) -> dict[str, Any]:
    """Return for each transfer and size: bytes, calls in a span, seconds of one call in each span on this rank, and wrong numbers.

    A transfer that the backend refuses has one entry with `refused`, what it said; the others are measured all the same.
    Arguments (of the specification): transfers (names), sizes (bytes).
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for name in rank.arguments["transfers"]:
        found[name] = _refused(rank, name) or [_sized(rank, name, size) for size in rank.arguments["sizes"]]
    return {"rank": rank.rank, "backend": rank.backend, "transfers": found}


def _sized(rank: Rank, name: str, size: int) -> dict[str, Any]:
    rank.phase(f"{name}, {words(size)}")
    return one_size(rank, name, size)


def _refused(rank: Rank, name: str) -> list[dict[str, Any]]:
    """Call once on a few bytes: what a backend does not offer it refuses on every rank, before anything is sent."""
    rank.phase(f"{name}, asked once")
    transfer = TRANSFERS[name]
    try:
        transfer.call(transfer.buffers(Share(rank.rank, rank.world_size, 1, rank.device.torch)))
    except (RuntimeError, ValueError, IndexError, NotImplementedError) as error:
        return [{"refused": error_line(error)}]
    rank.device.synchronize()
    return []


def one_size(rank: Rank, name: str, size: int) -> dict[str, Any]:
    """Time spans of calls back to back; a span's data are set before it and compared after it.

    Returns size and bytes (of the whole tensor), calls in a span, seconds of one call by span, and how many numbers were wrong.
    """
    transfer = TRANSFERS[name]
    count = size // 4 // rank.world_size
    buffers = transfer.buffers(Share(rank.rank, rank.world_size, count, rank.device.torch))
    single = [_span(rank, transfer, buffers, 1) for _ in range(_WARM_UP)]
    limit = most_calls(rank.world_size) if transfer.grows else _MOST_CALLS
    calls, spans = _agreed(rank, f"{name} {size}", min(one for one, _ in single), limit)
    found = [_span(rank, transfer, buffers, calls) for _ in range(spans)]
    wrong = max(bad for _, bad in (*single, *found))
    each = [span / calls for span, _ in found]
    return {"size": size, "bytes": 4 * count * rank.world_size, "calls": calls, "seconds": each, "wrong": wrong}


def _span(rank: Rank, transfer: Transfer, buffers: Buffers, calls: int) -> tuple[float, int]:
    """Return the seconds of so many calls, and how many numbers are wrong after them."""
    buffers.fill()
    spent = timed(rank, lambda: transfer.call(buffers), calls)
    return spent, buffers.wrong(float(rank.world_size) ** (calls - 1) if transfer.grows else 1.0)


def _agreed(rank: Rank, key: str, single: float, limit: int) -> tuple[int, int]:
    """Return calls in a span and spans, as rank 0 decides from what one call took it; told through the store."""
    board = Board(f"bandwidth {key}")
    if rank.rank == 0:
        calls = max(1, min(limit, math.ceil(_SPAN_S / max(single, 1e-9))))
        spans = int(max(_SPANS[0], min(_SPANS[1], _BUDGET_S / max(calls * single, 1e-9))))
        board.tell(f"{calls} {spans}")
    calls, spans = map(int, board.told().split())
    return calls, spans
