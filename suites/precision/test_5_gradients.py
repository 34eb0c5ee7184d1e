"""Gradients under autocast, each parameter for itself, against float64: none hides behind the whole gradient.

Bounds: data/halves.toml. Not seen: a detector's normalisation to better than 15 % in bfloat16 and 30 % in float16.
"""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.device.numerics import judge_each, require_all
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.catalogue import get, taking_part
from stackproof.workloads.gradients import kept, living
from suites.common import SEED, anchor, possible, reference, supported
from suites.precision.test_2_casting import DTYPES, NAMES


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
@pytest.mark.parametrize("name", taking_part("precision"))
def test_each(name: str, dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Every parameter's gradient errs no more than the CPU's do over seeds, in direction and as one factor."""
    supported(stack, dtype)
    exact, expected = reference(name, "tiny"), anchor(name, "tiny", dtype)
    actual = possible(name).build(device.torch, "tiny", SEED, torch.float32, dtype).observe()
    moving = living(exact.gradients, exact)
    missing = sorted(moving.keys() - actual.gradients.keys())
    require(not missing, f"{name} in {dtype}: {len(missing)} parameters have no gradient, such as {missing[:1]}")
    judged = kept(judge_each(name, actual.gradients, moving, expected.gradients, dtype), get(name), dtype)
    worst = require_all(judged, f"{name} under autocast to {dtype},")
    figures |= {"gradients": len(moving), "compared": len(judged), "worst error": worst.error, "its bound": worst.bound}
    figures["summary"] = f"{len(moving)} gradients, each: worst error {worst.error:.1e} of {worst.bound:.1e} allowed"
