"""Options of DDP and FSDP2, each over some steps of a small network of odd sizes: what ranks do, and what one process computes.

All follow one rule, so there is one reference: the gradient of a step is the mean over the ranks that take part, summed over micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from stackproof.ddp.course import Case, conduct, keep
from stackproof.ranks.rank import Rank

STEPS, _SAMPLES, _RATE = 4, 6, 0.2
_NORM = 0.05
"""Below every step's own norm, so that each is clipped."""
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Option:
    """A way of wrapping, and what it changes of the training.

    `wrapped` and `shared` are what `DistributedDataParallel` and `fully_shard` are given; `micro` batches make a step, all but the last of
    which exchange nothing. `some`: only rank 0 uses the layer at the side. `ends`: only rank 0 has the last step, under `join`.
    `clip`: the norm that gradients are clipped to. `state`: each rank has the optimiser's state of some parameters, and takes their step.
    `reload`: after the second step the model is saved, and loaded into another, over all ranks and on each alone. `functional`: the
    program exchanges by functional collectives. `tensor`: layers are cut, and all ranks have rank 0's batch.
    """

    name: str
    wrapped: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)
    sharded: bool = False
    micro: int = 1
    some: bool = False
    ends: bool = False
    hook: Callable[..., Any] | None = None
    exchanged: torch.dtype = torch.float32
    clip: float = 0.0
    momentum: float = 0.0
    state: bool = False
    reload: bool = False
    functional: bool = False
    tensor: bool = False

    @property
    def shards(self) -> bool:
        """Whether it takes what sharding takes."""
        return self.sharded or self.functional or self.tensor

    def taking_part(self, step: int, ranks: int) -> range:
        """Return the ranks that have a batch in a step."""
        return range(1) if self.tensor or (self.ends and step == STEPS - 1) else range(ranks)


OPTIONS = (
    Option("static-graph", {"static_graph": True}),
    Option("used-by-some", {"find_unused_parameters": True}, some=True),
    Option("views-accumulated", {"gradient_as_bucket_view": True}, micro=3),
    Option("accumulated", {"bucket_cap_mb": 0.0001}, micro=4),
    Option("ends-early", ends=True),
    Option("float16-exchange", hook=default_hooks.fp16_compress_hook, exchanged=torch.float16),
    Option("bfloat16-exchange", hook=default_hooks.bf16_compress_hook, exchanged=torch.bfloat16),
    Option("sharded", sharded=True),
    Option("sharded-kept", shared={"reshard_after_forward": False}, sharded=True),
    Option("sharded-accumulated", sharded=True, micro=3),
    Option("sharded-bfloat16", sharded=True, exchanged=torch.bfloat16),
    Option("clipped", clip=_NORM),
    Option("sharded-clipped", sharded=True, clip=_NORM),
    Option("optimiser-state-shared", momentum=0.9, state=True),
    Option("sharded-reloaded", sharded=True, reload=True),
    Option("functional", functional=True),
    Option("tensor-parallel", tensor=True),
)


def of_name(name: str) -> Option:
    return next(option for option in OPTIONS if option.name == name)


class Forked(nn.Module):
    """Two layers, one at the side that a forward may leave out, and one that none uses; no size divides by two unless it is cut.

    The layer before them is never cut: its gradient is what cut layers hand back.
    """

    def __init__(self, idle: bool, hidden: int) -> None:
        super().__init__()
        self.before, self.last = nn.Linear(7, 7), nn.Linear(hidden, 3)
        self.first, self.side = nn.Linear(7, hidden), nn.Linear(7, hidden)
        self.idle = nn.Linear(3, 3) if idle else nn.Identity()

    def forward(self, x: torch.Tensor, both: bool) -> torch.Tensor:
        """Return what the last layer makes of one layer, or of both."""
        x = torch.tanh(self.before(x))
        hidden = self.first(x) + self.side(x) if both else self.first(x)
        output: torch.Tensor = self.last(torch.tanh(hidden))
        return output


def network(seed: int, device: torch.device, dtype: torch.dtype, option: Option) -> Forked:
    """Return the same network on every rank and in one process."""
    torch.manual_seed(seed)
    idle = option.some or "static_graph" in option.wrapped  # without the option DDP waits for that layer, and raises
    return Forked(idle, 8 if option.tensor else 5).to(device, dtype)


