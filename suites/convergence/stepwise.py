"""Every step's exchange by itself: what DDP left of each gradient against the mean of what the ranks had, and buffers before each forward.

A loss curve forgives a gradient that is lost, late or counted twice in one step of many; here each step and each parameter is judged alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from stackproof.ddp.course import keep
from stackproof.device.numerics import rule
from stackproof.ranks.rank import Rank
from stackproof.record.checks import require

CASE, STEPS = "every-step", 128
_SAMPLES, _FEATURES = 6, 16
_RATE = 0.05
# Several buckets; a parameter alone in one is not hidden by others.
_BUCKET_MB = 0.001

Kept = dict[str, torch.Tensor]


def case(rank: Rank) -> dict[str, Any]:
    """Train a small network on other data at each step, and keep what happened at each.

    Kept are tensors (steps, numbers): of each parameter the gradient that this rank had (`NAME own`) and the one that DDP left (`NAME`),
    and the buffers before each forward and after it.
    """
    torch.manual_seed(rank.arguments["seed"])
    model, twin = _network().to(rank.device.torch), _network().to(rank.device.torch)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=_BUCKET_MB)
    rows: dict[str, list[torch.Tensor]] = {}
    model.register_forward_pre_hook(lambda *_: _note(rows, "buffers before", _buffers(model)))
    for number in range(STEPS):
        pictures = _pictures(rank, number)
        twin.load_state_dict(model.state_dict())
        _differentiate(twin, twin, pictures)
        _differentiate(wrapped, model, pictures)
        _note(rows, "buffers after", _buffers(model))
        _step(rows, model, twin)
    keep(rank, CASE, {name: torch.stack(steps) for name, steps in rows.items()})
    return {}


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(_FEATURES, 24), nn.BatchNorm1d(24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 3)
    )


def _pictures(rank: Rank, number: int) -> torch.Tensor:
    """Return a rank's pictures of one step, drawn on the host so that they are the same on every device."""
    generator = torch.Generator().manual_seed(1000 * number + rank.rank)
    return torch.randn(_SAMPLES, _FEATURES, generator=generator).to(rank.device.torch)


def _differentiate(runner: nn.Module, model: nn.Module, pictures: torch.Tensor) -> None:
    model.zero_grad(set_to_none=True)
    ((runner(pictures) - pictures[:, :3]) ** 2).mean().backward()


def _step(rows: dict[str, list[torch.Tensor]], model: nn.Module, twin: nn.Module) -> None:
    """Note both gradients of each parameter, and take a plain step with the one that DDP left."""
    own = dict(twin.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            for what, grad in ((name, parameter.grad), (f"{name} own", own[name].grad)):
                _note(rows, what, torch.zeros_like(parameter) if grad is None else grad)
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=_RATE)


def _buffers(model: nn.Module) -> torch.Tensor:
    return torch.cat([buffer.double().flatten().cpu() for buffer in model.buffers()])


def _note(rows: dict[str, list[torch.Tensor]], name: str, tensor: torch.Tensor) -> None:
    rows.setdefault(name, []).append(tensor.detach().cpu().flatten().clone())


def require_exchanged(ranks: list[Kept]) -> float:
    """Fail unless every rank's every gradient is the mean of all ranks' own, at each step; return the worst error over its bound."""
    bound, worst = rule().bound(0.0, torch.float32, terms=len(ranks)), 0.0
    for name in [name for name in ranks[0] if f"{name} own" in ranks[0]]:
        own = torch.stack([report[f"{name} own"] for report in ranks])
        # Whole gradients that cancel between the ranks are rounded as the parts are.
        mean, scale = own.mean(0), own.norm(dim=2).mean(0).clamp(min=torch.finfo(torch.float32).tiny)
        for rank, report in enumerate(ranks):
            errors = (report[name] - mean).norm(dim=1) / scale
            step = int(errors.argmax())
            require(
                bool(errors[step] <= bound),
                f"step {step + 1} of {STEPS}: on rank {rank} the gradient of '{name}' is {float(errors[step]):.2g} from the mean of the "
                f"ranks' own, more than {bound:.2g} ({int((~(errors <= bound)).sum())} steps)",
            )
            worst = max(worst, float(errors[step]) / bound)
    return worst


def require_buffers(ranks: list[Kept]) -> None:
    """Fail unless before each forward every rank holds, to the bit, what rank 0's last forward left in its buffers."""
    kept = ranks[0]["buffers after"][:-1]
    for rank, report in enumerate(ranks):
        apart = (report["buffers before"][1:] != kept).any(dim=1).nonzero().flatten().tolist()
        require(
            not apart,
            f"before the forward of {len(apart)} of {STEPS} steps, the first {(apart or [0])[0] + 2}, rank {rank} does not hold the "
            "buffers that rank 0 had",
        )
    require(
        len({tuple(report["buffers after"][0].tolist()) for report in ranks}) == len(ranks),
        "after a forward on different pictures the ranks' buffers are equal: the check cannot see them drift",
    )
