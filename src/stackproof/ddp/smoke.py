"""What every rank does in the smoke run: join, prove an all-reduce, train the classifier under DDP, time the all-reduce."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from stackproof.collectives import timing
from stackproof.device.numerics import shortened
from stackproof.ranks.exact import digest, mean_loss, require_exact
from stackproof.ranks.rank import Rank
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get


def train(rank: Rank) -> dict[str, Any]:
    """Return this rank's evidence; its gradients after the first backward go to `rankN.pt` as float64 on the CPU.

    Arguments (of the specification): workload, preset, seed, steps, all_reduce_bytes.
    """
    wanted = rank.arguments
    evidence: dict[str, Any] = {
        "rank": rank.rank,
        "backend": rank.backend,
        "device": str(rank.device),
        "name": rank.device.name(),
        "formed_s": rank.formed_s,
    }
    require_exact(rank)
    rank.phase("building the workload")
    job = get(wanted["workload"]).build(
        rank.device.torch, wanted["preset"], wanted["seed"], torch.float32, shard=(rank.rank, rank.world_size)
    )
    job.wrap(DistributedDataParallel)
    rank.phase("first backward")
    with shortened(False):  # gradients are compared as float32, not as tf32
        outcome = job.observe()
    torch.save(
        {name: gradient.double() for name, gradient in outcome.gradients.items()}, rank.folder / f"rank{rank.rank}.pt"
    )
    evidence["losses"] = [mean_loss(rank, _step(rank, job, number)) for number in range(wanted["steps"])]
    evidence["digest"] = digest(dict(job.model.named_parameters()))
    evidence["all_reduce"] = timing.one_size(rank, "all_reduce", wanted["all_reduce_bytes"])
    return evidence


def _step(rank: Rank, job: Job, number: int) -> torch.Tensor:
    rank.phase(f"step {number + 1}")
    return job.step()
