"""Trainings from many seeds for the equivalence test: over ranks with torch's sampler, and the same pictures in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from stackproof.ddp.course import PRESET, conduct, plan, scale_of
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.device.numerics import shortened
from stackproof.ranks.exact import digest
from stackproof.ranks.rank import Rank
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get

Wrapper = Callable[[nn.Module], nn.Module]
Order = Iterable[list[int]]


def compressed(model: nn.Module) -> nn.Module:
    """Wrap for gradients that travel as bfloat16."""
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return wrapped


EXCHANGES: Mapping[str, Wrapper] = {"float32": DistributedDataParallel, "bfloat16": compressed}
"""How gradients travel, by the dtype that they travel in."""


def run(rank: Rank) -> dict[str, Any]:
    """Return final losses by seed for each way of exchange, and the samples that this rank draws in two epochs.

    Arguments (of the specification): seeds.
    """
    cases = {name: partial(_trainings, wrapper=wrapper) for name, wrapper in EXCHANGES.items()}
    return conduct(rank, {"sampler": _drawn, **cases})


def _drawn(rank: Rank) -> dict[str, Any]:
    sampler = _sampler(pictures(rank.world_size), rank.rank, rank.world_size, seed=0)
    return {"epochs": [_epoch(sampler, epoch) for epoch in range(2)]}


def _trainings(rank: Rank, wrapper: Wrapper) -> dict[str, Any]:
    losses, ends = [], []
    for seed in rank.arguments["seeds"]:
        job = _job(rank.device.torch, seed, rank.world_size)
        model = job.model
        job.wrap(wrapper)
        losses.append(trained(job, of_rank(rank.rank, rank.world_size, seed)))
        ends.append(digest(dict(model.named_parameters())))
    return {"losses": losses, "parameters": ends}


def single(device: Device, seed: int, world: int) -> float:
    """Return the final loss of one process that takes what the ranks together take, step by step."""
    with shortened(False):
        return trained(_job(device.torch, seed, world), of_one(world, seed))


def trained(job: Job, order: Order) -> float:
    """Train over the pictures in the order given, and return the loss of all of them."""
    pool = job.batches[0]
    for chosen in order:
        job.batches = [{name: tensor[chosen] for name, tensor in pool.items()}]
        job.step()
    job.batches = [pool]
    job.wrap(lambda model: model)
    with torch.no_grad():
        return float(job.forward()[1])


def of_rank(rank: int, world: int, seed: int) -> Iterator[list[int]]:
    """Yield one rank's part of each step, as torch's sampler deals it."""
    trial, total = plan().trial, pictures(world)
    sampler, share = _sampler(total, rank, world, seed), total // trial.scale // world
    for epoch in range(trial.epochs):
        mine = _epoch(sampler, epoch)
        yield from (mine[start : start + share] for start in range(0, len(mine), share))


def of_one(world: int, seed: int) -> Iterator[list[int]]:
    """Yield each step's global batch: the permutation that the sampler documents, cut into batches without it."""
    trial, total = plan().trial, pictures(world)
    size = total // trial.scale
    for epoch in range(trial.epochs):
        order = torch.randperm(total, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
        yield from (order[start : start + size] for start in range(0, total, size))


@cache
def pictures(world: int) -> int:
    """Return how many pictures the pool has."""
    return len(_job(HOST.torch, 0, world).batches[0]["labels"])


def _job(device: torch.device, seed: int, world: int) -> Job:
    """Build the whole pool as one batch."""
    trial = plan().trial
    return get(trial.workload).build(device, PRESET, seed, torch.float32, scale=trial.scale * scale_of(world))


def _sampler(total: int, rank: int, world: int, seed: int) -> DistributedSampler[Any]:
    return DistributedSampler(range(total), num_replicas=world, rank=rank, shuffle=True, seed=seed)  # type: ignore[arg-type]


def _epoch(sampler: DistributedSampler[Any], epoch: int) -> list[int]:
    sampler.set_epoch(epoch)
    return list(sampler)
