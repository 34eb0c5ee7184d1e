"""The collectives of torch.distributed: how each is called, and what each rank must then hold.

A call is told everything by its `turn`: `mine` and `out` (tensors on the device), `op`, `root` and `peers` (ranks of the world),
`index` (this rank's place among its peers), `group`, `later` (asynchronous), `sizes` (elements to and from each peer, where they differ).
It returns what has to be waited for. An expectation has `seen` everything: `sent(s, d)` is what peer s holds for peer d, on the CPU,
`fold` the operator, `index` and `root` places among so many `peers`. A failing case is printed with the source of its functions, so each
needs nothing but torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist

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
    """The same as one batch."""
    after, before = turn.peers[(turn.index + 1) % len(turn.peers)], turn.peers[turn.index - 1]
    to, of = (dist.isend, turn.mine[0], after), (dist.irecv, turn.out[0], before)
    return dist.batch_isend_irecv([dist.P2POp(step, tensor, peer, turn.group) for step, tensor, peer in (to, of)])


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


def of_neighbour(seen: Any) -> Tensors:
    """A peer holds what the one before it had."""
    return [seen.sent((seen.index - 1) % seen.peers, 0)]


@dataclass(frozen=True)
class Collective:
    """One function of torch.distributed.

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
    Collective(batch_isend_irecv, of_neighbour, "one", "each", between=True),
    Collective(all_reduce_coalesced, reduced_each, "each", "in place", reduces=True, ragged=True),
    Collective(all_gather_coalesced, of_all_each, "each", "each", ragged=True),
    Collective(coalescing_all_reduce, reduced_each, "each", "in place", reduces=True, ragged=True),
    Collective(coalescing_all_gather, joined_each, "each", "each", ragged=True),
    Collective(coalescing_reduce_scatter, reduced_parts_twice, "joined", "each", reduces=True),
)
COLLECTIVES = {one.name: one for one in _ALL}
