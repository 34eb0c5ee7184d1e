"""Short trainings that must end alike over ranks and in one process, under DDP and FSDP2: `data/convergence.toml`.

What every rank does stands beside what one process computes for it to agree with.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from stackproof import DATA
from stackproof.base import rpc
from stackproof.base.text import error_line
from stackproof.base.toml import Key, Wrong, kept
from stackproof.collectives.timing import all_reduce_rate
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement, judge, shortened
from stackproof.ranks.rank import Board, Rank, digest, mean_loss, require_exact
from stackproof.workloads.base import Job, StepResult
from stackproof.workloads.catalogue import get, theirs


def cases(workloads: list[str]) -> dict[str, Case]:
    """Return a case for each workload: `sharded-NAME` keeps gradients, `sharded-step-NAME` and `ddp-step-NAME` parameters."""
    return {f"sharded-{name}": partial(_both, name=name) for name in workloads}


def _both(rank: Rank, name: str) -> dict[str, Any]:
    job = job_of(rank, name)
    job.wrap(DistributedDataParallel)
    job.step()
    keep(rank, f"ddp-step-{name}", _whole(_trainable(job)))
    job = job_of(rank, name)
    share = _shard(rank, job)
    job.step()
    keep(rank, f"sharded-step-{name}", _whole(_trainable(job)))
    gradients = {what: parameter.grad for what, parameter in _trainable(job).items() if parameter.grad is not None}
    keep(rank, f"sharded-{name}", _whole(gradients))
    return {"share": share}


def job_of(rank: Rank, name: str) -> Job:
    return shard(name, rank.device.torch, torch.float32, rank.arguments["seed"], rank.rank, rank.world_size)


def _shard(rank: Rank, job: Job) -> float:
    """Shard every block and then the rest, as users do; return the share of the parameters that this rank keeps."""
    from torch.distributed.fsdp import fully_shard

    total = sum(parameter.numel() for parameter in job.model.parameters())
    mesh = init_device_mesh(rank.device.kind, (rank.world_size,))
    # What a list of layers holds, or else the model's own layers.
    owner = next((module for module in job.model.modules() if isinstance(module, nn.ModuleList)), job.model)
    for module in owner.children():
        if any(True for _ in module.parameters()):
            fully_shard(module, mesh=mesh)
    fully_shard(job.model, mesh=mesh)
    # Sharding replaces parameters; the optimiser has no state yet.
    job.optimiser.param_groups[0]["params"] = list(_trainable(job).values())
    kept: list[Any] = list(job.model.parameters())
    return float(sum(parameter.to_local().numel() for parameter in kept) / total)


def _trainable(job: Job) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in job.model.named_parameters() if parameter.requires_grad}


def _whole(tensors: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors whole; gathering a sharded one is a collective, so every rank asks in the same order."""
    return {name: getattr(tensor, "full_tensor", lambda t=tensor: t)() for name, tensor in tensors.items()}


TABLE = DATA / "convergence.toml"
_PART = "data-parallel"


@dataclass(frozen=True)
class Course:
    """A short training of a workload: its steps, and the share of the first loss that the last must be under.

    `whole_batch`: whether the mean of the ranks' gradients is the gradient of the global batch.
    """

    workload: str
    steps: int
    falls_to: float
    whole_batch: bool
    reason: str


@dataclass(frozen=True)
class SeedTrial:
    """The equivalence test: trainings from so many seeds, and the margin of the final loss, which is in the loss's own unit."""

    workload: str
    seeds: int
    scale: int
    epochs: int
    alpha: float
    margin: float
    reason: str

    def __post_init__(self) -> None:
        if self.seeds < 8:
            raise Wrong("seeds", f"is {self.seeds}; eight at least say something about the next one")


@dataclass(frozen=True)
class CoursePlan:
    """The table `data/convergence.toml`: seeds, steps and margins of training over ranks."""

    courses: Annotated[tuple[Course, ...], Key("course")]
    trial: Annotated[SeedTrial, Key("equivalence")]

    def course(self, workload: str) -> Course:
        return next(course for course in self.courses if course.workload == workload)


plan = kept(TABLE, CoursePlan)
_STEPS_OF_THEIRS = 5


@cache
def others() -> tuple[Course, ...]:
    """Return a course for each workload that is not ours and takes part in `data-parallel`.

    What its normalisation and its loss's mean see is its own affair, so one process takes the ranks' parts in turn. No loss has to fall:
    Adam's trajectories part by rounding alone.
    """
    reason = "a project's own; what its loss does is not known here"
    names = [name for name, entry in theirs().items() if _PART in entry.workload.offer.parts]
    return tuple(Course(name, _STEPS_OF_THEIRS, 1.0, False, reason) for name in names)


def steps_of(workload: str) -> int:
    return next(course.steps for course in (*plan().courses, *others()) if course.workload == workload)


PRESET: Literal["tiny"] = "tiny"
_HOST = HOST.torch


