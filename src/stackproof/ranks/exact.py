"""What is exact about ranks: sums of known whole numbers, bits that all ranks must share, and spans that all begin together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from stackproof.ranks.rank import Rank

# Whole numbers below this stay exact in float32 when a few thousand ranks are summed; a prime, so that chunks never align.
_PERIOD = 1031


def known(rank: int, elements: int = _PERIOD) -> torch.Tensor:
    """Return the whole numbers that a rank has, on the CPU in float32; they differ by rank and place."""
    return torch.arange(elements, dtype=torch.float32) % _PERIOD + 7 * rank


def require_exact(rank: Rank, elements: int = _PERIOD, group: Any = None) -> None:
    """All-reduce known whole numbers and compare with the sum computed on the host.

    Raises:
        RuntimeError: a number is wrong.
    """
    rank.phase(f"all-reduce of {elements} known numbers")
    mine = known(rank.rank, elements).to(rank.device.torch)
    dist.all_reduce(mine, group=group)
    expected = known(0, elements) * rank.world_size + 7 * sum(range(rank.world_size))
    if not torch.equal(mine.cpu(), expected):
        over = "" if group is None else " over the second group"
        raise RuntimeError(f"an all-reduce of known whole numbers is wrong{over}")


def mean_loss(rank: Rank, loss: torch.Tensor) -> float:
    """Return the loss of the global batch: the mean over equal shards."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return float(total) / rank.world_size


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return one hash of all tensors' names and bits; ranks that drifted by one ulp differ."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def timed(rank: Rank, action: Callable[[], object], calls: int = 1) -> float:
    """Return this rank's seconds for so many calls back to back, which all ranks begin together.

    The barrier's own work is waited for before the clock starts, so that no call pays for it.
    """
    dist.barrier()
    rank.device.synchronize()
    watch = rank.device.stopwatch()
    watch.start()
    for _ in range(calls):
        action()
    watch.stop()
    return watch.seconds()
