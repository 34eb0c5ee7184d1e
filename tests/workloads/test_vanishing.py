"""A gradient that is zero in exact arithmetic is rounding on every device, and no error."""

from __future__ import annotations

import torch
from torch import nn

from stackproof.device.numerics import relative_error
from stackproof.workloads.base import StepResult
from stackproof.workloads.vanishing import lifted, living, vanishing


def observed(dtype: torch.dtype) -> StepResult:
    """Return the gradients of a linear layer, whose bias a normalisation takes away, and of one after it."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(dtype)
    given = torch.randn(16, 5).to(dtype)
    loss = model(given).square().mean()
    loss.backward()
    gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    return StepResult(given, loss.detach(), gradients)


def test_a_bias_before_a_normalisation_vanishes() -> None:
    exact = observed(torch.float64)
    assert vanishing(exact) == {"0.bias"}
    assert "0.bias" not in living(exact.gradients, exact) and "0.weight" in living(exact.gradients, exact)


def test_its_rounding_is_no_error_and_a_real_gradient_in_its_place_is() -> None:
    exact, narrow = observed(torch.float64), observed(torch.float32)
    assert relative_error(narrow.gradients["0.bias"], exact.gradients["0.bias"]) > 1
    whole, seen = (lifted(one, exact).gradients["0.bias"] for one in (exact, narrow))
    assert relative_error(seen, whole) < 1e-6
    narrow.gradients["0.bias"].add_(1e-3)
    assert relative_error(lifted(narrow, exact).gradients["0.bias"], whole) > 1e-4
