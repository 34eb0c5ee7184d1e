"""An all-reduce under our engine and in a bare loop over c10d; runs on every rank."""

from __future__ import annotations

import time
from statistics import mean, median
from typing import Any

import torch
import torch.distributed as dist

from ..measuring.launching import Rank
from ..measuring.ranked import Together, rest, setting_of
from ..measuring.sampling import warm_up
from ..workloads.collectives import Collective
from . import side_by_side

_BLOCK_S = 0.3


def program(rank: Rank) -> dict[str, Any]:
    """Prove the all-reduce, then time it in turns; every rank returns the slowest rank's seconds of one call."""
    work = Collective(setting_of(rank))
    reason = work.prove()
    rank.phase("taking turns")
    sampler = Together(rank.device, work.run)
    warm_up(sampler, 5.0)
    count = max(5, round(_BLOCK_S / median(sampler.block(5))))
    sampler.number = 1
    turns = side_by_side(lambda: mean(sampler.block(count)), lambda: _bare(rank, work, count), rank.arguments["rounds"])
    rest()
    return {"reason": reason, "ours": turns.ours, "theirs": turns.theirs}


def _bare(rank: Rank, work: Collective, count: int) -> float:
    """Call it so many times between two looks at the clock; return the slowest rank's seconds of one call."""
    dist.barrier()
    rank.device.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        work.run()
    rank.device.synchronize()
    slowest = torch.tensor([(time.perf_counter() - began) / count], dtype=torch.float32).to(rank.device.torch)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return float(slowest.cpu()[0])
