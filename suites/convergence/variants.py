"""The ways in which users set up DDP, each as a case that every rank runs; all of them must give the same gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from stackproof.ddp import course
from stackproof.ddp.course import Case, conduct, job_of, keep
from stackproof.project.offers import playing
from stackproof.ranks.rank import Rank, digest
from suites.convergence import stepwise

BROADCAST, ODD = "broadcast", "sharded-odd"

UNEVEN_STEPS = 3
FORWARDS = ("train", "eval", "no_grad")
"""Ways of running a forward; buffers are sent before each."""


class Spare(nn.Module):
    """The model beside a layer that no loss reaches."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.spare = nn.Linear(3, 3, device=next(model.parameters()).device)

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
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

    def wrap(self, counter: list[int], model: nn.Module) -> DistributedDataParallel:
        """Wrap the model; every exchange of a bucket is counted."""
        inner: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model) if self.synchronised else model
        wrapped = DistributedDataParallel(Spare(inner) if self.unused else inner, **self.options)

        def counting(state: Any, bucket: Any) -> Any:
            counter.append(bucket.buffer().numel())
            own, kept = bucket.buffer().untyped_storage(), [parameter.grad for parameter in bucket.parameters()]
            views = any(g is not None and g.untyped_storage().data_ptr() == own.data_ptr() for g in kept)
            asked = "gradient_as_bucket_view" in self.options
            assert views == asked, (
                f"gradient_as_bucket_view={asked}: gradients are{'' if views else ' no'} views of their bucket"
            )
            return default_hooks.allreduce_hook(state, bucket)

        counting.__annotations__ = {}  # torch compares them with classes, and here they are strings
        wrapped.register_comm_hook(None, counting)
        return wrapped


_LORA, _PLAIN = playing("accumulating"), playing("plain")
VARIANTS = (
    Variant("unused-parameters", _LORA, {"find_unused_parameters": True}, unused=True),
    Variant("static-graph", _PLAIN, {"static_graph": True}, unused=True),
    Variant("one-bucket", _PLAIN, {"bucket_cap_mb": 100}),
    Variant("small-buckets", _PLAIN, {"bucket_cap_mb": 0.004}),
    Variant("gradients-as-views", _PLAIN, {"gradient_as_bucket_view": True}),
    Variant("accumulation", _LORA, {}),
    Variant("recompute-reentrant", _LORA, {}, recompute="reentrant"),
    Variant("recompute-non-reentrant", _LORA, {}, recompute="non-reentrant"),
    Variant("synchronised-norm", playing("normalised"), {}, synchronised=True),
)
NAMES = tuple(variant.name for variant in VARIANTS)


def of_name(name: str) -> Variant:
    return next(variant for variant in VARIANTS if variant.name == name)


def run(rank: Rank) -> dict[str, Any]:
    """Run the variants, an uneven number of batches, and sharded steps.

    Arguments (of the specification): seed, variants (names), sharded (workloads).
    """
    cases: dict[str, Case] = {name: partial(_observe, variant=of_name(name)) for name in rank.arguments["variants"]}
    odd: dict[str, Case] = {ODD: _odd} if rank.arguments["sharded"] else {}
    also: dict[str, Case] = {"uneven": _uneven, BROADCAST: _broadcast, stepwise.CASE: stepwise.case}
    return conduct(rank, {**cases, **also, **course.cases(rank.arguments["sharded"]), **odd})


def _observe(rank: Rank, variant: Variant) -> dict[str, Any]:
    """Keep the gradients of the second backward: DDP rebuilds its buckets after the first, and a static graph is known by then."""
    counter: list[int] = []
    job = job_of(rank, variant.workload)
    if variant.recompute:
        job.recompute(variant.recompute)
    job.wrap(partial(variant.wrap, counter))
    job.observe()
    counter.clear()
    gradients = job.observe().gradients
    keep(rank, variant.name, gradients)
    return {"gradients": digest(gradients), "exchanged": counter, "micro_batches": len(job.batches)}


