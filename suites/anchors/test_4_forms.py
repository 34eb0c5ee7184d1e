"""Functions of torch.nn against their definitions in NumPy, under arguments that are not their defaults."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.operators.definitions import forms, hold
from stackproof.record.records import Figure


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", forms())
def test_form(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Results, what changes in place, and gradients are the definition's, in float32 on the device and in float64 on the host."""
    rows, places = forms()[name], [(HOST.torch, torch.float64), (device.torch, torch.float32)]
    worst = max(hold(row, places) for row in rows)
    figures |= {"calls": len(rows), "worst share": worst}
    figures["summary"] = f"{len(rows)} calls of {name} are its definition, worst at {worst:.0%} of what is allowed"
