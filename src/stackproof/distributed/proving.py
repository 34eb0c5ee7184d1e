"""What ranks prove when somebody else's launcher started them: who they are, a few exact collectives, a short DDP training."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ..workloads import get
from . import bringup, ddp
from .rank import Rank

_WORKLOAD, _SEED = "classifier", 7
_ELEMENTS = 1031
_STEPS = 20


def prove(rank: Rank) -> dict[str, Any]:
    """Return this rank's evidence: `bringup.report`, exact collectives by name, own seconds per step, and `ddp.train`.

    Raises:
        RuntimeError: a collective of known whole numbers is wrong.
    """
    evidence = bringup.report(rank)
    evidence["collectives"] = [_exact(rank, name) for name in ("all-gather", "broadcast", "barrier")]
    evidence["own_s"] = _own_seconds(rank)
    return {**evidence, "training": _train(rank)}


def _train(rank: Rank) -> dict[str, Any]:
    """Train on a global batch that grows with the world size, so that any number of ranks shares it equally."""
    rank.phase("building the workload")
    shard = (rank.rank, rank.world_size)
    job = get(_WORKLOAD).build(rank.device.torch, "tiny", _SEED, torch.float32, shard=shard, scale=rank.world_size)
    job.wrap(DistributedDataParallel)
    losses = []
    for number in range(_STEPS):
        rank.phase(f"step {number + 1}")
        losses.append(ddp.mean_loss(rank, job.step()))
    return {"losses": losses, "digest": ddp.digest(dict(job.model.named_parameters()))}


def _exact(rank: Rank, name: str) -> str:
    """Hold one collective against what the ranks' known data give; the barrier against nothing but its end."""
    rank.phase(name)
    mine = _known(rank.rank).to(rank.device.torch)
    if name == "barrier":
        dist.barrier()
        return name
    if name == "broadcast":
        last = rank.world_size - 1
        dist.broadcast(mine, src=last)
        right = torch.equal(mine.cpu(), _known(last))
    else:
        gathered = [torch.empty_like(mine) for _ in range(rank.world_size)]
        dist.all_gather(gathered, mine)
        right = all(torch.equal(part.cpu(), _known(other)) for other, part in enumerate(gathered))
    if not right:
        raise RuntimeError(f"{name} of known whole numbers is wrong")
    return name


def _known(rank: int) -> torch.Tensor:
    return torch.arange(_ELEMENTS, dtype=torch.float32) + 7 * rank


def _own_seconds(rank: Rank) -> list[float]:
    """Return the seconds of equal work on each rank, the waiting in the collective after it left out: a slow rank shows."""
    rank.phase("equal work on every rank")
    matrix, seconds = torch.ones(256, 256, device=rank.device.torch), []
    for _ in range(_STEPS):
        began = time.perf_counter()
        for _ in range(20):
            matrix = (matrix @ matrix) / 256
        rank.device.synchronize()
        seconds.append(time.perf_counter() - began)
        dist.all_reduce(matrix[:1])
        matrix = torch.ones_like(matrix)
    return seconds
