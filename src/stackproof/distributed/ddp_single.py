"""What one process computes where ranks compute together: the gradient and the losses that they must agree with."""

from __future__ import annotations

from functools import cache
from typing import Literal

import torch
from torch import nn

from ..numerics import shortened
from ..workloads import Job, Outcome, Workload, get
from .ddp_table import Course

PRESET: Literal["tiny"] = "tiny"
_HOST = torch.device("cpu")


def scale_of(world: int) -> int:
    """Return the global batch as a multiple of the tiny one, whose samples are shared by two ranks at most."""
    return max(1, world // 2)


def shard(workload: str, device: torch.device, dtype: torch.dtype, seed: int, rank: int, world: int) -> Job:
    """Build the job of one rank."""
    return get(workload).build(device, PRESET, seed, dtype, shard=(rank, world), scale=scale_of(world))


def whole(course: Course, device: torch.device, dtype: torch.dtype, seed: int, world: int) -> Job:
    """Build the job of one process that has every rank's part: in one batch, or as micro-batches where the parts matter."""
    workload = get(course.workload)
    if course.whole_batch:
        return workload.build(device, PRESET, seed, dtype, scale=scale_of(world))
    return _in_turn(workload, device, dtype, seed, world)


def _in_turn(workload: Workload, device: torch.device, dtype: torch.dtype, seed: int, world: int) -> Job:
    jobs = [shard(workload.name, device, dtype, seed, rank, world) for rank in range(world)]
    jobs[0].batches.extend(batch for job in jobs[1:] for batch in job.batches)
    return jobs[0]


@cache
def outcome(course: Course, dtype: torch.dtype, seed: int, world: int) -> Outcome:
    """Return one process's gradient of the global batch, computed on the CPU, once."""
    with shortened(False):
        return whole(course, _HOST, dtype, seed, world).observe()


@cache
def curve(course: Course, dtype: torch.dtype, seed: int, world: int) -> torch.Tensor:
    """Return one process's loss of the global batch at each step, computed on the CPU, once: float64 (steps,)."""
    with shortened(False):
        job = whole(course, _HOST, dtype, seed, world)
        return torch.stack([job.step() for _ in range(course.steps)]).double()


class _Slice(nn.Module):
    """Runs the model over all pictures and returns those of one rank: as if the ranks' normalisation had seen each other's."""

    def __init__(self, model: nn.Module, images: torch.Tensor, part: slice) -> None:
        super().__init__()
        self.model, self.images, self.part = model, images, part

    def forward(self, _own: torch.Tensor) -> object:
        return _cut(self.model(self.images), self.part)


def _cut(found: object, part: slice) -> object:
    if isinstance(found, torch.Tensor):
        return found[part]
    if isinstance(found, dict):
        return {key: _cut(value, part) for key, value in found.items()}
    assert isinstance(found, (list, tuple))
    return [_cut(value, part) for value in found]


@cache
def synchronised(course: Course, dtype: torch.dtype, seed: int, world: int) -> dict[str, torch.Tensor]:
    """Return the gradients of a detector whose normalisation sees the global batch and whose losses see the ranks' parts."""
    job = whole(course, _HOST, dtype, seed, world)
    images = torch.cat([batch["img"] for batch in job.batches])
    size = len(images) // world
    with shortened(False):
        for rank, batch in enumerate(job.batches):
            part = slice(rank * size, (rank + 1) * size)
            job.wrap(lambda model, part=part: _Slice(model, images, part))  # type: ignore[misc]
            job.batches[0] = batch
            job.differentiate(job.forward()[1] / world)
    return {name: tensor.grad for name, tensor in job.model.named_parameters() if tensor.grad is not None}
