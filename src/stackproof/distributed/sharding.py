"""FSDP2's `fully_shard` beside DDP: one step of each from the same weights, whose results must be the same parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from ..workloads import Job
from .ddp_cases import Case, keep
from .ddp_single import shard
from .rank import Rank


def cases(workloads: list[str]) -> dict[str, Case]:
    """Return a case for each workload: `sharded-NAME` keeps gradients, `sharded-step-NAME` and `ddp-step-NAME` parameters."""
    return {f"sharded-{name}": partial(_both, name=name) for name in workloads}


def _both(rank: Rank, name: str) -> dict[str, Any]:
    job = _job(rank, name)
    job.wrap(DistributedDataParallel)
    job.step()
    keep(rank, f"ddp-step-{name}", _whole(_trainable(job)))
    job = _job(rank, name)
    share = _shard(rank, job)
    job.step()
    keep(rank, f"sharded-step-{name}", _whole(_trainable(job)))
    gradients = {what: parameter.grad for what, parameter in _trainable(job).items() if parameter.grad is not None}
    keep(rank, f"sharded-{name}", _whole(gradients))
    return {"share": share}


def _job(rank: Rank, name: str) -> Job:
    return shard(name, rank.device.torch, torch.float32, rank.arguments["seed"], rank.rank, rank.world_size)


def _shard(rank: Rank, job: Job) -> float:
    """Shard every block and then the rest, as users do; return the share of the parameters that this rank keeps."""
    from torch.distributed.fsdp import fully_shard

    total = sum(parameter.numel() for parameter in job.model.parameters())
    mesh = init_device_mesh(rank.device.kind, (rank.world_size,))
    for module in _blocks(job.model):
        fully_shard(module, mesh=mesh)
    fully_shard(job.model, mesh=mesh)
    # Sharding replaces parameters; the optimiser has no state yet.
    job.optimiser.param_groups[0]["params"] = list(_trainable(job).values())
    kept: list[Any] = list(job.model.parameters())
    return float(sum(parameter.to_local().numel() for parameter in kept) / total)


def _blocks(model: nn.Module) -> list[nn.Module]:
    """Return what a list of layers holds, or else the model's own layers."""
    owner = next((module for module in model.modules() if isinstance(module, nn.ModuleList)), model)
    return [module for module in owner.children() if any(True for _ in module.parameters())]


def _trainable(job: Job) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in job.model.named_parameters() if parameter.requires_grad}


def _whole(tensors: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors whole; gathering a sharded one is a collective, so every rank asks in the same order."""
    return {name: getattr(tensor, "full_tensor", lambda t=tensor: t)() for name, tensor in tensors.items()}
