"""A network with kinks steps where a rounding carries a number over one; a smooth one does not, and is judged as before."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from stackproof.device.numerics import Judgement
from stackproof.workloads import condition
from stackproof.workloads.base import Batch, Evaluation, Job, Recipe, Units, Workload
from stackproof.workloads.condition import conditioned, kept, lost, spread

OUT = Judgement(False, 4e-3, 1e-4, 4e-3)


class _Job(Job):
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return what comes out and its mean square."""
        output = model(batch["given"])
        return output, functional.mse_loss(output, torch.ones_like(output))

    @property
    def units(self) -> Units:
        """Nothing that counts."""
        return Units(1, 0, 1)


class Layers(Workload):
    """Wide layers with a function between them."""

    name = "layers"

    def __init__(self, between: type[nn.Module]) -> None:
        self.between = between

    def assemble(self, recipe: Recipe) -> Job:
        """Build it on numbers that are whole, so that many are close to each other."""
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
    monkeypatch.setattr(condition, "spread", lambda _: 1 / 0)
    good = {"gradient": Judgement(True, 1e-6, 1e-5, 1e-6)}
    assert conditioned(good, Layers(nn.Tanh)) == good


def test_what_half_precision_loses_is_left_to_the_whole_gradient() -> None:
    kinked, smooth = Layers(nn.Hardtanh), Layers(nn.Tanh)
    gone = sorted(lost(kinked, torch.bfloat16))
    assert gone and not lost(smooth, torch.float16) & {"9.bias"}
    found = {f"gradient of {gone[0]}": OUT, "gradient of 9.bias": OUT, "whole": OUT}
    assert f"gradient of {gone[0]}" not in kept(found, kinked, torch.bfloat16)
    assert kept(found, smooth, torch.float16)["gradient of 9.bias"] == OUT
    assert kept(found, kinked, torch.bfloat16)["whole"] == OUT