def _optimiser(option: Option, model: nn.Module) -> torch.optim.Optimizer:
    plain: dict[str, Any] = {"lr": _RATE, "momentum": option.momentum}
    if option.state and dist.is_initialized():
        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, **plain)
    return torch.optim.SGD(model.parameters(), **plain, foreach=False if option.tensor else None)  # some are not cut


def loss(runner: nn.Module, option: Option, place: tuple[int, int, int]) -> torch.Tensor:
    """Return the loss of a step's micro-batch on a rank: `place` is (step, micro-batch, rank)."""
    step, micro, rank = place
    numbers = torch.randn(_SAMPLES, 7, generator=torch.Generator().manual_seed(10_000 * step + 100 * micro + rank))
    parameter = next(runner.parameters())
    output = runner(numbers.to(parameter.device, parameter.dtype), not option.some or rank == 0)
    squares: torch.Tensor = output**2
    return squares.mean()


def one_process(option: Option, dtype: torch.dtype, seed: int, ranks: int) -> Tensors:
    """Return what the ranks must keep, from one process on the CPU that takes every rank's part in turn."""
    model, results = network(seed, torch.device("cpu"), dtype, option), Tensors()
    optimiser = _optimiser(option, model)
    for step in range(STEPS):
        model.zero_grad()
        active = option.taking_part(step, ranks)
        for rank in active:
            for micro in range(option.micro):
                (loss(model, option, (step, micro, rank)) / len(active)).backward()
        _note(results, option, step, model, optimiser)
    return results


def run(rank: Rank) -> dict[str, Any]:
    """Train under each option. Arguments (of the specification): seed, options (names)."""
    cases: dict[str, Case] = {name: partial(_case, option=of_name(name)) for name in rank.arguments["options"]}
    return conduct(rank, cases)


