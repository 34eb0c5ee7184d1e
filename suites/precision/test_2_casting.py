"""What autocast and the gradient scaler promise, one promise at a time."""

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


@pytest.mark.deadline(60)
def test_scaler(device: Device, figures: dict[str, Figure]) -> None:
    """The scale doubles after enough good steps, halves on an infinite gradient, and saves a gradient that float16 would lose."""
    weight = torch.nn.Parameter(torch.ones(4, device=device.torch))
    optimiser = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device.kind, init_scale=1024.0, growth_interval=2)
    scales = []
    for factor in (1.0, 1.0, float("inf"), 1.0):
        optimiser.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        before = weight.detach().clone()
        scaler.step(optimiser)
        moved = float((before - weight.detach())[0])
        expected = 0.0 if factor == float("inf") else 1.0
        require(moved == expected, f"a gradient of {factor} moved a parameter by {moved}, {expected} was expected")
        scaler.update()
        scales.append(scaler.get_scale())
    require(
        scales == [1024.0, 2048.0, 1024.0, 1024.0], f"the scale went {scales} over two good steps, a bad and a good one"
    )
    figures["summary"] = f"scale {', '.join(f'{scale:g}' for scale in scales)}; {_rescued(device)}"


def _rescued(device: Device) -> str:
    """Send a gradient of 2^-26 through float16, whose smallest number is 2^-24, with and without a scale."""
    seen = {}
    for scale in (1.0, 1024.0):
        weight = torch.nn.Parameter(torch.ones(1, device=device.torch))
        scaler = torch.amp.GradScaler(device.kind, init_scale=scale)
        loss = weight.half().float() * 2.0**-26
        scaler.scale(loss.sum()).backward()
        require(weight.grad is not None, "backward left no gradient")
        seen[scale] = float(weight.grad or 0.0) / scale
    require(
        seen[1024.0] == 2.0**-26, f"a gradient of 2^-26 comes out of float16 as {seen[1024.0]} with a scale of 1024"
    )
    return f"without a scale a gradient of {2.0**-26:.1e} comes out of float16 as {seen[1.0]:.1e}, with one it is kept"
