"""The tf32 switches: float32 is float32 when they are off; what they cost when they are on is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from stackproof.device.kinds import Device
from stackproof.device.numerics import judge, shortened
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.weights import hashed
from suites.common import SEED

# tf32 rounds each factor to ten bits of mantissa: a product is off by 2^-11 at most, a sum of many by less than that times two.
_TF32 = 2.0**-10

Compute = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# The work, and the shapes of its two factors: large enough for a kernel with matrix units, odd in one side.
WORK: dict[str, tuple[Compute, tuple[int, ...], tuple[int, ...]]] = {
    "product": (torch.matmul, (129, 256), (256, 192)),
    "batched product": (torch.matmul, (3, 65, 128), (3, 128, 96)),
    "convolution": (functional.conv2d, (2, 32, 17, 17), (64, 32, 3, 3)),
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("what", WORK)
def test_switch(what: str, device: Device, figures: dict[str, Figure]) -> None:
    """With the switches off the error is that of float32; with them on it is told, and within tf32's; then they are back."""
    compute, *shapes = WORK[what]
    factors = [_drawn(shape, SEED + key) for key, shape in enumerate(shapes)]
    exact = compute(*(factor.double() for factor in factors))
    ours = [factor.to(device.torch) for factor in factors]
    before = torch.get_float32_matmul_precision()
    with shortened(False):
        anchor = compute(*factors)
    judged = {}
    for allowed in (False, True):
        with shortened(allowed):
            judged[allowed] = judge(compute(*ours), exact, anchor, torch.float32)
    off, on = judged[False], judged[True]
    require(off.ok, off.sentence(f"{what} with the tf32 switches off"))
    require(on.error <= _TF32, f"{what} with the tf32 switches on: error {on.error:.2g} exceeds tf32's own {_TF32:.2g}")
    after = torch.get_float32_matmul_precision()
    require(after == before, f"the precision of float32 products was '{before}' and is '{after}' after the check")
    short = on.error > off.bound
    figures |= {"error with tf32 off": off.error, "error with tf32 on": on.error, "tf32 in effect": short}
    figures["summary"] = (
        f"error {off.error:.1e} off, {on.error:.1e} on: tf32 is {'' if short else 'not '}in effect when allowed"
    )


def _drawn(shape: tuple[int, ...], key: int) -> torch.Tensor:
    return hashed(0, torch.Size(shape).numel(), key, torch.device("cpu")).view(shape)
