"""The collectives of torch.distributed: the data of every rank, how each is called, and what each rank must then hold.

The data make each result exact in its dtype whatever the order of the reduction. A failing case is printed with the source of its
functions, so they need nothing but torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist

LONG = (1 << 20) + 3
"""Elements of a long tensor: odd, and more than any backend's smallest chunk."""
LARGEST = (1 << 22) + 3
"""Elements of the longest tensor: libraries cut above 2^21 or 2^22 elements into several chunks, channels or calls."""
SPREAD = 65521
MOST_RANKS = 16
"""Sums and means of so many ranks are still exact in bfloat16, whose significand has eight bits."""
GUARD = 77


@functools.cache
def noise(length: int) -> torch.Tensor:
    """Return numbers of 64 bits that look random and are the same in every torch (the mixing steps of SplitMix64)."""
    bits = torch.arange(1, length + SPREAD + 1) * -7046029254386353131
    bits = (bits ^ ((bits >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    bits = (bits ^ ((bits >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return bits ^ ((bits >> 31) & ((1 << 33) - 1))


def values(kind: str, dtype: torch.dtype, count: int, rank: int, part: int, case: int, world: int) -> torch.Tensor:
    """Return `count` numbers that differ by place, rank, part (the rank they are for) and case, of shape (count,).

    Their result is exact in its dtype whatever the order of the reduction: whole numbers for sums, powers of two for products,
    multiples of the world size for means. All but products use the dtype's whole width, so that a narrower one on the way shows.

    `kind` is an operator (sum, avg, min, max, prod), `copy` for what is only moved, or `real` for ordinary numbers.
    """
    start = (rank * 7919 + part * 10473 + case * 131) % SPREAD
    length = LONG if count <= LONG else LARGEST
    return stream(kind, dtype, world, rank < 12, length)[start : start + count]


@functools.lru_cache(maxsize=4)
def stream(kind: str, dtype: torch.dtype, world: int, growing: bool, length: int) -> torch.Tensor:
    """Return the numbers of a kind that every rank takes its own stretch of; products of more than 12 ranks may not grow."""
    bits = noise(length)
    if dtype is torch.bool:
        return (bits & 4) != 0
    if dtype.is_floating_point:
        return floats(kind, dtype, bits, world, growing)
    return integers(kind, dtype, bits, world, growing)


def floats(kind: str, dtype: torch.dtype, bits: torch.Tensor, world: int, growing: bool) -> torch.Tensor:
    """Return numbers on which the operator is exact; `copy` has NaN, infinity and minus zero among them."""
    if kind == "sum":
        most = int(2 / torch.finfo(dtype).eps) // world
        return (bits % (2 * most + 1) - most).to(dtype)
    if kind == "avg":
        exact = divisible(dtype, world)
        return exact[bits % len(exact)]
    if kind == "prod":
        factors = torch.tensor([0.5, 1.0, 2.0, -0.5, -1.0, -2.0] if growing else [1.0, -1.0], dtype=dtype)
        return factors[bits % len(factors)]
    if kind == "real":
        return ((bits >> 11).double() / (1 << 52)).to(dtype)
    whole = (bits >> {torch.float64: 11, torch.float32: 40}.get(dtype, 49)).to(dtype)
    if kind != "copy":
        return whole
    special = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0], dtype=dtype)
    return torch.where(bits % 61 == 0, special[bits & 3], whole)


def integers(kind: str, dtype: torch.dtype, bits: torch.Tensor, world: int, growing: bool) -> torch.Tensor:
    """Return numbers of the dtype's whole width, as far as the operator's result still fits."""
    if kind == "prod":
        factors = torch.tensor([-3, -2, -1, 1, 2, 3] if growing else [-1, 1])
        return factors[bits % len(factors)].to(dtype)
    headroom = {"sum": 1, "avg": 2}.get(kind, 0) * world.bit_length()
    narrow = (bits >> (64 - torch.iinfo(dtype).bits + headroom)).to(dtype)
    return narrow * world if kind == "avg" else narrow


def divisible(dtype: torch.dtype, world: int) -> torch.Tensor:
    """Return multiples of the world size whose mean is exact both ways: sum, then divide; or scale by a rounded 1/n, then sum."""
    widest = max(1, int(2 / torch.finfo(dtype).eps) // world**2)
    most = min(64, widest)
    wholes = torch.cat([torch.arange(-most, most + 1), torch.arange(widest - most, widest + 1)]).to(dtype)
    scaled = (wholes * world) * torch.tensor(1 / world, dtype=dtype)
    return wholes[scaled == wholes] * world


def fold(operator: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return what the operator makes of one tensor of each rank; of truth values, sums are 'or' and products 'and'."""
    if tensors[0].dtype is torch.bool:
        merge = torch.logical_or if operator in ("sum", "max") else torch.logical_and
        return functools.reduce(merge, tensors)
    if operator == "avg":
        total = functools.reduce(torch.add, tensors)
        return total / len(tensors) if total.is_floating_point() else total // len(tensors)
    merges: dict[str, Any] = {"sum": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum}
    result: torch.Tensor = functools.reduce(merges[operator], tensors)
    return result


def place(tensor: torch.Tensor, layout: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (memory, view): the tensor laid out on the device in memory that is larger than it and filled with a guard value.

    `own` starts the memory, `offset` one element into it, `strided` takes every second element, `transposed` is dense
    with its dimensions exchanged (an even number of elements, of shape (n/2, 2)).
    """
    count = tensor.numel()
    geometry = {
        "own": (tensor.shape, tensor.stride(), 0),
        "offset": (tensor.shape, tensor.stride(), 1),
        "strided": ((count,), (2,), 0),
        "transposed": ((count // 2, 2), (1, count // 2), 0),
    }
    memory = torch.full((2 * count + 2 if layout == "strided" else count + 2,), GUARD).to(tensor.dtype).to(device)
    view = memory.as_strided(*geometry[layout])
    view.copy_(tensor.to(device).reshape(view.shape))
    return memory, view


Tensors = list[torch.Tensor]


def all_reduce(turn: Any) -> Any:
    """Reduce in place on every rank."""
    return dist.all_reduce(turn.mine[0], turn.op, turn.group, turn.later)


def reduce(turn: Any) -> Any:
    """Reduce in place on the root; what the others then hold is not defined."""
    return dist.reduce(turn.mine[0], turn.root, turn.op, turn.group, turn.later)


def reduce_scatter(turn: Any) -> Any:
    """Reduce one tensor for each peer; every rank gets its own."""
    return dist.reduce_scatter(turn.out[0], turn.mine, turn.op, turn.group, turn.later)


def reduce_scatter_tensor(turn: Any) -> Any:
    """The same from one tensor that holds the parts of all peers."""
    return dist.reduce_scatter_tensor(turn.out[0], turn.mine[0], turn.op, turn.group, turn.later)


def broadcast(turn: Any) -> Any:
    """Copy the root's tensor to every rank, in place."""
    return dist.broadcast(turn.mine[0], turn.root, turn.group, turn.later)


def all_gather(turn: Any) -> Any:
    """Collect one tensor of each peer on every rank."""
    return dist.all_gather(turn.out, turn.mine[0], turn.group, turn.later)


def all_gather_into_tensor(turn: Any) -> Any:
    """The same into one tensor."""
    return dist.all_gather_into_tensor(turn.out[0], turn.mine[0], turn.group, turn.later)


def gather(turn: Any) -> Any:
    """Collect one tensor of each peer on the root."""
    return dist.gather(turn.mine[0], turn.out or None, turn.root, turn.group, turn.later)


def scatter(turn: Any) -> Any:
    """Hand one tensor of the root to each peer."""
    at_root = turn.peers[turn.index] == turn.root
    return dist.scatter(turn.out[0], turn.mine if at_root else None, turn.root, turn.group, turn.later)


def all_to_all(turn: Any) -> Any:
    """Exchange one tensor between each two peers."""
    return dist.all_to_all(turn.out, turn.mine, turn.group, turn.later)


def all_to_all_single(turn: Any) -> Any:
    """The same from one tensor into another; without sizes the parts are equal."""
    to, of = turn.sizes or (None, None)
    return dist.all_to_all_single(turn.out[0], turn.mine[0], of, to, turn.group, turn.later)


def send_recv(turn: Any) -> None:
    """Send to the next peer and receive from the one before; every other rank receives first."""
    after, before = turn.peers[(turn.index + 1) % len(turn.peers)], turn.peers[turn.index - 1]
    to, of = (dist.send, turn.mine[0], after), (dist.recv, turn.out[0], before)
    for step, tensor, peer in (to, of) if turn.index % 2 == 0 else (of, to):
        step(tensor, peer, turn.group)


def isend_irecv(turn: Any) -> Any:
    """The same without waiting in between."""
    after, before = turn.peers[(turn.index + 1) % len(turn.peers)], turn.peers[turn.index - 1]
    to, of = (dist.isend, turn.mine[0], after), (dist.irecv, turn.out[0], before)
    return [step(tensor, peer, turn.group) for step, tensor, peer in ((to, of) if turn.index % 2 == 0 else (of, to))]


def batch_isend_irecv(turn: Any) -> Any:
    """The same as one batch, of several tensors, which arrive in their order."""
    after, before = turn.peers[(turn.index + 1) % len(turn.peers)], turn.peers[turn.index - 1]
    to, of = [(dist.isend, one, after) for one in turn.mine], [(dist.irecv, one, before) for one in turn.out]
    return dist.batch_isend_irecv([dist.P2POp(step, tensor, peer, turn.group) for step, tensor, peer in (*to, *of)])


def all_reduce_coalesced(turn: Any) -> Any:
    """Reduce several tensors in place by one call."""
    return dist.all_reduce_coalesced(turn.mine, turn.op, turn.group, turn.later)


def all_gather_coalesced(turn: Any) -> Any:
    """Collect several tensors of each peer by one call."""
    each = len(turn.mine)
    lists = [turn.out[start : start + each] for start in range(0, len(turn.out), each)]
    return dist.all_gather_coalesced(lists, turn.mine, turn.group, turn.later)


def coalescing_all_reduce(turn: Any) -> Any:
    """Reduce several tensors in place as one operation of the backend."""
    with dist.distributed_c10d._coalescing_manager(turn.group, turn.mine[0].device, async_ops=True) as work:
        for tensor in turn.mine:
            dist.all_reduce(tensor, turn.op, turn.group)
    return work


def coalescing_all_gather(turn: Any) -> Any:
    """Collect several tensors, each into one, as one operation of the backend."""
    with dist.distributed_c10d._coalescing_manager(turn.group, turn.mine[0].device, async_ops=True) as work:
        for into, tensor in zip(turn.out, turn.mine, strict=True):
            dist.all_gather_into_tensor(into, tensor, turn.group)
    return work


def coalescing_reduce_scatter(turn: Any) -> Any:
    """Reduce and scatter one tensor into two, as one operation of the backend."""
    with dist.distributed_c10d._coalescing_manager(turn.group, turn.mine[0].device, async_ops=True) as work:
        for into in turn.out:
            dist.reduce_scatter_tensor(into, turn.mine[0], turn.op, turn.group)
    return work


def reduced(seen: Any) -> Tensors:
    """All peers hold the reduction of what each gave."""
    return [seen.fold([seen.sent(peer, 0) for peer in range(seen.peers)])]


def reduced_at_root(seen: Any) -> Tensors:
    """The root holds the reduction, and nobody else anything."""
    return [seen.fold([seen.sent(peer, 0) for peer in range(seen.peers)])] if seen.index == seen.root else []


def reduced_parts(seen: Any) -> Tensors:
    """A peer holds the reduction of what each had for it."""
    return [seen.fold([seen.sent(peer, seen.index) for peer in range(seen.peers)])]


def reduced_parts_twice(seen: Any) -> Tensors:
    """A peer holds the reduction of what each had for it, two times."""
    return [seen.fold([seen.sent(peer, seen.index) for peer in range(seen.peers)])] * 2


def reduced_each(seen: Any) -> Tensors:
    """All peers hold the reduction of each of several tensors."""
    return [seen.fold([seen.sent(peer, which) for peer in range(seen.peers)]) for which in range(seen.peers)]


def of_root(seen: Any) -> Tensors:
    """All peers hold what the root had."""
    return [seen.sent(seen.root, 0)]


def of_all(seen: Any) -> Tensors:
    """All peers hold what each had."""
    return [seen.sent(peer, 0) for peer in range(seen.peers)]


def of_all_at_root(seen: Any) -> Tensors:
    """The root holds what each had, and nobody else anything."""
    return [seen.sent(peer, 0) for peer in range(seen.peers)] if seen.index == seen.root else []


def of_all_each(seen: Any) -> Tensors:
    """All peers hold every one of the several tensors that each had."""
    return [seen.sent(peer, which) for peer in range(seen.peers) for which in range(seen.peers)]


def joined_each(seen: Any) -> Tensors:
    """All peers hold, for each of several tensors, those of all peers behind one another."""
    return [
        torch.cat([seen.sent(peer, which).reshape(-1) for peer in range(seen.peers)]) for which in range(seen.peers)
    ]


def own_of_root(seen: Any) -> Tensors:
    """A peer holds what the root had for it."""
    return [seen.sent(seen.root, seen.index)]


def own_of_all(seen: Any) -> Tensors:
    """A peer holds what each had for it."""
    return [seen.sent(peer, seen.index) for peer in range(seen.peers)]


def each_of_neighbour(seen: Any) -> Tensors:
    """A peer holds every one of the several tensors that the one before it had."""
    return [seen.sent((seen.index - 1) % seen.peers, which) for which in range(seen.peers)]


def of_neighbour(seen: Any) -> Tensors:
    """A peer holds what the one before it had."""
    return [seen.sent((seen.index - 1) % seen.peers, 0)]


@dataclass(frozen=True)
class Collective:
    """One function of torch.distributed.

    `call` is told everything by its `turn`: `mine` and `out` (tensors on the device), `op`, `root` and `peers` (ranks of the world),
    `index` (this rank's place among its peers), `group`, `later` (asynchronous), `sizes` (elements to and from each peer, where they
    differ). It returns what has to be waited for. `expected` has `seen` everything: `sent(s, d)` is what peer s holds for peer d, on
    the CPU, `fold` the operator, `index` and `root` places among so many `peers`.

    `gives` is what a rank passes in: `one` tensor, `each` (one for each peer, in a list), or `joined` (those in one tensor). The result
    arrives `in place`, in `each` of several tensors, or `joined` in one.
    """

    call: Callable[[Any], Any]
    expected: Callable[[Any], Tensors]
    gives: Literal["one", "each", "joined"]
    takes: Literal["in place", "each", "joined"]
    reduces: bool = False
    rooted: bool = False
    between: bool = False
    """Whether it needs somebody else to talk to."""
    ragged: bool = False
    """Whether its several tensors have different sizes."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.call.__name__


_ALL = (
    Collective(all_reduce, reduced, "one", "in place", reduces=True),
    Collective(reduce, reduced_at_root, "one", "in place", reduces=True, rooted=True),
    Collective(reduce_scatter, reduced_parts, "each", "each", reduces=True),
    Collective(reduce_scatter_tensor, reduced_parts, "joined", "each", reduces=True),
    Collective(broadcast, of_root, "one", "in place", rooted=True),
    Collective(all_gather, of_all, "one", "each"),
    Collective(all_gather_into_tensor, of_all, "one", "joined"),
    Collective(gather, of_all_at_root, "one", "each", rooted=True),
    Collective(scatter, own_of_root, "each", "each", rooted=True),
    Collective(all_to_all, own_of_all, "each", "each"),
    Collective(all_to_all_single, own_of_all, "joined", "joined"),
    Collective(send_recv, of_neighbour, "one", "each", between=True),
    Collective(isend_irecv, of_neighbour, "one", "each", between=True),
    Collective(batch_isend_irecv, each_of_neighbour, "each", "each", between=True),
    Collective(all_reduce_coalesced, reduced_each, "each", "in place", reduces=True, ragged=True),
    Collective(all_gather_coalesced, of_all_each, "each", "each", ragged=True),
    Collective(coalescing_all_reduce, reduced_each, "each", "in place", reduces=True, ragged=True),
    Collective(coalescing_all_gather, joined_each, "each", "each", ragged=True),
    Collective(coalescing_reduce_scatter, reduced_parts_twice, "joined", "each", reduces=True),
)
COLLECTIVES = {one.name: one for one in _ALL}
