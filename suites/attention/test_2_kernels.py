"""Each kernel that the stack offers against the textbook formula in float64: forward, backward, all shapes."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement, judge, require_all
from stackproof.probes import attention
from stackproof.record.checks import NotApplicable, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import supported

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@cache
def _exact(case: attention.AttentionShape, dtype: torch.dtype) -> attention.Tensors:
    return attention.formula(case, dtype, torch.float64)


@cache
def _anchor(case: attention.AttentionShape, dtype: torch.dtype) -> attention.Tensors:
    return attention.formula(case, dtype, dtype, logarithms=True)


@pytest.mark.deadline(60)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("name", list(attention.kernels()))
def test_kernel(name: str, dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """When a kernel is asked for, that one runs, and output and gradients of every shape agree with float64."""
    supported(stack, dtype)
    refused: dict[str, str] = {}
    judgements: dict[str, Judgement] = {}
    for case in attention.cases():
        try:
            judgements |= _judgements(case, dtype, device, attention.kernels()[name])
        except attention.NotOffered as reason:
            refused[case.name] = str(reason)
    _offered(name, judgements, refused)
    figures |= {f"not offered: {case}": reason for case, reason in refused.items()}
    worst = require_all(judgements, f"{name} in {dtype}")
    figures |= {"compared": len(judgements), "worst error": worst.error, "its bound": worst.bound}
    shapes = len(attention.cases()) - len(refused)
    figures["summary"] = f"{shapes} shapes, worst error {worst.error:.1e} of {worst.bound:.1e} allowed" + (
        f"; not offered for {', '.join(refused)}" if refused else ""
    )


def _offered(name: str, judgements: dict[str, Judgement], refused: dict[str, str]) -> None:
    """Fail where there is no math kernel; end the check as not applicable where the build lacks another one."""
    if not judgements:
        reason = next(iter(refused.values()), "there are no shapes")
        require(name != "math", f"not even the math kernel runs: {reason}")
        raise NotApplicable(f"this stack does not offer {name}: {reason}")


def _judgements(
    case: attention.AttentionShape, dtype: torch.dtype, device: Device, kernel: attention.Kernel
) -> dict[str, Judgement]:
    (ran, tensors), exact, anchor = (
        attention.run(case, dtype, device.torch, kernel),
        _exact(case, dtype),
        _anchor(case, dtype),
    )
    require(ran == kernel.name, f"{case.name}: {kernel.name} was asked for and {ran} ran")
    return {f"{case.name}, {what}": judge(tensors[what], exact[what], anchor[what], dtype) for what in exact}
