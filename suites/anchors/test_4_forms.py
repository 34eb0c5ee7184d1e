"""Functions of torch.nn against their definitions in NumPy, under arguments that are not their defaults."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.operators.definitions import forms, hold
from stackproof.operators.layers import softmax
from stackproof.record.checks import require
from stackproof.record.records import Figure
from suites.anchors.held import drawn
from suites.common import SEED


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", forms())
def test_form(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Results, what changes in place, and gradients are the definition's, in float32 on the device and in float64 on the host."""
    rows, places = forms()[name], [(HOST.torch, torch.float64), (device.torch, torch.float32)]
    worst = max(hold(row, places) for row in rows)
    figures |= {"calls": len(rows), "worst share": worst}
    figures["summary"] = f"{len(rows)} calls of {name} are its definition, worst at {worst:.0%} of what is allowed"


@pytest.mark.deadline(30)
def test_gumbel(device: Device, figures: dict[str, Figure]) -> None:
    """Soft choices are softmax of scores and what is drawn, by the temperature; hard ones the largest, with the soft ones' gradient."""
    scores, worst = drawn(64, 9), 0.0
    for temperature in (0.5, 1.75):
        given = torch.tensor(scores, dtype=torch.float32, device=device.torch, requires_grad=True)
        device.seed(SEED)
        drew = torch.empty_like(given).exponential_().cpu().double().log().numpy()
        exact = softmax((scores - drew) / temperature, -1)
        results = []
        for hard in (False, True):
            device.seed(SEED)
            results.append(functional.gumbel_softmax(given, temperature, hard))
        soft, chosen = (one.detach().cpu().double().numpy() for one in results)
        worst = max(worst, float(np.abs(soft - exact).max()))
        require(worst <= 1e-5, f"soft choices at temperature {temperature} are {worst:.2g} off")
        wrong = int((np.abs(chosen - (exact == exact.max(-1, keepdims=True))) > 1e-6).any(-1).sum())
        require(not wrong, f"{wrong} of {len(scores)} hard choices at temperature {temperature} are not the largest")
        weights = torch.tensor(drawn(64, 9, key=1)).to(given)
        first, second = (torch.autograd.grad((one * weights).sum(), given)[0] for one in results)
        require(torch.allclose(first, second, atol=1e-6), "hard choices have another gradient than soft ones")
    figures["summary"] = f"choices of {len(scores)} rows are their definition at two temperatures, {worst:.1e} off"
