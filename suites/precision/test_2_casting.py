"""What autocast promises, one promise at a time; the gradient scaler is held by `anchors/training`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import MatrixKernels, supported

DTYPES = (torch.bfloat16, torch.float16)
NAMES = ("bfloat16", "float16")

Compute = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# Operators that every device's autocast computes in the short dtype, on a (4, 8, 8) and a weight (8, 8).
CASTING: dict[str, Compute] = {
    "linear": lambda x, weight: functional.linear(x, weight),
    "matmul": lambda x, weight: x @ weight,
    "mm": lambda x, weight: torch.mm(x[0], weight),
    "bmm": lambda x, weight: torch.bmm(x, weight.expand(4, *weight.shape)),
    "addmm": lambda x, weight: torch.addmm(x[0], x[1], weight),
    "conv2d": lambda x, weight: functional.conv2d(x[None], weight[:4, :4, None, None].contiguous()),
    "attention": lambda x, weight: functional.scaled_dot_product_attention(x[:1], x[:1], weight[None]),
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_autocast(dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Matrix operators cast inside the context, not in a disabled one within it, and not after it."""
    supported(stack, dtype)
    x, weight = torch.ones(4, 8, 8, device=device.torch), torch.ones(8, 8, device=device.torch)
    wrong = []
    for name, compute in CASTING.items():
        with torch.autocast(device.kind, dtype=dtype):
            inside = compute(x, weight).dtype
            with torch.autocast(device.kind, enabled=False):
                disabled = compute(x, weight).dtype
        seen = (inside, disabled, compute(x, weight).dtype)
        if seen != (dtype, torch.float32, torch.float32):
            wrong.append(f"{name} gave {seen[0]} inside, {seen[1]} where it was disabled, {seen[2]} after")
    require(not wrong, f"autocast to {dtype} is not what it says: {'; '.join(wrong)}")
    figures["summary"] = f"{len(CASTING)} operators cast to {dtype} inside the context and nowhere else"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_backward(dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Every product in the backward pass of a cast operator is in the short dtype, and gradients arrive in float32."""
    supported(stack, dtype)
    kernels, short, wrong = 0, 0, []
    for name, compute in CASTING.items():
        leaves = [torch.ones(shape, device=device.torch, requires_grad=True) for shape in ((4, 8, 8), (8, 8))]
        with torch.autocast(device.kind, dtype=dtype):
            result = compute(*leaves)
        with MatrixKernels() as seen:
            gradients = torch.autograd.grad(result, leaves, torch.ones_like(result))
        kernels, short = kernels + seen.count, short + seen.count - seen.others(dtype, attention=True)
        others = {str(gradient.dtype) for gradient in gradients} - {"torch.float32"}
        if not seen.count or seen.others(dtype, attention=name != "attention") or others:
            wrong.append(f"{name} ran {seen.summary}" + (f" and gave gradients in {sorted(others)}" if others else ""))
    require(not wrong, f"the backward pass of autocast to {dtype} is not in it: {'; '.join(wrong)}")
    figures["summary"] = f"{short} of {kernels} products in the gradients of {len(CASTING)} operators are in {dtype}"
