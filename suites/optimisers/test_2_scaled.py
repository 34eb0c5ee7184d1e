"""Optimisers under the gradient scaler: scaled gradients step as plain ones do, and an infinite one steps nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.device.numerics import relative_error, rule
from stackproof.record.checks import require
from stackproof.record.records import Figure
from suites.optimisers.variants import FUSED, Case, give_gradients, left, parameters

_SCALE = 1024.0  # a power of two: scaling and unscaling change no bit
_FLOOR = rule().bound(0.0, torch.float32)


@pytest.mark.deadline(60)
@pytest.mark.parametrize("variant", ["foreach", "fused"])
@pytest.mark.parametrize("name", FUSED)
def test_scaler(name: str, variant: str, device: Device, figures: dict[str, Figure]) -> None:
    """With the scale's gradients the step is the plain one; with an infinite gradient nothing moves and the scale halves.

    The unscaled gradients are bit-equal, but a fused kernel that unscales is other code, in which the compiler may fuse other
    multiplications with additions (on CUDA, in the vectorised path alone): the rule's floor is allowed.
    """
    case = Case(name, variant, device.torch, torch.float32)
    plain = parameters(device.torch, torch.float32)
    optimiser = case.build(plain)
    give_gradients(plain, 0)
    case.step(optimiser)
    expected = left(optimiser, plain)

    tensors = parameters(device.torch, torch.float32)
    optimiser = case.build(tensors)
    scaler = torch.amp.GradScaler(device.kind, init_scale=_SCALE)
    _scaled_step(scaler, optimiser, tensors)
    stepped = left(optimiser, tensors)
    apart = {what: relative_error(stepped[what], tensor) for what, tensor in expected.items()}
    wrong = [f"{what} (error {error:.2g} of {_FLOOR:.2g} allowed)" for what, error in apart.items() if error > _FLOOR]
    require(not wrong, f"{name}, {variant}: under the scaler a step gave another {', '.join(wrong[:3])}")

    _scaled_step(scaler, optimiser, tensors, broken=True)
    after = left(optimiser, tensors)
    moved = [what for what, tensor in stepped.items() if not torch.equal(after[what], tensor)]
    require(not moved, f"{name}, {variant}: a step with an infinite gradient changed {', '.join(moved[:3])}")
    require(
        scaler.get_scale() == _SCALE / 2,
        f"{name}, {variant}: an infinite gradient left the scale at {scaler.get_scale()}",
    )
    same = list(apart.values()).count(0.0)
    figures |= {"worst error": max(apart.values()), "its bound": _FLOOR, "tensors bit-equal": same}
    figures["summary"] = f"{same} of {len(apart)} tensors bit-equal under the scaler; an infinite gradient was skipped"


def _scaled_step(
    scaler: torch.amp.GradScaler,
    optimiser: torch.optim.Optimizer,
    tensors: Sequence[torch.Tensor],
    *,
    broken: bool = False,
) -> None:
    """Set gradients as backward of a scaled loss leaves them, and step."""
    scaler.scale(torch.zeros((), device=tensors[0].device))  # lets the scaler make its own tensors on the device
    give_gradients(tensors, 0)
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    for gradient in gradients:
        gradient.mul_(scaler.get_scale())
    if broken:
        gradients[0].fill_(float("inf"))
    scaler.step(optimiser)
    scaler.update()
