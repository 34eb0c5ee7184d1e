"""A network with kinks steps where a rounding carries a number over one; a smooth one does not, and is judged as before."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from stackproof.device.numerics import Judgement, relative_error
from stackproof.workloads import gradients
from stackproof.workloads.base import Batch, Evaluation, Job, Recipe, StepResult, Units, Workload
from stackproof.workloads.gradients import conditioned, kept, living, on_top, spread, vanishing

OUT = Judgement(False, 4e-3, 1e-4, 4e-3)


class _Job(Job):
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        output = model(batch["given"])
        return output, functional.mse_loss(output, torch.ones_like(output))

    @property
    def units(self) -> Units:
        return Units(1, 0, 1)


class Layers(Workload):
    """Wide layers with a function between them."""

    name = "layers"

    def __init__(self, between: type[nn.Module]) -> None:
        self.between = between

    def assemble(self, recipe: Recipe) -> Job:
        layers = [one for _ in range(3) for one in (nn.Linear(256, 256), nn.BatchNorm1d(256), self.between())]
        model = nn.Sequential(*layers, nn.Linear(256, 1)).to(recipe.device, recipe.dtype)
        given = torch.randint(0, 3, (512, 256)).float()
        return _Job(recipe, model, torch.optim.SGD(model.parameters(), lr=0.1), [{"given": recipe.share(given)}])


def test_kinks_step_and_smooth_functions_do_not() -> None:
    assert spread(Layers(nn.Hardtanh)) > 1e-3
    assert spread(Layers(nn.Tanh)) < 1e-3


def test_a_step_is_excused_and_no_more_than_that() -> None:
    kinked = Layers(nn.Hardtanh)
    assert conditioned({"gradient": OUT}, kinked)["gradient"].ok
    wrong = Judgement(False, 0.5, 1e-4, 0.5)
    assert not conditioned({"gradient": wrong}, kinked)["gradient"].ok
    assert conditioned({"gradient": OUT}, Layers(nn.Tanh)) == {"gradient": OUT}


def test_what_is_within_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "spread", lambda _: 1 / 0)
    good = {"gradient": Judgement(True, 1e-6, 1e-5, 1e-6)}
    assert conditioned(good, Layers(nn.Tanh)) == good


def test_what_half_precision_loses_is_left_to_the_whole_gradient() -> None:
    kinked, smooth = Layers(nn.Hardtanh), Layers(nn.Tanh)
    names = [name for name, _ in kinked.build(torch.device("cpu"), "tiny", 1).model.named_parameters()]
    found = {**{f"gradient of {name}": OUT for name in names}, "whole": OUT}
    left = kept(found, kinked, torch.bfloat16)
    assert left["whole"] == OUT and len(left) < len(found)
    assert kept(found, smooth, torch.float16)["gradient of 9.bias"] == OUT
    good = {what: Judgement(True, 1e-6, 1e-5, 1e-6) for what in found}
    assert kept(good, kinked, torch.bfloat16) == good


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
    whole, seen = (on_top(one.gradients, exact)["0.bias"] for one in (exact, narrow))
    assert relative_error(seen, whole) < 1e-6
    narrow.gradients["0.bias"].add_(1e-3)
    assert relative_error(on_top(narrow.gradients, exact)["0.bias"], whole) > 1e-4
