"""What runs in each of several ranks: collectives, and training under data parallelism. The time of a step is the slowest rank's.

Every rank takes the same decisions, because all look at the slowest rank's seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stackproof.base.toml import Table
from stackproof.bench.engine import timed
from stackproof.bench.subjects import FILE, Budget
from stackproof.collectives.timing import Together
from stackproof.device.kinds import Device
from stackproof.ranks.rank import Rank, digest, require_exact
from stackproof.record.checks import require
from stackproof.workloads.base import Job, Preset
from stackproof.workloads.collectives import TimedCollective
from stackproof.workloads.gradients import against_float64
from stackproof.workloads.training import SEED, TrainingSteps
from stackproof.workloads.work import Setting, Work

_REST_S = 0.2


def as_rank_0(device: Device, asked: bool) -> bool:
    """Return what rank 0 wants: between the blocks all ranks do the same."""
    word = torch.tensor([float(asked)], dtype=torch.float32).to(device.torch)
    dist.broadcast(word, 0)
    return bool(word.item())


def communicator(rank: Rank) -> dict[str, Any]:
    """Say how long forming the group took, after the group summed the ranks' own numbers right."""
    require_exact(rank)
    rest()
    return {"formed_s": rank.formed_s}


def repeated(rank: Rank) -> dict[str, Any]:
    """Measure work that all ranks repeat together."""
    rank.phase("building the work")
    work = work_of(rank)
    rank.phase("proving and warming up")
    sampler = Together(rank.device, work.run, begin=work.begin, most=work.most_runs)
    phase = partial(rank.phase, "sampling, or proving once more")
    fields = timed(work, sampler, Budget(**rank.arguments["budget"]), partial(as_rank_0, rank.device), phase)
    rest()
    return {"fields": fields, "backend": rank.backend, "formed_s": rank.formed_s}


def work_of(rank: Rank) -> Work:
    """Build this rank's part of the work that the subject's row names."""
    arguments = rank.arguments
    parameters = {name: value for name, value in arguments["parameters"].items() if name != "ranks"}
    setting = Setting(rank.device, arguments["preset"], Table(FILE, parameters))
    return TimedCollective(setting) if arguments["kind"] == "collective" else Parallel(setting, rank)


def rest() -> None:
    """Let the backend's threads drop the last tensors before the group is left.

    A thread of gloo that frees one needs Python's lock, which leaving the group holds while it waits for that thread: with
    torch 2.4.1 on a busy host every second group hung there.
    """
    dist.barrier()
    time.sleep(_REST_S)


class Parallel(TrainingSteps):
    """A training step over all ranks; what it is worth counts the samples of all."""

    def __init__(self, setting: Setting, rank: Rank) -> None:
        self.rank = rank
        super().__init__(setting)
        self.worth = {name: amount * rank.world_size for name, amount in self.worth.items()}

    def build(self, preset: Preset, dtype: torch.dtype | None = None, autocast: torch.dtype | None = None) -> Job:
        place, world = (self.rank.rank, self.rank.world_size), self.rank.world_size
        job = self.workload.build(self.device.torch, preset, SEED, dtype, autocast, shard=place, scale=world)
        job.wrap(DistributedDataParallel)
        return job

    def against_reference(self) -> str:
        """The ranks' mean gradient is the global batch's in float64, and every rank has the same bits of it."""
        job = self.job if self.preset == "tiny" else self.build("tiny", torch.float32, self.job.recipe.autocast)
        text = against_float64(self.workload, job)
        _same_everywhere(self.device, job.observe().gradients)
        return f"mean gradient of {self.rank.world_size} ranks, equal on all: {text}"


def _same_everywhere(device: Device, gradients: Mapping[str, torch.Tensor]) -> None:
    """Ranks whose gradients differ by a bit drift apart: compare a digest of all bits."""
    words = torch.tensor(list(bytes.fromhex(digest(gradients))), dtype=torch.int32).to(device.torch)
    low, high = words.clone(), words.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    require(bool(torch.equal(low, high)), "the ranks do not have the same gradient after the exchange")
