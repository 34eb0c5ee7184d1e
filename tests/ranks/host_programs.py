"""What ranks on two hosts do in the tests; imported by the ranks themselves."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from stackproof.ranks.rank import Rank
from stackproof.workloads.catalogue import get


def train_for_ever(rank: Rank) -> dict[str, Any]:
    shard = (rank.rank, rank.world_size)
    job = get("classifier").build(rank.device.torch, "tiny", 7, torch.float32, shard=shard)
    job.wrap(DistributedDataParallel)
    for number in itertools.count(1):
        rank.phase(f"step {number}")
        job.step()
    return {}
