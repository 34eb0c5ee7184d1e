"""Jobs are proved before they are timed, also where no float64 reference can be had."""

from __future__ import annotations

import math

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.record.checks import CheckFailed
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get
from stackproof.workloads.gradients import against_float64, against_itself, apart

NAMES = ("classifier", "yolov8n", "llama3-8b-lora")


def tiny(name: str, autocast: torch.dtype | None = None) -> Job:
    """Return a tiny job in float32."""
    return get(name).build(torch.device("cpu"), "tiny", 7, torch.float32, autocast)


def scale_backward(job: Job, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make backward give gradients that are wrong by a factor."""
    own = job.differentiate
    monkeypatch.setattr(job, "differentiate", lambda loss: own(loss * factor))


@pytest.mark.parametrize("name", NAMES)
def test_forward_and_backward_that_belong_together_pass(name: str) -> None:
    job = tiny(name)
    before = {key: parameter.detach().clone() for key, parameter in job.model.named_parameters()}
    assert "forward changes by" in against_itself(job)
    assert all(torch.equal(before[key], parameter) for key, parameter in job.model.named_parameters())


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 1.5, -1.0])
@pytest.mark.parametrize("name", NAMES)
def test_a_backward_of_the_wrong_size_is_caught_without_a_reference(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tiny(name)
    scale_backward(job, factor, monkeypatch)
    with pytest.raises(CheckFailed, match="forward and backward do not belong together"):
        against_itself(job)


def test_a_backward_in_the_wrong_direction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny("classifier")
    own = job.differentiate

    def wrong(loss: torch.Tensor) -> None:
        own(loss)
        weight = max(job.model.parameters(), key=lambda one: 0.0 if one.grad is None else float(one.grad.norm()))
        assert weight.grad is not None
        noise = torch.randn(weight.grad.shape, generator=torch.Generator().manual_seed(1))
        weight.grad.copy_(noise * weight.grad.norm() / noise.norm())

    monkeypatch.setattr(job, "differentiate", wrong)
    with pytest.raises(CheckFailed, match="do not belong together"):
        against_itself(job)


def test_no_gradient_at_all_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny("classifier")
    scale_backward(job, 0.0, monkeypatch)
    with pytest.raises(CheckFailed, match="the squared norm of the gradient is 0"):
        against_itself(job)


@pytest.mark.slow
def test_a_thousandth_is_caught_against_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny("llama3-8b-lora")
    assert "28 gradients against float64" in against_float64(get("llama3-8b-lora"), job, HOST)[0]
    scale_backward(job, 1.001, monkeypatch)
    with pytest.raises(CheckFailed, match="llama3-8b-lora tiny: the gradient"):
        against_float64(get("llama3-8b-lora"), job, HOST)


def test_mixed_precision_is_judged_by_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny("llama3-8b-lora", torch.bfloat16)
    against_float64(get("llama3-8b-lora"), job, HOST)
    scale_backward(job, 1.1, monkeypatch)
    with pytest.raises(CheckFailed):
        against_float64(get("llama3-8b-lora"), job, HOST)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_how_far_gradients_are_apart(dtype: torch.dtype) -> None:
    known = {"a": torch.full((4096,), 6e3, dtype=dtype), "b": torch.zeros(3, dtype=dtype)}
    assert apart(known, known) == 0
    assert apart({**known, "a": known["a"] * 1.25}, known) == pytest.approx(0.25, rel=1e-3)
    assert math.isnan(apart({**known, "b": torch.full((3,), math.nan, dtype=dtype)}, known))
    assert apart({"b": known["b"]}, {"b": known["b"]}) == 0