def scale_of(world: int) -> int:
    """Return the global batch as a multiple of the tiny one, whose samples are shared by two ranks at most."""
    return max(1, world // 2)


def shard(workload: str, device: torch.device, dtype: torch.dtype, seed: int, rank: int, world: int) -> Job:
    return get(workload).build(device, PRESET, seed, dtype, shard=(rank, world), scale=scale_of(world))


def whole(course: Course, device: torch.device, dtype: torch.dtype, seed: int, world: int) -> Job:
    """Build the job of one process that has every rank's part: in one batch, or as micro-batches where the parts matter."""
    workload = get(course.workload)
    if course.whole_batch:
        return workload.build(device, PRESET, seed, dtype, scale=scale_of(world))
    jobs = [shard(workload.name, device, dtype, seed, rank, world) for rank in range(world)]
    jobs[0].batches.extend(batch for job in jobs[1:] for batch in job.batches)
    return jobs[0]


@cache
def outcome(course: Course, dtype: torch.dtype, seed: int, world: int) -> StepResult:
    """Return one process's gradient of the global batch, computed on the CPU, once."""
    with shortened(False):
        return whole(course, _HOST, dtype, seed, world).observe()


@cache
def curve(course: Course, dtype: torch.dtype, seed: int, world: int) -> torch.Tensor:
    """Return one process's loss of the global batch at each step, computed on the CPU, once: float64 (steps,)."""
    with shortened(False):
        job = whole(course, _HOST, dtype, seed, world)
        return torch.stack([job.step() for _ in range(course.steps)]).double()


def judge_curve(course: Course, losses: list[float], seed: int, ranks: int) -> Judgement:
    """Judge the losses of ranks by one process's; each step may add the rule's bound: what is wrong once is trained on."""
    exact, anchor = (curve(course, dtype, seed, ranks) for dtype in (torch.float64, torch.float32))
    once = judge(torch.tensor(losses, dtype=torch.float64), exact, anchor, torch.float32)
    bound = once.bound * course.steps
    return Judgement(once.error <= bound, once.error, bound, once.anchor)


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


Case = Callable[[Rank], dict[str, Any]]

_PATIENCE_S = 20.0
_RAISED = "raised"


def conduct(rank: Rank, cases: Mapping[str, Case]) -> dict[str, Any]:
    """Run the cases in order and leave what each gave, by name; `error` is what all ranks raised.

    Several in one launch of ranks, which costs seconds: a case that every rank refuses alike does not end the others.

    float32 is computed as float32, never as tf32. What only some ranks raise is raised: the others wait for them in a collective.
    Arguments (of the specification): outcomes (a folder), rows (the cases that are left to do; none: all).
    """
    with (Path(rank.arguments["outcomes"]) / f"rank{rank.rank}.outcomes").open("a", encoding="utf-8") as stream:
        rpc.write(stream, {"row": "", "rows": list(cases)})
        for name in rank.arguments["rows"] or cases:
            rank.phase(name)
            try:
                with shortened(False):
                    result = cases[name](rank)
            except Exception as error:
                if set(Board(name).gather(rank, _RAISED, _PATIENCE_S)) != {_RAISED}:
                    raise
                result = {"error": error_line(error)}
            else:
                Board(name).put(f"end {rank.rank}", "done")
            rpc.write(stream, {"row": name, **result})
    return {"rank": rank.rank}


def keep(rank: Rank, case: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Leave tensors of this rank, as float64 on the CPU, where the checks read them: the folder `kept`, else the launch's own."""
    wide = {name: tensor.detach().cpu().double() for name, tensor in tensors.items()}
    torch.save(wide, Path(rank.arguments.get("kept", rank.folder)) / f"{case}.rank{rank.rank}.pt")


def run(rank: Rank) -> dict[str, Any]:
    """Return losses and digests by workload; gradients after the first backward are kept under the workload's name.

    Arguments (of the specification): workloads, seed.
    """
    return conduct(rank, {name: partial(_train_course, name=name) for name in rank.arguments["workloads"]})


def _train_course(rank: Rank, name: str) -> dict[str, Any]:
    job = job_of(rank, name)
    job.wrap(DistributedDataParallel)
    rank.phase("first backward")
    gradients = job.observe().gradients
    keep(rank, name, gradients)
    losses = []
    for number in range(steps_of(name)):
        rank.phase(f"step {number + 1}")
        losses.append(mean_loss(rank, job.step()))
    ended = digest(dict(job.model.named_parameters()))
    return {"losses": losses, "gradients": digest(gradients), "parameters": ended}


# Trainings from many seeds for the equivalence test: over ranks with torch's sampler, and the same pictures in one process.
def compressed(model: nn.Module) -> nn.Module:
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return wrapped


EXCHANGES: Mapping[str, Callable[[nn.Module], nn.Module]] = {"float32": DistributedDataParallel, "bfloat16": compressed}
"""How gradients travel, by the dtype that they travel in."""


def run_seeds(rank: Rank) -> dict[str, Any]:
    """Return final losses by seed for each way of exchange, and what torch's sampler deals to this rank for each `deal`.

    Arguments (of the specification): seeds.
    """
    cases = {name: partial(_trainings, wrapper=wrapper) for name, wrapper in EXCHANGES.items()}
    return conduct(rank, {"sampler": _sampled, **cases})


def _sampled(rank: Rank) -> dict[str, Any]:
    world = rank.world_size
    return {"dealt": [list(_dealt(rank.rank, world, seed, EPOCHS, **deal)) for seed, deal in deals(world)]}


def _trainings(rank: Rank, wrapper: Callable[[nn.Module], nn.Module]) -> dict[str, Any]:
    losses, ends = [], []
    for seed in rank.arguments["seeds"]:
        job = _pool(rank.device.torch, seed, rank.world_size)
        model = job.model
        job.wrap(wrapper)
        losses.append(_trained(job, batches_of(rank.world_size, seed, rank.rank)))
        ends.append(digest(dict(model.named_parameters())))
    return {"losses": losses, "parameters": ends}


def single(device: Device, seed: int, world: int) -> float:
    """Return the final loss of one process that takes what the ranks together take, step by step."""
    with shortened(False):
        return _trained(_pool(device.torch, seed, world), batches_of(world, seed))


def _trained(job: Job, order: Iterable[list[int]]) -> float:
    """Train over the pictures in the order given, and return the loss of all of them."""
    pool = job.batches[0]
    for chosen in order:
        job.batches = [{name: tensor[chosen] for name, tensor in pool.items()}]
        job.step()
    job.batches = [pool]
    job.wrap(lambda model: model)
    with torch.no_grad():
        return float(job.forward()[1])


def batches_of(world: int, seed: int, rank: int | None = None) -> Iterator[list[int]]:
    """Yield one rank's part of each step, as torch's sampler deals it; for one process, the permutation that the sampler documents."""
    trial, total = plan().trial, pictures(world)
    size = total // trial.scale // (1 if rank is None else world)
    orders = _permuted(total, seed, trial.epochs) if rank is None else _dealt(rank, world, seed, trial.epochs)
    for order in orders:
        yield from (order[start : start + size] for start in range(0, len(order), size))


def _permuted(total: int, seed: int, epochs: int) -> Iterator[list[int]]:
    for epoch in range(epochs):
        yield torch.randperm(total, generator=torch.Generator().manual_seed(seed + epoch)).tolist()


def _dealt(
    rank: int, world: int, seed: int, epochs: int, size: int = 0, shuffle: bool = True, drop_last: bool = False
) -> Iterator[list[int]]:
    everything: Any = range(size or pictures(world))
    options: Any = {"shuffle": shuffle, "seed": seed, "drop_last": drop_last}
    sampler: Any = DistributedSampler(everything, num_replicas=world, rank=rank, **options)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        yield list(sampler)


EPOCHS = 4
"""Epochs of each deal; the fourth is no repetition of the second."""


def deals(world: int) -> list[tuple[int, dict[str, Any]]]:
    """Return seeds and options of the sampler: sizes that the ranks divide and that they do not, one of a single picture."""
    sizes = (pictures(world), 5 * world, 5 * world + 1, 6 * world - 1, 1)
    return [
        (seed, {"size": size, "shuffle": shuffle, "drop_last": drop_last})
        for seed, size, shuffle, drop_last in itertools.product((0, 7), sizes, (True, False), (True, False))
    ]


def dealing(rank: int, world: int, order: list[int], drop_last: bool) -> list[int]:
    """Return a rank's part of an order as the sampler documents it: every N-th; too few begin again, or what is over is dropped."""
    each = len(order) // world if drop_last else -(-len(order) // world)
    return [order[place % len(order)] for place in range(rank, each * world, world)]


def documented(rank: int, world: int, seed: int, size: int, shuffle: bool, drop_last: bool) -> list[list[int]]:
    """Return what one of the `deals` must give a rank in each epoch."""
    orders = _permuted(size, seed, EPOCHS) if shuffle else [list(range(size))] * EPOCHS
    return [dealing(rank, world, order, drop_last) for order in orders]


@cache
def pictures(world: int) -> int:
    return len(_pool(HOST.torch, 0, world).batches[0]["labels"])


def _pool(device: torch.device, seed: int, world: int) -> Job:
    trial = plan().trial
    return get(trial.workload).build(device, PRESET, seed, torch.float32, scale=trial.scale * scale_of(world))


def run_smoke(rank: Rank) -> dict[str, Any]:
    """Return who this rank is, what `run` gives of one workload, and the rate of an all-reduce.

    Arguments (of the specification): workload, seed, all_reduce_mib.
    """
    require_exact(rank)
    with shortened(False):
        evidence = _train_course(rank, rank.arguments["workload"])
    return {
        "rank": rank.rank, "backend": rank.backend, "formed_s": rank.formed_s, "device": str(rank.device),
        "name": rank.device.name(), **evidence, "all_reduce": all_reduce_rate(rank, rank.arguments["all_reduce_mib"]),
    }  # fmt: skip