def _uneven(rank: Rank) -> dict[str, Any]:
    """Train with a last batch that only rank 0 has, under `join`; keep what the training changed."""
    job = job_of(rank, _PLAIN)
    before = {name: parameter.detach().clone() for name, parameter in job.model.named_parameters()}
    wrapped = DistributedDataParallel(job.model)
    job.wrap(lambda _: wrapped)
    with wrapped.join():
        for _ in range(UNEVEN_STEPS - (rank.rank > 0)):
            job.step()
    after = dict(job.model.named_parameters())
    keep(rank, "uneven", {name: after[name] - old for name, old in before.items()})
    return {"parameters": digest(after)}


class Counted(nn.Module):
    """A layer beside a frozen parameter and buffers of several dtypes, one not saved, that its forward does not touch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.frozen = nn.Parameter(torch.randn(7), requires_grad=False)
        for name, dtype in (("scale", torch.float32), ("steps", torch.int64), ("mask", torch.bool)):
            self.register_buffer(name, (torch.arange(7) % 2).to(dtype))
        self.register_buffer("cache", torch.arange(7.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(x)
        return output


def _broadcast(rank: Rank) -> dict[str, Any]:
    """Wrap a module that every rank has of its own, spoil its buffers, and run it forward in each way: rank 0's count each time.

    Returns digests: of rank 0's own (`own`, for all: computed from its seed), of what a rank holds once it is wrapped (`wrapped`),
    of its buffers after a forward (`buffers`, by way), and of those that DDP was told to leave alone (`alone`).
    """
    own = _counted(rank, 0)
    mine = _counted(rank, rank.rank)
    wrapped = DistributedDataParallel(mine)
    digests = {"own": _state(own), "wrapped": _state(mine), "own buffers": digest(dict(own.named_buffers()))}
    buffers = {}
    for way in FORWARDS:
        _spoil(mine, rank.rank)
        wrapped.train(way != "eval")
        with torch.set_grad_enabled(way != "no_grad"):
            wrapped(torch.ones(2, 5, device=rank.device.torch))
        buffers[way] = digest(dict(mine.named_buffers()))
    apart = _counted(rank, 0)
    left = DistributedDataParallel(apart, broadcast_buffers=False)
    _spoil(apart, rank.rank)
    left(torch.ones(2, 5, device=rank.device.torch))
    return {**digests, "buffers": buffers, "alone": digest(dict(apart.named_buffers()))}


def _state(module: nn.Module) -> str:
    """Return the digest of parameters and buffers, those that are not saved too."""
    return digest({**dict(module.named_parameters()), **dict(module.named_buffers())})


def _counted(rank: Rank, seed: int) -> Counted:
    torch.manual_seed(rank.arguments["seed"] + seed)
    module = Counted()
    _spoil(module, seed)
    return module.to(rank.device.torch)


def _spoil(module: nn.Module, number: int) -> None:
    """Move every buffer by a rank's number, so that no two ranks hold the same."""
    for buffer in module.buffers():
        buffer.copy_(buffer.logical_not() if buffer.dtype is torch.bool and number % 2 else buffer + number)


def odd(device: torch.device, dtype: torch.dtype, seed: int) -> tuple[nn.Module, torch.Tensor]:
    """Return a model whose sizes no number of ranks divides, of one element too, and pictures of seven numbers for eight ranks."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1))
    return model.to(device, dtype), torch.randn(16, 7).to(device, dtype)


def trained_odd(model: nn.Module, batch: torch.Tensor) -> None:
    """Take one step of plain SGD on the mean of squares."""
    (model(batch) ** 2).mean().backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()


def _odd(rank: Rank) -> dict[str, Any]:
    """Shard the odd model layer by layer, take a step, and keep its gradients and parameters whole."""
    from torch.distributed.fsdp import fully_shard

    model, batch = odd(rank.device.torch, torch.float32, rank.arguments["seed"])
    mesh = init_device_mesh(rank.device.kind, (rank.world_size,))
    for module in (*model.children(), model):
        fully_shard(module, mesh=mesh)
    part = len(batch) // rank.world_size
    trained_odd(model, batch[rank.rank * part : (rank.rank + 1) * part])
    keep(rank, ODD, {name: tensor.full_tensor() for name, tensor in odd_tensors(model).items()})
    return {}


def odd_tensors(model: nn.Module) -> dict[str, Any]:
    """Return gradients and parameters by name."""
    tensors: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        tensors |= {f"{name}.grad": parameter.grad, name: parameter.detach()}
    return tensors
