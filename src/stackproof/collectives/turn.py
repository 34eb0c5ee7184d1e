"""One case of a collective on one rank: what it passes in, the call, and the first number that is not what it must be.

A failing case is printed with the source of these functions, so they need nothing but torch.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from stackproof.collectives.calls import GUARD, fold, place, values


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
    return flat.reshape(()) if case.count < 0 else flat


def joined(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return one tensor of one dimension with all of them behind one another, in a list."""
    return [torch.cat([tensor.reshape(-1) for tensor in tensors])]


def prepare(case: Any, collective: Any, index: int, device: torch.device, group: Any) -> SimpleNamespace:
    """Return the turn of the peer at this place, with its tensors on the device and `expected` on the CPU."""
    turn = SimpleNamespace(group=group, index=index, peers=case.peers, root=case.peers[case.root], later=case.later)
    turn.op = getattr(dist.ReduceOp, {"prod": "PRODUCT", "copy": "SUM"}.get(case.operator, case.operator.upper()))
    holds, peers = functools.partial(sent, case, collective.ragged), range(len(case.peers))
    merge = functools.partial(fold, case.operator)
    seen = SimpleNamespace(sent=holds, fold=merge, index=index, root=case.root, peers=len(peers))
    turn.given = [holds(index, part) for part in (peers if collective.gives != "one" else range(1))]
    turn.expected = collective.expected(seen)
    turn.sizes = [[len(part) for part in turn.given], [len(part) for part in turn.expected]] if case.uneven else None
    lay_out(turn, case, collective, device)
    return turn


def lay_out(turn: Any, case: Any, collective: Any, device: torch.device) -> None:
    """Give the turn its tensors on the device: what it passes in, and where its result goes, each as (memory, view)."""
    if collective.gives == "joined":
        turn.given = joined(turn.given)
    if collective.takes == "joined":
        turn.expected = joined(turn.expected)
    turn.placed = [place(tensor, case.layout, device) for tensor in turn.given]
    turn.mine, turn.out, turn.results = [view for _, view in turn.placed], [], turn.placed
    if collective.takes != "in place":
        turn.results = [place(torch.full_like(tensor, GUARD), case.layout, device) for tensor in turn.expected]
        turn.out = [view for _, view in turn.results]


def play(turn: Any, collective: Any) -> None:
    """Call the collective and wait until its result may be read."""
    work = collective.call(turn)
    for one in work if isinstance(work, list) else [work]:
        if one is not None:
            one.wait()


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers on the CPU in one dimension."""
    return tensor.detach().cpu().reshape(-1)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return their bits as whole numbers, so that NaN equals itself, minus zero is not zero, and a truth value can be neither 0 nor 1."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return flat(tensor).view(whole[tensor.element_size()])


def fault(turn: Any, collective: Any) -> dict[str, Any] | None:
    """Return what is wrong on this rank: the first wrong number of the first wrong tensor, and how many are; None if nothing is.

    The results, what was passed in and is not to change, and the memory around both are compared bit by bit.
    """
    results = [landed(*pair) for pair in turn.results]
    pairs, held = [("result", found, exact) for (found, _), exact in zip(results, turn.expected, strict=False)], results
    if collective.takes != "in place":
        placed = [landed(*pair) for pair in turn.placed]
        pairs += [("input", found, exact) for (found, _), exact in zip(placed, turn.given, strict=True)]
        held = [*placed, *results]
    pairs += [("memory beside it", rest, torch.full_like(rest, GUARD)) for _, rest in held]
    for what, found, exact in pairs:
        if torch.equal(bits(found), bits(exact)):
            continue
        wrong = (bits(found) != bits(exact)).nonzero().flatten()
        at = int(wrong[0])
        got, want = ((bits if exact.dtype is torch.bool else flat)(tensor)[at].item() for tensor in (found, exact))
        return {"what": what, "at": at, "got": got, "expected": want, "wrong": len(wrong), "of": exact.numel()}
    return None


def landed(memory: torch.Tensor, view: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the view, and its memory with the guard in the view's place: on the CPU, after one copy from the device.

    They are copied as whole numbers: a truth value that is 2 stays 2.
    """
    whole = bits(memory).clone()
    inside = whole.as_strided(view.shape, view.stride(), view.storage_offset())
    found = inside.clone()
    inside.fill_(int(bits(torch.full((1,), GUARD).to(memory.dtype))[0]))
    return found.view(memory.dtype), whole.view(memory.dtype)
