"""What every rank does to show convergence: one backward whose gradients are kept, then a short training."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from .ddp import digest, mean_loss
from .ddp_cases import conduct, keep
from .ddp_single import shard
from .ddp_table import plan
from .rank import Rank


def run(rank: Rank) -> dict[str, Any]:
    """Return losses and digests by workload; gradients after the first backward are kept under the workload's name.

    Arguments (of the specification): workloads, seed.
    """
    return conduct(rank, {name: partial(_course, name=name) for name in rank.arguments["workloads"]})


def _course(rank: Rank, name: str) -> dict[str, Any]:
    job = shard(name, rank.device.torch, torch.float32, rank.arguments["seed"], rank.rank, rank.world_size)
    job.wrap(DistributedDataParallel)
    gradients = job.observe().gradients
    keep(rank, name, gradients)
    losses = [mean_loss(rank, job.step()) for _ in range(plan().course(name).steps)]
    ended = digest(dict(job.model.named_parameters()))
    return {"losses": losses, "gradients": digest(gradients), "parameters": ended}
