"""The collectives of torch.distributed: the data of every rank, how each is called, what each rank must then hold, and does hold.

The data make each result exact in its dtype whatever the order of the reduction. A failing case is printed with the source of its
functions, so they need nothing but torch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

LONG = (1 << 20) + 3
"""Elements of a long tensor: odd, and more than any backend's smallest chunk."""
LARGEST = (1 << 22) + 3
"""Elements of the longest tensor: libraries cut above 2^21 or 2^22 elements into several chunks, channels or calls."""
SPREAD = 65521
SPECIAL = 9999
"""Elements of the longest tensor with extreme numbers in it: placing them takes time."""
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
    multiples of the world size for means. All but products of floats use the dtype's whole width, so that a narrower one on the way shows.

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
        # Beyond float16's range where no last bit tells it from bfloat16; a power of two keeps all exact.
        power = {"prod": 96 // world, "real": 0}.get(kind, 40 if dtype is torch.bfloat16 else 0)
        return floats(kind, dtype, bits, world, growing) * 2.0 ** (power if torch.finfo(dtype).max > 1e5 else 0)
    return integers(kind, dtype, bits, world)


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


def integers(kind: str, dtype: torch.dtype, bits: torch.Tensor, world: int) -> torch.Tensor:
    """Return numbers of the dtype's whole width, as far as the operator's result still fits."""
    if kind == "prod":
        width = (torch.iinfo(dtype).bits - 2) // world
        factors = bits >> (63 - width) if width else 1 - (bits & 2)
        return torch.where(factors == 0, 1, factors).to(dtype)
    headroom = {"sum": 1, "avg": 2}.get(kind, 0) * world.bit_length()
    narrow = (bits >> (64 - torch.iinfo(dtype).bits + headroom)).to(dtype)
    return narrow * world if kind == "avg" else narrow


def extreme(operator: str, numbers: torch.Tensor, rank: int) -> torch.Tensor:
    """Return a rank's numbers with extreme ones in the last third of every 61: pairs that give the same in any order of reduction.

    Each pair is what some ranks have and what the others have. In a minimum or maximum NaN meets only itself and zeros have one sign:
    fmax and IEEE 754's maximum differ there.
    """
    kind = torch.finfo(numbers.dtype)
    least, most, nan, inf = kind.smallest_normal * kind.eps, kind.max, float("nan"), float("inf")
    between = [
        (nan, nan),
        (inf, most),
        (-inf, -most),
        (-0.0, -0.0),
        (least, -least),
        (3 * least, 2 * least),
        (most, -most),
    ]
    pairs = {
        "sum": [
            (nan, 1.0),
            (inf, most),
            (-inf, 1.0),
            (-0.0, -0.0),
            (least, 2 * least),
            (-least, 3 * least),
            (most, 0.0),
        ],
        "prod": [(nan, 1.0), (inf, -1.0), (most, most), (-0.0, 1.0), (0.0, -1.0), (least, -1.0), (most, -1.0)],
        "min": between,
        "max": between,
    }[operator]
    places = torch.arange(numbers.numel())
    chosen = torch.tensor(pairs, dtype=torch.float64)[places % 61 % len(pairs), (places // 61 + rank) % 2]
    return torch.where(places % 61 >= 40, chosen.to(numbers.dtype), numbers)


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
    to, of = [(dist.isend, item, after) for item in turn.mine], [(dist.irecv, item, before) for item in turn.out]
    return dist.batch_isend_irecv([dist.P2POp(step, tensor, peer, turn.group) for step, tensor, peer in (*to, *of)])


def all_gather_coalesced(turn: Any) -> Any:
    """Collect several tensors of each peer by one call."""
    each = len(turn.mine)
    lists = [turn.out[start : start + each] for start in range(0, len(turn.out), each)]
    return dist.all_gather_coalesced(lists, turn.mine, turn.group, turn.later)


def coalesced(turn: Any, actions: list[Callable[..., Any]]) -> Any:
    """Call collectives of a group as one operation of the backend."""
    with dist.distributed_c10d._coalescing_manager(turn.group, turn.mine[0].device, async_ops=True) as work:
        for action in actions:
            action(group=turn.group)
    return work


CALLS: dict[str, Callable[[Any], Any]] = {
    "all_reduce": lambda turn: dist.all_reduce(turn.mine[0], turn.op, turn.group, turn.later),
    "reduce": lambda turn: dist.reduce(turn.mine[0], turn.root, turn.op, turn.group, turn.later),
    "reduce_scatter": lambda turn: dist.reduce_scatter(turn.out[0], turn.mine, turn.op, turn.group, turn.later),
    "reduce_scatter_tensor": lambda turn: dist.reduce_scatter_tensor(
        turn.out[0], turn.mine[0], turn.op, turn.group, turn.later
    ),
    "broadcast": lambda turn: dist.broadcast(turn.mine[0], turn.root, turn.group, turn.later),
    "all_gather": lambda turn: dist.all_gather(turn.out, turn.mine[0], turn.group, turn.later),
    "all_gather_into_tensor": lambda turn: dist.all_gather_into_tensor(
        turn.out[0], turn.mine[0], turn.group, turn.later
    ),
    "gather": lambda turn: dist.gather(turn.mine[0], turn.out or None, turn.root, turn.group, turn.later),
    "scatter": lambda turn: dist.scatter(
        turn.out[0], turn.mine if turn.peers[turn.index] == turn.root else None, turn.root, turn.group, turn.later
    ),
    "all_to_all": lambda turn: dist.all_to_all(turn.out, turn.mine, turn.group, turn.later),
    "all_to_all_single": lambda turn: dist.all_to_all_single(
        turn.out[0], turn.mine[0], turn.sizes[0], turn.sizes[1], turn.group, turn.later
    ),
    "send_recv": send_recv,
    "isend_irecv": isend_irecv,
    "batch_isend_irecv": batch_isend_irecv,
    "all_reduce_coalesced": lambda turn: dist.all_reduce_coalesced(turn.mine, turn.op, turn.group, turn.later),
    "all_gather_coalesced": all_gather_coalesced,
    "coalescing_all_reduce": lambda turn: coalesced(
        turn, [partial(dist.all_reduce, tensor, turn.op) for tensor in turn.mine]
    ),
    "coalescing_all_gather": lambda turn: coalesced(
        turn, [partial(dist.all_gather_into_tensor, *pair) for pair in zip(turn.out, turn.mine, strict=True)]
    ),
    "coalescing_reduce_scatter": lambda turn: coalesced(
        turn, [partial(dist.reduce_scatter_tensor, out, turn.mine[0], turn.op) for out in turn.out]
    ),
}
"""How each is called by its `turn`; it returns what has to be waited for."""


def expected(result: str, seen: Any) -> Tensors:
    """Return what a peer must hold of what each had: `seen` has `sent(peer, part)`, `fold`, `index`, `root` and `peers` (how many)."""
    peers, at_root = range(seen.peers), seen.index == seen.root

    def of_all(part: int) -> Tensors:
        return [seen.sent(peer, part) for peer in peers]

    def reduced(part: int) -> Tensors:
        return [seen.fold(of_all(part))]

    results: Any = {
        "reduced": lambda: reduced(0),
        "reduced at the root": lambda: reduced(0) if at_root else [],
        "own part reduced": lambda: reduced(seen.index),
        "own part reduced, twice": lambda: reduced(seen.index) * 2,
        "each of several reduced": lambda: [reduced(which)[0] for which in peers],
        "of the root": lambda: [seen.sent(seen.root, 0)],
        "of all": lambda: of_all(0),
        "of all at the root": lambda: of_all(0) if at_root else [],
        "each of several of all": lambda: [seen.sent(peer, which) for peer in peers for which in peers],
        "each of several joined": lambda: [joined(of_all(which))[0] for which in peers],
        "own part of the root": lambda: [seen.sent(seen.root, seen.index)],
        "own part of all": lambda: of_all(seen.index),
        "each of several of the peer before": lambda: [
            seen.sent((seen.index - 1) % seen.peers, which) for which in peers
        ],
        "of the peer before": lambda: [seen.sent((seen.index - 1) % seen.peers, 0)],
    }
    tensors: Tensors = results[result]()
    return tensors


@dataclass(frozen=True)
class Collective:
    """One function of torch.distributed.

    `call` reads everything from its `turn`: `mine` and `out` (tensors on the device), `op`, `root` and `peers` (ranks of the world),
    `index` (this rank's place among its peers), `group`, `later` (asynchronous), `sizes` (elements from and to each peer, where they
    differ). `result` names what each peer then holds (`expected`).

    `gives` is what a rank passes in: `one` tensor, `each` (one for each peer, in a list), or `joined` (those in one tensor). The result
    arrives `in place`, in `each` of several tensors, or `joined` in one.
    """

    name: str
    result: str
    gives: Literal["one", "each", "joined"]
    takes: Literal["in place", "each", "joined"]
    reduces: bool = False
    rooted: bool = False
    between: bool = False
    """Whether it needs somebody else to talk to."""
    ragged: bool = False
    """Whether its several tensors have different sizes."""

    @property
    def call(self) -> Callable[[Any], Any]:
        return CALLS[self.name]

    def expected(self, seen: Any) -> Tensors:
        return expected(self.result, seen)


_ALL = (
    Collective("all_reduce", "reduced", "one", "in place", reduces=True),
    Collective("reduce", "reduced at the root", "one", "in place", reduces=True, rooted=True),
    Collective("reduce_scatter", "own part reduced", "each", "each", reduces=True),
    Collective("reduce_scatter_tensor", "own part reduced", "joined", "each", reduces=True),
    Collective("broadcast", "of the root", "one", "in place", rooted=True),
    Collective("all_gather", "of all", "one", "each"),
    Collective("all_gather_into_tensor", "of all", "one", "joined"),
    Collective("gather", "of all at the root", "one", "each", rooted=True),
    Collective("scatter", "own part of the root", "each", "each", rooted=True),
    Collective("all_to_all", "own part of all", "each", "each"),
    Collective("all_to_all_single", "own part of all", "joined", "joined"),
    Collective("send_recv", "of the peer before", "one", "each", between=True),
    Collective("isend_irecv", "of the peer before", "one", "each", between=True),
    Collective("batch_isend_irecv", "each of several of the peer before", "each", "each", between=True),
    Collective("all_reduce_coalesced", "each of several reduced", "each", "in place", reduces=True, ragged=True),
    Collective("all_gather_coalesced", "each of several of all", "each", "each", ragged=True),
    Collective("coalescing_all_reduce", "each of several reduced", "each", "in place", reduces=True, ragged=True),
    Collective("coalescing_all_gather", "each of several joined", "each", "each", ragged=True),
    Collective("coalescing_reduce_scatter", "own part reduced, twice", "joined", "each", reduces=True),
)
COLLECTIVES = {collective.name: collective for collective in _ALL}


@dataclass(frozen=True)
class Case:
    """One call: what, in which operator ('copy' where nothing is reduced), with how many elements, laid out how, among whom."""

    collective: str
    operator: str
    dtype: str
    count: int
    """Elements of one tensor; -1 for a tensor without dimensions."""
    number: int
    """Cases differ in their data by this."""
    peers: tuple[int, ...]
    root: int
    """Place of the root among the peers."""
    layout: str = "own"
    later: bool = False
    uneven: bool = False
    data: str = ""
    """Kind of the data, if it is not the operator's own."""


def sent(case: Any, ragged: bool, source: int, part: int) -> torch.Tensor:
    """Return what a peer holds for another (or as its tensor of that number), on the CPU."""
    more = (2 * source + part) % 4 if case.uneven else part if ragged else 0
    dtype, world = getattr(torch, case.dtype), len(case.peers)
    count = 1 if case.count < 0 else case.count + more
    flat = values(case.data or case.operator, dtype, count, case.peers[source], part, case.number, world)
    if dtype.is_floating_point and not case.data and case.operator not in ("copy", "avg") and count <= SPECIAL:
        flat = extreme(case.operator, flat, case.peers[source])
    return flat.reshape(()) if case.count < 0 else flat


def joined(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return one tensor of one dimension with all of them behind one another, in a list."""
    return [torch.cat([tensor.reshape(-1) for tensor in tensors])]


def prepare(case: Any, collective: Any, index: int, device: torch.device, group: Any) -> SimpleNamespace:
    """Return the turn of the peer at this place, with its tensors on the device and `expected` on the CPU."""
    turn = SimpleNamespace(group=group, index=index, peers=case.peers, root=case.peers[case.root], later=case.later)
    turn.op = getattr(dist.ReduceOp, {"prod": "PRODUCT", "copy": "SUM"}.get(case.operator, case.operator.upper()))
    holds, peers = partial(sent, case, collective.ragged), range(len(case.peers))
    merge = partial(fold, case.operator)
    seen = SimpleNamespace(sent=holds, fold=merge, index=index, root=case.root, peers=len(peers))
    turn.inputs = [holds(index, part) for part in (peers if collective.gives != "one" else range(1))]
    turn.expected = collective.expected(seen)
    sizes = [[part.numel() for part in parts] for parts in (turn.expected, turn.inputs)]
    turn.sizes = sizes if case.uneven else (None, None)
    lay_out(turn, case, collective, device)
    return turn


def lay_out(turn: Any, case: Any, collective: Any, device: torch.device) -> None:
    """Give the turn its tensors on the device: what it passes in, and where its result goes, each as (memory, view)."""
    if collective.gives == "joined":
        turn.inputs = joined(turn.inputs)
    if collective.takes == "joined":
        turn.expected = joined(turn.expected)
    turn.placed = [place(tensor, case.layout, device) for tensor in turn.inputs]
    turn.mine, turn.out, turn.results, turn.works = [view for _, view in turn.placed], [], turn.placed, []
    if collective.takes != "in place":
        turn.results = [place(torch.full_like(tensor, GUARD), case.layout, device) for tensor in turn.expected]
        turn.out = [view for _, view in turn.results]


def play(turn: Any, collective: Any) -> None:
    """Call the collective and wait until its result may be read."""
    work = collective.call(turn)
    turn.works = [item for item in (work if isinstance(work, list) else [work]) if item is not None]
    for item in turn.works:
        item.wait()


def promised(turn: Any, collective: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return what the futures of a turn's works hold, where hooks of DDP read results, and what they are to hold.

    Some backends have no futures; those of cards hand the root's inputs on as the future of a scatter. Parts may be joined on the way.
    """
    held: Tensors = []
    for work in turn.works if turn.later else ():
        with contextlib.suppress(RuntimeError):
            value = (work.get_future() if hasattr(work, "get_future") else work).wait()
            held += [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]
    if not held or not turn.expected:
        return None
    in_place = collective.takes == "in place"
    inputs = {view.untyped_storage().data_ptr() for view in turn.mine if not in_place}
    if any(one.untyped_storage().data_ptr() in inputs for one in held):
        return None
    found, exact = (torch.cat([flat(one) for one in tensors]) for tensors in (held, turn.expected))
    if (found.numel(), found.dtype) == (exact.numel(), exact.dtype):
        return found, exact
    return (torch.full_like(exact, GUARD), exact) if in_place else None


def flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().reshape(-1)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return their bits as whole numbers, so that NaN equals itself, minus zero is not zero, and a truth value can be neither 0 nor 1."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return flat(tensor).view(whole[tensor.element_size()])


def settled(tensor: torch.Tensor) -> torch.Tensor:
    """Return it with one kind of NaN: which bits a reduction gives it is left open."""
    return tensor.masked_fill(tensor.isnan(), float("nan")) if tensor.is_floating_point() else tensor


def fault(turn: Any, collective: Any) -> dict[str, Any] | None:
    """Return what is wrong on this rank: the first wrong number of the first wrong tensor, and how many are; None if nothing is.

    The results, what was passed in and is not to change, and the memory around both are compared bit by bit.
    """
    regions = results = [landed(*pair) for pair in turn.results]
    pairs = [("result", actual, exact) for (actual, _), exact in zip(results, turn.expected, strict=False)]
    if futures := promised(turn, collective):  # after the results, which have to be there without a look at any future
        pairs.append(("future of its work", *futures))
    if collective.reduces:
        pairs = [(what, settled(actual), settled(exact)) for what, actual, exact in pairs]
    if collective.takes != "in place":
        placed = [landed(*pair) for pair in turn.placed]
        pairs += [("input", actual, exact) for (actual, _), exact in zip(placed, turn.inputs, strict=True)]
        regions = [*placed, *results]
    pairs += [("memory beside it", rest, torch.full_like(rest, GUARD)) for _, rest in regions]
    for what, actual, exact in pairs:
        if torch.equal(bits(actual), bits(exact)):
            continue
        wrong = (bits(actual) != bits(exact)).nonzero().flatten()
        plain = wrong[(bits(actual)[wrong] < 2) | (bits(exact)[wrong] == 0)] if exact.dtype is torch.bool else wrong
        at = int((plain if len(plain) else wrong)[0])  # a true that is 2 or more only where all that is wrong is such
        got, want = ((bits if exact.dtype is torch.bool else flat)(tensor)[at].item() for tensor in (actual, exact))
        details = {"what": what, "at": at, "got": got, "expected": want, "wrong": len(wrong), "of": exact.numel()}
        views = [view for _, view in (*turn.placed, *(turn.results if regions is not results else ()))]
        return {**details, "outside": sum(outside(view, rest) for view, (_, rest) in zip(views, regions, strict=False))}
    return None


def lesser(fault: Mapping[str, Any]) -> bool:
    """Whether all that is wrong are trues that are 2 or more in memory, which a known issue may allow: another fault says more."""
    return bool(fault["case"]["dtype"] == "bool" and fault["expected"] and fault["got"] > 1)


def outside(view: torch.Tensor, rest: torch.Tensor) -> int:
    """Return how many guards before a view's first number and behind its last are overwritten; gaps in it are not counted."""
    first = view.storage_offset()
    last = first + sum((size - 1) * stride for size, stride in zip(view.shape, view.stride(), strict=True))
    apart = bits(rest) != bits(torch.full_like(rest, GUARD))
    return int(apart[:first].sum()) + int(apart[last + 1 :].sum())


def landed(memory: torch.Tensor, view: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the view, and its memory with the guard in the view's place: on the CPU, after one copy from the device.

    They are copied as whole numbers: a truth value that is 2 stays 2.
    """
    whole = bits(memory).clone()
    inside = whole.as_strided(view.shape, view.stride(), view.storage_offset())
    tensor = inside.clone()
    inside.fill_(int(bits(torch.full((1,), GUARD).to(memory.dtype))[0]))
    return tensor.view(memory.dtype), whole.view(memory.dtype)
