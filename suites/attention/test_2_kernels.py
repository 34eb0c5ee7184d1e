"""Each kernel that the stack offers against the definition in float64 on the CPU: forward, backward, all shapes."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators.judges.references import attention as definition
from stackproof.operators.relation import Relation, UnusableError, with_gradients
from stackproof.probes import attention
from stackproof.record.checks import NotApplicable, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import supported

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_ULPS, _FEW_ULPS = 24.0, 6.0
"""That a result may be off by, of the largest number, beside what rounding does to the definition; and those of 16 bits."""


@pytest.mark.deadline(60)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("name", list(attention.kernels()))
def test_kernel(name: str, dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """When a kernel is asked for, that one runs, and output and gradients of every shape agree with float64."""
    supported(stack, dtype)
    refused, wrong = dict[str, str](), dict[str, str]()
    for case in attention.cases():
        try:
            wrong[case.name] = _relation(case, dtype, device.torch, attention.kernels()[name]).wrong()
        except UnusableError as reason:
            refused[case.name] = str(reason)
    if not wrong:
        why = next(iter(refused.values()), "there are no shapes")
        require(name != "math", f"not even the math kernel runs: {why}")
        raise NotApplicable(f"this stack does not offer {name}: {why}")
    figures |= {f"not offered: {case}": reason for case, reason in refused.items()}
    bad = [f"{case}: {message} against float64" for case, message in wrong.items() if message]
    require(not bad, f"{name} in {dtype}: {'; '.join(bad)}")
    figures["summary"] = f"output and gradients of {len(wrong)} shapes" + (
        f"; not offered for {', '.join(refused)}" if refused else ""
    )


def _relation(
    case: attention.AttentionShape, dtype: torch.dtype, device: torch.device, kernel: attention.Kernel
) -> Relation:
    def first(*inputs: torch.Tensor) -> torch.Tensor:
        try:
            ran, output = attention.run(case, inputs, kernel)
        except attention.NotOffered as reason:
            raise UnusableError(str(reason)) from reason
        require(ran == kernel.name, f"{kernel.name} was asked for and {ran} ran")
        return output

    def second(*inputs: torch.Tensor) -> torch.Tensor:
        query, key, value = (tensor.cpu() for tensor in inputs)
        causal, grouped = case.kind == "causal", case.heads[0] != case.heads[1]
        output: torch.Tensor = definition(
            query, key, value, case.mask(), is_causal=causal, scale=case.scale, enable_gqa=grouped
        )
        return output

    ulps = _FEW_ULPS if dtype.itemsize == 2 else _ULPS
    ways = with_gradients(first), with_gradients(second)
    return Relation(case.name, case.inputs(dtype, device), {}, *ways, "", ulps, widened=True, required=True)
