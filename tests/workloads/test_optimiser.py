"""The optimiser's step alone: its change of all parameters is held against float64."""

from __future__ import annotations

import pytest
import torch

from stackproof.record.checks import CheckFailed
from stackproof.workloads.optimiser import OptimiserStep

from .working import setting


def test_a_right_step_is_proved() -> None:
    """SGD with momentum over the classifier's parameters; each run is one step."""
    work = OptimiserStep(setting(workload="classifier"))
    assert f"change of {work.conclude()['parameters']} parameters, error" in work.prove()
    before = [parameter.detach().clone() for parameter in work.parameters]
    work.run()
    assert not any(torch.equal(kept, now) for kept, now in zip(before, work.parameters, strict=True))
    assert work.worth == {"iteration": 1.0}


def test_a_wrong_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learning rate that is off by a thousandth."""
    work = OptimiserStep(setting(workload="classifier"))
    work.optimiser.param_groups[0]["lr"] *= 1.001
    with pytest.raises(CheckFailed, match="one step's change of all parameters"):
        work.prove()


def test_a_step_that_does_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a scaler that skips every step would."""
    work = OptimiserStep(setting(workload="classifier"))
    monkeypatch.setattr(work.optimiser, "step", lambda: None)
    with pytest.raises(CheckFailed):
        work.prove()
