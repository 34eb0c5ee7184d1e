"""A capability that is measured and not looked up: a variant of an optimiser that torch refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stackproof.record.checks import CapabilityMissing
from suites.optimisers.variants import CPU, Case, parameters

CASE = Case("Adagrad", "fused", CPU, torch.float32)


def refusing(error: Exception) -> Any:
    def method(self: Any, *arguments: Any, **keywords: Any) -> None:
        raise error

    return method


def test_a_variant_that_is_refused_when_it_is_made_is_a_missing_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim.Adagrad, "__init__", refusing(RuntimeError("`fused` is not for this device")))
    with pytest.raises(CapabilityMissing, match=r"Adagrad\(fused=True\), measured on cpu: torch 2.*`fused` is not for"):
        CASE.build(parameters(CPU, torch.float32))


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (RuntimeError("`fused=True` requires all the params to be floating point: ['xpu']"), CapabilityMissing),
        (NotImplementedError("aten::_fused_adagrad_"), CapabilityMissing),
        (RuntimeError("the device is lost"), RuntimeError),
    ],
)
def test_what_the_first_step_says_is_told_from_a_failure(
    error: Exception, ends: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    optimiser = CASE.build(parameters(CPU, torch.float32))
    monkeypatch.setattr(torch.optim.Adagrad, "step", refusing(error))
    with pytest.raises(ends):
        CASE.step(optimiser)
