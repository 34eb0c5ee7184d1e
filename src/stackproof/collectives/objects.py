"""Python objects between ranks: torch pickles them, tells their sizes, and cuts them out of what arrived.

Checkpoints, samplers and evaluation use these calls; a size or an order that is wrong mixes up what belongs to whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from stackproof.collectives.table import Row, subgroups
from stackproof.ranks.rank import Rank

_LENGTHS = (0, 1, 70_001, 300_007)
"""Characters of the text in an object, before each rank adds its own: from nothing to more than 64 and 256 KiB."""


def known(rank: int, part: int, length: int) -> dict[str, Any]:
    """Return what a rank has for a part: nested, of another pickled size on each, and never equal to another."""
    return {
        "from": (rank, part, length),
        "text": chr(97 + rank % 26) * (length + 257 * rank + 31 * part),
        "nested": [None, -1.5, b"\x00\xff" * (rank + 1), {rank: [part] * rank}],
    }


_FORMED = (0, 70_001)
"""Characters in groups of their own, which translate ranks."""

Exchange = tuple[str, list[Any], list[Any]]
"""What was called, what this rank then holds, and what it must hold."""


@dataclass(frozen=True)
class Among:
    """The ranks that exchange, in order, their group (None: the default one), and this rank's place among them."""

    peers: tuple[int, ...]
    group: Any
    place: int


def check(rank: Rank, row: Row) -> dict[str, Any]:
    """Exchange objects in the way of the row's form, among all and in groups; the sentence says what arrived first instead.

    A rank that has something wrong goes on to the end: the others wait for it.
    """
    said = [
        f"{apart}, with a text of {length} characters{'' if group is None else f', in a group of ranks {peers}'}"
        for peers, group, lengths in _groups(rank.world_size)
        if rank.rank in peers
        for length in lengths
        for exchange in _FORMS[row.form](Among(peers, group, peers.index(rank.rank)), length)
        if (apart := _apart(*exchange))
    ]
    return {"sentence": said[0]} if said else {}


def _groups(world: int) -> list[tuple[tuple[int, ...], Any, tuple[int, ...]]]:
    """Return ranks, their group, and the lengths that are tried; every rank forms every group."""
    formed = [peers for peers in subgroups(world) if len(peers) > 1]
    return [(tuple(range(world)), None, _LENGTHS), *((peers, dist.new_group(list(peers)), _FORMED) for peers in formed)]


def _all_gather(among: Among, length: int) -> Iterator[Exchange]:
    found: list[Any] = [None] * len(among.peers)
    dist.all_gather_object(found, known(among.peers[among.place], 0, length), group=among.group)
    yield "all_gather_object", found, [known(peer, 0, length) for peer in among.peers]


def _gather(among: Among, length: int) -> Iterator[Exchange]:
    rank = among.peers[among.place]
    for root in among.peers:
        found: list[Any] | None = [None] * len(among.peers) if rank == root else None
        dist.gather_object(known(rank, root, length), found, dst=root, group=among.group)
        if found is not None:
            yield f"gather_object to rank {root}", found, [known(peer, root, length) for peer in among.peers]


def _broadcast(among: Among, length: int) -> Iterator[Exchange]:
    rank = among.peers[among.place]
    for root in among.peers:
        wanted = [known(root, part, length) for part in range(3)]
        found: list[Any] = list(wanted) if rank == root else [None] * len(wanted)
        dist.broadcast_object_list(found, src=root, group=among.group)
        yield f"broadcast_object_list from rank {root}", found, wanted


def _scatter(among: Among, length: int) -> Iterator[Exchange]:
    rank = among.peers[among.place]
    for root in among.peers:
        given = [known(root, part, length) for part in range(len(among.peers))] if rank == root else None
        found: list[Any] = [None]
        dist.scatter_object_list(found, given, src=root, group=among.group)
        yield f"scatter_object_list from rank {root}", found, [known(root, among.place, length)]


_FORMS: dict[str, Callable[[Among, int], Iterator[Exchange]]] = {
    "all_gather": _all_gather,
    "gather": _gather,
    "broadcast": _broadcast,
    "scatter": _scatter,
}


def _apart(what: str, found: list[Any], wanted: list[Any]) -> str:
    """Return where the first object is not the one that was sent there; nothing if all are."""
    place = next((n for n, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]), None)
    if place is None:
        return ""
    origin = found[place].get("from") if isinstance(found[place], dict) else None
    came = f"that of rank {origin[0]} for part {origin[1]}" if origin else f"a {type(found[place]).__name__}"
    return f"{what} has {came} at place {place} instead of that of rank {wanted[place]['from'][0]}"
