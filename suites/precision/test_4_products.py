"""Products in half precision, forward and backward, to a quarter of an ulp as a whole: one per cent cannot hide in rounding."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.weights import hashed
from suites.common import SEED, supported
from suites.precision.test_2_casting import CASTING, DTYPES, NAMES, Compute

_SIZE = 64
_PARTS = ("result", "gradient of the first", "gradient of the second")


@pytest.mark.deadline(60)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_scale(dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Results and gradients are neither larger nor smaller than float64's, as one factor over all numbers, whose roundings cancel."""
    supported(stack, dtype)
    eps, gaps, bounds = torch.finfo(dtype).eps, {}, {}
    for name, compute in CASTING.items():
        for part, factor in zip(_PARTS, factors(compute, device.torch, dtype), strict=True):
            what = f"{name}, {part}"
            # Attention's slow path rounds its weights too: 0.11 % in bfloat16 on torch 2.4.1's CPU.
            gaps[what], bounds[what] = factor - 1, eps / 2 if name == "attention" else eps / 4
    worst = max(gaps, key=lambda what: abs(gaps[what]) / bounds[what])
    wrong, bound = [what for what, off in gaps.items() if not abs(off) <= bounds[what]], bounds[worst]
    require(
        not wrong,
        f"products in {dtype}: '{worst}' is off by {gaps[worst]:+.2%} as a whole, {bound:.2%} allowed "
        f"({len(wrong)} of {len(gaps)}: {', '.join(wrong[:4])})",
    )
    figures |= {"compared": len(gaps), "largest factor": abs(gaps[worst]), "bound": bound}
    figures["summary"] = f"{len(gaps)} results and gradients: worst factor {gaps[worst]:+.3%} of {bound:.3%} allowed"


def factors(compute: Compute, device: torch.device, dtype: torch.dtype) -> list[float]:
    """Return how large result and gradients are in units of float64's, from numbers that the dtype holds."""
    drawn = [_drawn(shape, SEED + key, dtype) for key, shape in enumerate(((4, _SIZE, _SIZE), (_SIZE, _SIZE)))]
    exact = _all(compute, drawn, dtype)
    with torch.autocast(device.type, dtype=dtype):
        ours = _all(compute, [number.float().to(device) for number in drawn], dtype)
    pairs = zip(ours, exact, strict=True)
    return [float((mine.detach().cpu().double() * wide).sum() / wide.square().sum()) for mine, wide in pairs]


def _all(compute: Compute, inputs: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    leaves = [number.clone().requires_grad_() for number in inputs]
    result = compute(*leaves)
    fed = _drawn(tuple(result.shape), SEED + 2, dtype).to(result.device, result.dtype)
    return [result.detach(), *torch.autograd.grad(result, leaves, fed)]


def _drawn(shape: tuple[int, ...], key: int, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers of both signs that the dtype holds, in float64."""
    return hashed(0, torch.Size(shape).numel(), key, HOST.torch).view(shape).to(dtype).double()
