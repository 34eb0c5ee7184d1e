"""Operators at sizes of a ladder and of real configurations, past counts of 16, 24 and 31 bits: whole as in pieces.

Half precision has the ladder, on an accelerator also the real sizes. Not seen: gradients of more than 2^30 numbers, and what has no row.
"""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.operators import engine
from stackproof.operators.judges import sizes
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.plain import plain_float32

__all__ = ["plain_float32"]


@pytest.mark.deadline(300)
@pytest.mark.parametrize("name", sizes.subjects())
def test_agrees(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Every number of every result, and of the gradients of all arguments."""
    row = sizes.subjects()[name]
    if row.beyond:
        capabilities.require(stack, "full-sizes")
        needed = sizes.needed(row)
        if device.memory().free < needed:
            capabilities.withhold("enough-memory", f"{name} needs {needed / 2**30:.0f} GiB of free memory on {device}")
    engine.check("sizes", name, device, figures)
