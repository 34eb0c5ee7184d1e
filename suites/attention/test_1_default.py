"""Which kernel torch takes when nobody asks for one: a fact of every stack, and never the slow one in silence."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.probes import attention
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import supported

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@pytest.mark.deadline(60)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_choice(dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """The kernel of each shape is a figure; it is not math where a fused one would have run (docs/users-reports.md C5)."""
    supported(stack, dtype)
    slow = []
    for case in attention.cases():
        chosen = attention.run(case, case.inputs(dtype, device.torch))[0]
        figures[case.name] = chosen
        if chosen == "math" and (better := _fused(case, dtype, device)):
            slow.append(f"{case.name}: math ran although {' and '.join(better)} would have")
    require(not slow, f"attention silently took the slow path in {dtype}: {'; '.join(slow)}")
    taken = sorted({str(kernel) for kernel in figures.values()})
    figures["summary"] = f"{len(attention.cases())} shapes in {dtype}: {', '.join(taken)}"


def _fused(case: attention.AttentionShape, dtype: torch.dtype, device: Device) -> list[str]:
    """Return the fused kernels that run for this shape when they are asked for."""
    ran = []
    for kernel in (kernel for kernel in attention.kernels().values() if kernel.fused):
        with suppress(attention.NotOffered):
            ran.append(attention.run(case, case.inputs(dtype, device.torch), kernel)[0])
    return ran
