"""What every rank does in the smoke run: join, prove an all-reduce, train the classifier under DDP, time the all-reduce."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stackproof.device.numerics import shortened
from stackproof.ranks.rank import Rank, digest, mean_loss
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get

_WARM_UP = 3


def train(rank: Rank) -> dict[str, Any]:
    """Return this rank's evidence; its gradients after the first backward go to `rankN.pt` as float64 on the CPU.

    Arguments (of the specification): workload, preset, seed, steps, all_reduce_bytes, repetitions.
    """
    wanted = rank.arguments
    evidence: dict[str, Any] = {
        "rank": rank.rank,
        "backend": rank.backend,
        "device": str(rank.device),
        "name": rank.device.name(),
        "formed_s": rank.formed_s,
    }
    _require_exact(rank)
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
    evidence["all_reduce_s"] = _timed(rank, wanted["all_reduce_bytes"] // 4, wanted["repetitions"])
    return evidence


def _require_exact(rank: Rank) -> None:
    """Sum whole numbers that differ by rank and place; the sum is known without the backend and exact in float32."""
    rank.phase("all-reduce of known data")
    places = torch.arange(1031, dtype=torch.float32)
    mine = (places + 7 * rank.rank).to(rank.device.torch)
    dist.all_reduce(mine)
    expected = places * rank.world_size + 7 * sum(range(rank.world_size))
    if not torch.equal(mine.cpu(), expected):
        raise RuntimeError("an all-reduce of known whole numbers is wrong")


def _step(rank: Rank, job: Job, number: int) -> torch.Tensor:
    rank.phase(f"step {number + 1}")
    return job.step()


def _timed(rank: Rank, elements: int, repetitions: int) -> list[float]:
    """Return this rank's seconds for each all-reduce of `elements` float32, each between two barriers' worth of waiting."""
    rank.phase("timing the all-reduce")
    buffer = torch.ones(elements, device=rank.device.torch)
    seconds = []
    for _ in range(repetitions + _WARM_UP):
        buffer.fill_(1.0)
        dist.barrier()
        watch = rank.device.stopwatch()
        rank.device.synchronize()
        watch.start()
        dist.all_reduce(buffer)
        watch.stop()
        seconds.append(watch.seconds())
    if not bool((buffer == rank.world_size).all()):
        raise RuntimeError(f"the timed all-reduce of {elements} elements gave wrong sums")
    return seconds[_WARM_UP:]
