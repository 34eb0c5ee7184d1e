"""Python objects between ranks: torch pickles them, tells their sizes, and cuts them out of what arrived.

Checkpoints, samplers and evaluation use these calls; a size or an order that is wrong mixes up what belongs to whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist

from stackproof.collectives.table import Row
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


Exchange = tuple[str, list[Any], list[Any]]
"""What was called, what this rank then holds, and what it must hold."""


def check(rank: Rank, row: Row) -> dict[str, Any]:
    """Exchange objects in the way of the row's form; the sentence says what arrived first instead.

    A rank that has something wrong goes on to the end: the others wait for it.
    """
    said = [
        f"{apart}, with a text of {length} characters"
        for length in _LENGTHS
        for exchange in _FORMS[row.form](rank.rank, rank.world_size, length)
        if (apart := _apart(*exchange))
    ]
    return {"sentence": said[0]} if said else {}


def _all_gather(rank: int, world: int, length: int) -> Iterator[Exchange]:
    found: list[Any] = [None] * world
    dist.all_gather_object(found, known(rank, 0, length))
    yield "all_gather_object", found, [known(peer, 0, length) for peer in range(world)]


def _gather(rank: int, world: int, length: int) -> Iterator[Exchange]:
    for root in range(world):
        found: list[Any] | None = [None] * world if rank == root else None
        dist.gather_object(known(rank, root, length), found, dst=root)
        if found is not None:
            yield f"gather_object to rank {root}", found, [known(peer, root, length) for peer in range(world)]


def _broadcast(rank: int, world: int, length: int) -> Iterator[Exchange]:
    for root in range(world):
        wanted = [known(root, part, length) for part in range(2)]
        found: list[Any] = list(wanted) if rank == root else [None, None]
        dist.broadcast_object_list(found, src=root)
        yield f"broadcast_object_list from rank {root}", found, wanted


def _scatter(rank: int, world: int, length: int) -> Iterator[Exchange]:
    for root in range(world):
        given = [known(root, part, length) for part in range(world)] if rank == root else None
        found: list[Any] = [None]
        dist.scatter_object_list(found, given, src=root)
        yield f"scatter_object_list from rank {root}", found, [known(root, rank, length)]


_FORMS: dict[str, Callable[[int, int, int], Iterator[Exchange]]] = {
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