def _case(rank: Rank, option: Option) -> dict[str, Any]:
    """Wrap, train, and keep every step's gradients (not of steps that some ranks have not), and the parameters after the last."""
    model, results = network(rank.arguments["seed"], rank.device.torch, torch.float32, option), Tensors()
    runner = _made(rank, option, model)
    optimiser = _optimiser(option, model)
    with runner.join(divide_by_initial_world_size=False) if option.ends else nullcontext():
        for step in range(STEPS):
            if option.tensor or rank.rank in option.taking_part(step, rank.world_size):
                _train(rank, option, runner, step)
                _note(results, option, step, model, optimiser)
            if option.reload and step == STEPS // 2 - 1:
                model = runner = _reloaded(rank, option, model)
                optimiser = _optimiser(option, model)
    if option.state:
        kept = len(optimiser.optim.state)  # type: ignore[attr-defined]
        assert 0 < kept < len(list(model.parameters())), f"a rank keeps the optimiser's state of {kept} parameters"
    if option.ends:  # `join` sends what is right to the ranks that ended before
        results |= {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    keep(rank, option.name, results)
    return {}


def _made(rank: Rank, option: Option, model: nn.Module) -> Any:
    if option.functional:
        return model
    if option.sharded:
        return _sharded(rank, option, model)
    if option.tensor:
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        plan = {"first": ColwiseParallel(), "side": ColwiseParallel(), "last": RowwiseParallel()}
        return parallelize_module(model, init_device_mesh(rank.device.kind, (rank.world_size,)), plan)
    wrapped = DistributedDataParallel(model, **option.wrapped)
    if option.hook is not None:
        wrapped.register_comm_hook(None, option.hook)
    return wrapped


def _reloaded(rank: Rank, option: Option, model: nn.Module) -> Forked:
    """Save a sharded model; load it into another one over all ranks, and into a whole one on each rank alone."""
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import save

    folder = str(rank.folder / f"{option.name}.checkpoint")
    save({"model": model.state_dict()}, checkpoint_id=folder)
    fresh = network(rank.arguments["seed"] + 1, rank.device.torch, torch.float32, option)
    alone = network(rank.arguments["seed"] + 2, torch.device("cpu"), torch.float32, option)
    _sharded(rank, option, fresh)
    for group, target in ((None, fresh), ([dist.new_group([n]) for n in range(rank.world_size)][rank.rank], alone)):
        state = {"model": target.state_dict()}
        load(state, checkpoint_id=folder, process_group=group)
        target.load_state_dict(state["model"])
    for name, parameter in model.named_parameters():
        assert torch.equal(_whole(parameter.detach()).cpu(), alone.state_dict()[name]), (
            f"'{name}' was loaded otherwise on one rank"
        )
    return fresh


def _exchange(rank: Rank, runner: nn.Module) -> None:
    """Take the mean of gradients by functional collectives: a sum of matrices, gathered biases."""
    from torch.distributed import _functional_collectives as functional

    group: Any = dist.group.WORLD
    for parameter in runner.parameters():
        assert parameter.grad is not None
        if parameter.dim() > 1:
            parameter.grad = functional.all_reduce(parameter.grad, "sum", group) / rank.world_size
        else:
            parts = functional.all_gather_tensor(parameter.grad[None], 0, group)
            parameter.grad = parts.mean(0)


def _sharded(rank: Rank, option: Option, model: nn.Module) -> Any:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(reduce_dtype=option.exchanged)
    mesh = init_device_mesh(rank.device.kind, (rank.world_size,))
    for module in (*model.children(), model):
        fully_shard(module, mesh=mesh, mp_policy=policy, **option.shared)
    return model


def _train(rank: Rank, option: Option, runner: Any, step: int) -> None:
    """Differentiate a step's micro-batches; the last of them exchanges."""
    runner.zero_grad()
    for micro in range(option.micro):
        with _exchanging(option, runner, micro == option.micro - 1):
            value = loss(runner, option, (step, micro, 0 if option.tensor else rank.rank))
            if option.sharded:  # after a forward a layer is in one piece only where `reshard_after_forward` is False
                whole, kept = not hasattr(runner.first.weight, "full_tensor"), "reshard_after_forward" in option.shared
                assert whole == kept, (
                    f"reshard_after_forward={not kept} leaves a layer {'whole' if whole else 'in shards'}"
                )
            value.backward()
            if option.sharded and micro < option.micro - 1:  # FSDP2 keeps what is not exchanged elsewhere
                early = [name for name, parameter in runner.named_parameters() if parameter.grad is not None]
                assert not early, f"set_requires_gradient_sync(False): gradients of {', '.join(early)} were exchanged"
    if option.functional:
        _exchange(rank, runner)
    if isinstance(runner, DistributedDataParallel):
        parts = [parameter.grad.untyped_storage() for parameter in runner.parameters() if parameter.grad is not None]
        views = len({part.data_ptr() for part in parts}) < len(parts)
        asked = "gradient_as_bucket_view" in option.wrapped
        assert views == asked, f"gradient_as_bucket_view={asked}: {'some' if views else 'no'} gradients share a bucket"
    for name, parameter in runner.named_parameters():
        if parameter.grad is not None:
            sent = parameter.grad.to(option.exchanged).to(parameter.grad.dtype)
            assert torch.equal(_whole(sent), _whole(parameter.grad)), (
                f"'{name}': its gradient was not sent in {option.exchanged}"
            )


def _exchanging(option: Option, runner: Any, last: bool) -> AbstractContextManager[None]:
    if option.sharded:
        runner.set_requires_gradient_sync(last)
        return nullcontext()
    quiet: AbstractContextManager[None] = nullcontext() if last else runner.no_sync()
    return quiet


def _note(results: Tensors, option: Option, step: int, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Clip and keep the gradients of a step, take it, and keep the parameters if it was the last."""
    if option.clip:
        gradients = [_whole(one.grad).cpu().double() for one in model.parameters() if one.grad is not None]
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        assert norm > option.clip, f"a norm of {norm:.3f} is not clipped by {option.clip}, so that nothing is seen"
        returned = _whole(nn.utils.clip_grad_norm_(model.parameters(), option.clip))
        results[f"step {step + 1}, norm"] = returned if dist.is_initialized() else norm
    for name, parameter in model.named_parameters():
        if name.startswith("idle"):
            assert parameter.grad is None, f"step {step + 1} left a gradient of '{name}', which nobody uses"
            continue
        assert parameter.grad is not None, f"step {step + 1} left no gradient of '{name}'"
        if not option.ends:
            results[f"step {step + 1}, gradient of {name}"] = _whole(parameter.grad).clone()
    optimiser.step()
    if step == STEPS - 1:
        kept = {name: parameter for name, parameter in model.named_parameters() if not name.startswith("idle")}
        results |= {name: _whole(parameter.detach()).clone() for name, parameter in kept.items()}


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    whole: torch.Tensor = getattr(tensor, "full_tensor", lambda: tensor)()
    return whole
