"""The tf32 switches: float32 is float32 when they are off; their error when they are on is a figure."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement, judge, shortened
from stackproof.record.checks import CheckInconclusive, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.weights import hashed
from suites.common import SEED, offered

# tf32 rounds each factor to ten bits of mantissa: a product is off by 2^-11 at most, a sum of many by less than that times two.
_TF32 = 2.0**-10

Shapes = tuple[tuple[int, ...], tuple[int, ...]]
Compute = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# The work, and shapes of its two factors: some odd in one side, and some that matrix units take as they are. Which of them a library hands
# to its matrix units is its own choice, so there are several, and the gradients are other products with other choices.
WORK: dict[str, tuple[Compute, tuple[Shapes, ...]]] = {
    "product": (torch.matmul, (((129, 256), (256, 192)), ((256, 512), (512, 256)))),
    "batched product": (torch.matmul, (((3, 65, 128), (3, 128, 96)), ((4, 128, 128), (4, 128, 128)))),
    "convolution": (
        lambda image, kernel: functional.conv2d(image, kernel, padding=kernel.shape[-1] // 2),
        (
            ((2, 32, 17, 17), (64, 32, 3, 3)),
            ((4, 64, 28, 28), (64, 64, 3, 3)),
            ((8, 128, 14, 14), (256, 128, 1, 1)),
            ((2, 256, 32, 32), (128, 256, 3, 3)),
        ),
    ),
}


@pytest.mark.deadline(120)
@pytest.mark.parametrize("what", WORK)
def test_switch(what: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """With the switches off every shape, forward and backward, errs as float32 does; with them on as tf32 at most; then they are back."""
    compute, shapes = WORK[what]
    before = torch.get_float32_matmul_precision()
    pairs = {name: judged for pair in shapes for name, judged in _both(what, compute, pair, device).items()}
    after = torch.get_float32_matmul_precision()
    require(after == before, f"the precision of float32 products was '{before}' and is '{after}' after the check")
    short = [name for name, (off, on) in pairs.items() if on.error > off.bound]
    off, on = (max(pair[which].error for pair in pairs.values()) for which in (0, 1))
    figures |= {"error with tf32 off": off, "error with tf32 on": on, "tf32 in effect": len(short), "of": len(pairs)}
    if not short and offered(stack, "tf32"):
        raise CheckInconclusive(
            f"{what}: both settings err alike in all of {len(pairs)} cases ({on:.1e}), so that nothing is said of the switches: "
            "this device has no tf32, or its library chose other kernels (then stack.toml says so under [missing])"
        )
    figures["summary"] = (
        f"worst error {off:.1e} off, {on:.1e} on: tf32 is in effect, when allowed, in {len(short)} of {len(pairs)} cases"
    )


def _both(what: str, compute: Compute, shapes: Shapes, device: Device) -> dict[str, tuple[Judgement, Judgement]]:
    """Judge the result and both gradients with the switches off, and on."""
    factors = [_drawn(shape, SEED + key) for key, shape in enumerate(shapes)]
    exact = _three(compute, [factor.double() for factor in factors])
    with shortened(False):
        anchor = _three(compute, factors)
    ours, judged = [factor.to(device.torch) for factor in factors], []
    for allowed in (False, True):
        with shortened(allowed):
            seen = _three(compute, ours)
        judged.append({name: judge(seen[name], exact[name], anchor[name], torch.float32) for name in exact})
    pairs = {}
    for name in exact:
        off, on = (by_name[name] for by_name in judged)
        label = f"{what}{name} of {' and '.join('x'.join(map(str, shape)) for shape in shapes)}"
        require(off.ok, off.sentence(f"{label} with the tf32 switches off"))
        require(
            on.error <= _TF32, f"{label} with the tf32 switches on: error {on.error:.2g} exceeds tf32's own {_TF32:.2g}"
        )
        pairs[label] = off, on
    return pairs


def _three(compute: Compute, factors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the result, and the gradients of both factors where the result's is drawn at random."""
    leaves = [factor.detach().requires_grad_() for factor in factors]
    result = compute(*leaves)
    weight = _drawn(tuple(result.shape), SEED + len(factors)).to(result)
    first, second = torch.autograd.grad(result, leaves, weight)
    return {"": result.detach(), ", first gradient": first, ", second gradient": second}


def _drawn(shape: tuple[int, ...], key: int) -> torch.Tensor:
    return hashed(0, torch.Size(shape).numel(), key, HOST.torch).view(shape)
