"""What every rank reports of a group that has just formed: backend, device, bus, and what forming and splitting it cost."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import torch
import torch.distributed as dist

from .rank import Rank

# A few bytes and a few MiB: libraries choose another algorithm for each.
_ELEMENTS = (1031, 1 << 20)


def report(rank: Rank) -> dict[str, Any]:
    """Return who this rank is, and the seconds that the group and a second one over the same ranks took to form.

    Raises:
        RuntimeError: an all-reduce of known whole numbers is wrong, over either of the groups.
    """
    for elements in _ELEMENTS:
        require_exact(rank, elements)
    rank.phase("splitting the group")
    began = time.perf_counter()
    second = dist.new_group(list(range(rank.world_size)))  # NCCL splits the communicator where a device is bound
    require_exact(rank, _ELEMENTS[0], second)
    split_s = time.perf_counter() - began
    return {
        "rank": rank.rank,
        "world_size": dist.get_world_size(),
        "backend": rank.backend,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": str(rank.device),
        "device of the group": str(getattr(dist.group.WORLD, "bound_device_id", None) or "none was given"),
        "name": rank.device.name(),
        "bus id": rank.device.bus_id(),
        "driver": rank.device.driver(),
        "formed_s": rank.formed_s,
        "split_s": split_s,
    }


def require_exact(rank: Rank, elements: int = 1031, group: Any = None) -> None:
    """Sum whole numbers that differ by rank and place; the sum is known without the backend and exact in float32."""
    rank.phase(f"all-reduce of {elements} known numbers")
    places = torch.arange(elements, dtype=torch.float32) % 1031
    mine = (places + 7 * rank.rank).to(rank.device.torch)
    dist.all_reduce(mine, group=group)
    expected = places * rank.world_size + 7 * sum(range(rank.world_size))
    if not torch.equal(mine.cpu(), expected):
        over = "" if group is None else " over the second group"
        raise RuntimeError(f"an all-reduce of known whole numbers is wrong{over}")
