"""The optimiser's step alone: its change of all parameters is held against float64."""

from __future__ import annotations

import pytest
import torch

from stackproof.record.checks import CheckFailed
from stackproof.workloads.training import OptimiserStep

from .working import setting


def test_a_right_step_is_proved() -> None:
    work = OptimiserStep(setting(workload="classifier"))
    assert f"all {work.facts['parameters']} parameters and their state after two steps" in work.prove()
    before = [parameter.detach().clone() for parameter in work.parameters]
    work.run()
    assert not any(torch.equal(kept, now) for kept, now in zip(before, work.parameters, strict=True))
    assert work.worth == {"iteration": 1.0}


def test_a_wrong_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    work = OptimiserStep(setting(workload="classifier"))
    own, group = work.optimiser.step, work.optimiser.param_groups[0]

    def wrong() -> None:
        group["lr"] *= 1.001
        own()
        group["lr"] /= 1.001

    monkeypatch.setattr(work.optimiser, "step", wrong)
    with pytest.raises(CheckFailed, match="a step of SGD: the parameter is"):
        work.prove()


def test_a_step_that_does_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    work = OptimiserStep(setting(workload="classifier"))
    monkeypatch.setattr(work.optimiser, "step", lambda: None)
    with pytest.raises(CheckFailed):
        work.prove()
