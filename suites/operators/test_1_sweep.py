"""Every entry of torch's operator database, forward and backward, in every precision, against float64.

What may be off is 16 ulp of the largest number, 4 in halves, and what rounding does to float64 itself.
Not seen: what is less; `relations` and `anchors` ask that.
"""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators import engine
from stackproof.operators.database import load
from stackproof.operators.judges.samples import DTYPES
from stackproof.operators.relation import word
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import supported


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES, ids=word)
@pytest.mark.parametrize("name", load())
def test_agrees(name: str, dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """On all samples of the database, values and gradients agree with float64 as far as rounding lets them."""
    supported(stack, dtype)
    engine.check("samples", name, device, figures, [dtype])
