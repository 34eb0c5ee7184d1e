"""Values, not only shapes: every class of operators on every regime of numbers, against NumPy and Python's whole numbers.

Products of small whole numbers and what only moves numbers are compared to the bit.
Not seen: numbers between those tried, and operators without a row in data/values.toml.
"""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.operators import values
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

CELLS = {f"{kind}-{regime.replace(' ', '_')}": (kind, regime) for kind, regime in values.cells().all}


@pytest.mark.deadline(120)
@pytest.mark.parametrize("cell", CELLS)
def test_cell(cell: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Each result is NumPy's, number by number, to the ulp that libraries promise: no norm hides one number among many."""
    values.check(*CELLS[cell], stack, device, figures)


@pytest.mark.deadline(30)
def test_table(figures: dict[str, Figure]) -> None:
    """Every cell is tried or excused, and the record counts them."""
    values.count(figures)
