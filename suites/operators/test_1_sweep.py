"""Every entry of torch's operator database, forward and backward, in every precision, against float64.

The bound: error(device) <= min(3 x error(CPU in that dtype), cap) + floor, as relative L2 norms (data/numerics.toml).
Not seen: a mistake of 1e-5 in a few numbers of many, and what the CPU itself does wrong; `values`, `relations` and `anchors` ask that.
"""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators.compare import word
from stackproof.operators.database import load
from stackproof.operators.examine import DTYPES, check, possible
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

DATABASE = load()


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES, ids=word)
@pytest.mark.parametrize("name", DATABASE)
def test_agrees(name: str, dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """On all samples of the database, values and gradients agree with float64 as well as the CPU's do in that dtype."""
    possible(stack, dtype)
    check(name, DATABASE[name], device, dtype, figures)
