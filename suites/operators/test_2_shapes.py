"""Sizes, layouts and lengths that break real devices: odd, empty, 0-dim, strided, expanded, channels-last, beyond 2^31 numbers.

Not seen: an operator that has no row in operators/shapes.py keeps the layouts of torch's own samples.
"""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators.compare import word
from stackproof.operators.large import NEEDED_BYTES, PROBES
from stackproof.operators.shapes import DTYPES, operators
from stackproof.operators.sweep import check, possible
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.capabilities import withhold
from stackproof.stack.stacks import Stack

OPERATORS = operators()


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES, ids=word)
@pytest.mark.parametrize("name", OPERATORS)
def test_agrees(name: str, dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """In every size from 1 to 129 that sits on an edge, and in every layout, results and gradients agree with float64."""
    possible(stack, dtype)
    check(name, OPERATORS[name], device, dtype, figures)


@pytest.mark.deadline(300)
@pytest.mark.parametrize("name", PROBES)
def test_large_index(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Elements behind the 2^31st are found: an index of 32 bits wraps around there, mostly in silence."""
    free = device.memory().free
    if free < NEEDED_BYTES:
        needed = NEEDED_BYTES / 2**30
        withhold(
            "enough-memory",
            f"{device} has {free / 2**30:.1f} GiB free, an index beyond 2^31 is tried from {needed:.0f} GiB on",
        )
    try:
        wrong = PROBES[name](device.torch)
    finally:
        device.empty_cache()
    require(not wrong, f"{name} of more than 2^31 elements on {device}: {wrong}")
    figures["summary"] = "right on both sides of the 2^31st element"
