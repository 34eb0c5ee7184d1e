"""The ways in which users set up DDP, each as a case that every rank runs; all of them must give the same gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from stackproof.ddp import course
from stackproof.ddp.course import Case, conduct, keep, shard
from stackproof.ranks.exact import digest
from stackproof.ranks.rank import Rank
from stackproof.workloads.base import Job
from suites.recompute.checkpointing import switch

UNEVEN_STEPS = 3

Converter = Callable[[nn.Module], nn.Module]


class Spare(nn.Module):
    """The model beside a layer that no loss reaches."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.spare = nn.Linear(3, 3, device=next(model.parameters()).device)

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Pass everything to the model."""
        return self.model(*arguments, **keywords)


@dataclass(frozen=True)
class Variant:
    """A workload, the options that DDP gets, and what is done to the job before.

    `unused`: put a layer beside the model that gets no gradient. `recompute`: the kind of activation checkpointing.
    """

    name: str
    workload: str
    options: dict[str, Any]
    unused: bool = False
    recompute: str = ""
    synchronised: bool = False
    hook: Callable[..., Any] = default_hooks.allreduce_hook

    def prepare(self, job: Job) -> None:
        """Switch on what the variant is about."""
        if self.recompute:
            switch(job, self.recompute)

    def wrap(self, counter: list[int], model: nn.Module) -> DistributedDataParallel:
        """Wrap the model; every exchange of a bucket is counted."""
        convert: Converter = nn.SyncBatchNorm.convert_sync_batchnorm
        inner = convert(model) if self.synchronised else model
        wrapped = DistributedDataParallel(Spare(inner) if self.unused else inner, **self.options)

        def counting(state: Any, bucket: Any) -> Any:
            counter.append(bucket.buffer().numel())
            return self.hook(state, bucket)

        counting.__annotations__ = {}  # torch compares them with classes, and here they are strings
        wrapped.register_comm_hook(None, counting)
        return wrapped


_LORA, _PLAIN = "llama3-8b-lora", "classifier"
VARIANTS = (
    Variant("unused-parameters", _LORA, {"find_unused_parameters": True}, unused=True),
    Variant("static-graph", _PLAIN, {"static_graph": True}, unused=True),
    Variant("one-bucket", _PLAIN, {"bucket_cap_mb": 100}),
    Variant("small-buckets", _PLAIN, {"bucket_cap_mb": 0.004}),
    Variant("gradients-as-views", _PLAIN, {"gradient_as_bucket_view": True}),
    Variant("accumulation", _LORA, {}),
    Variant("recompute-reentrant", _LORA, {}, recompute="reentrant"),
    Variant("recompute-non-reentrant", _LORA, {}, recompute="non-reentrant"),
    Variant("bfloat16-exchange", _PLAIN, {}, hook=default_hooks.bf16_compress_hook),
    Variant("synchronised-norm", "yolov8n", {}, synchronised=True),
)
NAMES = tuple(variant.name for variant in VARIANTS)


def of_name(name: str) -> Variant:
    """Return a variant by name."""
    return next(variant for variant in VARIANTS if variant.name == name)


def run(rank: Rank) -> dict[str, Any]:
    """Run the variants, an uneven number of batches, and sharded steps.

    Arguments (of the specification): seed, variants (names), sharded (workloads).
    """
    cases: dict[str, Case] = {name: partial(_observe, variant=of_name(name)) for name in rank.arguments["variants"]}
    return conduct(rank, {**cases, "uneven": _uneven, **course.cases(rank.arguments["sharded"])})


def _job(rank: Rank, workload: str) -> Job:
    return shard(workload, rank.device.torch, torch.float32, rank.arguments["seed"], rank.rank, rank.world_size)


def _observe(rank: Rank, variant: Variant) -> dict[str, Any]:
    """Keep the gradients of the second backward: DDP rebuilds its buckets after the first, and a static graph is known by then."""
    counter: list[int] = []
    job = _job(rank, variant.workload)
    variant.prepare(job)
    job.wrap(partial(variant.wrap, counter))
    job.observe()
    counter.clear()
    gradients = job.observe().gradients
    keep(rank, variant.name, gradients)
    return {"gradients": digest(gradients), "exchanged": counter, "micro_batches": len(job.batches)}


def _uneven(rank: Rank) -> dict[str, Any]:
    """Train with a last batch that only rank 0 has, under `join`; keep what the training changed."""
    job = _job(rank, _PLAIN)
    before = {name: parameter.detach().clone() for name, parameter in job.model.named_parameters()}
    wrapped = DistributedDataParallel(job.model)
    job.wrap(lambda _: wrapped)
    with wrapped.join():
        for _ in range(UNEVEN_STEPS - (rank.rank > 0)):
            job.step()
    after = dict(job.model.named_parameters())
    keep(rank, "uneven", {name: after[name] - old for name, old in before.items()})
    return {"parameters": digest(after)}
