"""What trains, against its definition: optimisers, schedules, clipping and scaling; and what is saved and resumed goes on as before."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators import forms
from stackproof.record.checks import require
from stackproof.record.records import Figure
from suites.optimisers.variants import CPU, SETTINGS, Case, give_gradients, left, parameters

_STEPS = 4
_ALLOWED = {torch.float64: 1e-12, torch.float32: 2e-6}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05, "nesterov": True},
    "Adam": {"lr": 0.01, "weight_decay": 0.05, "betas": (0.875, 0.984375)},
    "AdamW": {"lr": 0.01, "weight_decay": 0.5, "betas": (0.875, 0.984375)},
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("kind", ["single", "foreach"])
@pytest.mark.parametrize("name", OPTIONS)
def test_optimiser(name: str, kind: str, device: Device, figures: dict[str, Figure]) -> None:
    """Parameters and state after each of four steps are the closed form's: momentum, both moments, decay once."""
    for place, dtype in ((CPU, torch.float64), (device.torch, torch.float32)):
        tensors = parameters(place, dtype)[1:]
        make = getattr(torch.optim, name)
        optimiser = make(tensors, **OPTIONS[name], foreach=kind == "foreach")
        states: list[forms.State] = [{"parameter": _wide(one)} for one in tensors]
        worst = 0.0
        for step in range(_STEPS):
            give_gradients([torch.empty(0), *tensors], step)
            gradients = [_wide(one.grad) for one in tensors]
            optimiser.step()
            options = optimiser.param_groups[0]
            states = [
                forms.STEPS[name](state, slope, options)[0] for state, slope in zip(states, gradients, strict=True)
            ]
            for tensor, state in zip(tensors, states, strict=True):
                held = {
                    "parameter": tensor,
                    **{key: one for key, one in optimiser.state[tensor].items() if torch.is_tensor(one)},
                }
                require(held.keys() == state.keys(), f"{name} keeps {sorted(held)}, its closed form {sorted(state)}")
                for what, value in state.items():
                    off = float(np.linalg.norm(_wide(held[what]) - value)) / max(float(np.linalg.norm(value)), 1e-300)
                    require(
                        off <= _ALLOWED[dtype],
                        f"{name}, {kind}, in {dtype}: the {what} after step {step + 1} is {off:.2g} from the closed form, "
                        f"{_ALLOWED[dtype]} is allowed",
                    )
                    worst = max(worst, off)
        figures[f"{dtype}"] = worst
    figures["summary"] = f"four steps of {name} are its closed form, state and all"


def _wide(tensor: Any) -> Any:
    return tensor.detach().cpu().double().numpy().copy()


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", SETTINGS)
def test_resume(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Three steps, saved and loaded into a new optimiser, and two more are five steps, bit for bit, for every tensor of its state."""
    case = Case(name, "foreach", device.torch, torch.float32)
    tensors = parameters(device.torch, torch.float32)
    optimiser = case.build(tensors)
    _train(optimiser, tensors, range(3))
    saved, kept = copy.deepcopy(optimiser.state_dict()), [one.detach().clone() for one in tensors]
    _train(optimiser, tensors, range(3, 5))
    others = [one.requires_grad_() for one in kept]
    resumed = case.build(others)
    resumed.load_state_dict(saved)
    _train(resumed, others, range(3, 5))
    on, again = left(optimiser, tensors), left(resumed, others)
    require(
        on.keys() == again.keys(), f"{name}: what was resumed keeps {sorted(again.keys() ^ on.keys())[:3]} otherwise"
    )
    apart = [what for what, value in on.items() if not torch.equal(value, again[what])]
    require(not apart, f"{name}: resumed, {len(apart)} of {len(on)} tensors differ from going on, such as {apart[:1]}")
    figures["compared"] = len(on)
    figures["summary"] = f"{len(on)} tensors are bit-equal after a resume"


def _train(optimiser: torch.optim.Optimizer, tensors: list[torch.Tensor], turns: range) -> None:
    for step in turns:
        give_gradients(tensors, step)
        optimiser.step()


def _cosine(step: int) -> float:
    return 0.01 + (1 - 0.01) * (1 + math.cos(math.pi * step / 10)) / 2


SCHEDULES: Mapping[str, tuple[Callable[[Any], Any], Callable[[int], float]]] = {
    "StepLR": (lambda one: torch.optim.lr_scheduler.StepLR(one, 3, 0.5), lambda step: 0.5 ** (step // 3)),
    "MultiStepLR": (
        lambda one: torch.optim.lr_scheduler.MultiStepLR(one, [2, 5], 0.1),
        lambda step: 0.1 ** ((step >= 2) + (step >= 5)),
    ),
    "ExponentialLR": (lambda one: torch.optim.lr_scheduler.ExponentialLR(one, 0.9), lambda step: 0.9**step),
    "LinearLR": (
        lambda one: torch.optim.lr_scheduler.LinearLR(one, 0.25, 1.0, 4),
        lambda step: 0.25 + 0.75 * min(step, 4) / 4,
    ),
    "CosineAnnealingLR": (lambda one: torch.optim.lr_scheduler.CosineAnnealingLR(one, 10, 0.01), _cosine),
    "PolynomialLR": (
        lambda one: torch.optim.lr_scheduler.PolynomialLR(one, 8, 2.0),
        lambda step: (1 - min(step, 8) / 8) ** 2,
    ),
    "LambdaLR": (
        lambda one: torch.optim.lr_scheduler.LambdaLR(one, lambda step: 1 / (1 + step)),
        lambda step: 1 / (1 + step),
    ),
}


@pytest.mark.deadline(30)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str, figures: dict[str, Figure]) -> None:
    """The rate of each of ten steps is the formula's, and also when it is saved and resumed half-way."""
    make, formula = SCHEDULES[name]
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = make(optimiser)
    for step in range(10):
        rate = optimiser.param_groups[0]["lr"]
        require(
            abs(rate - formula(step)) <= 1e-12,
            f"{name}: the rate of step {step} is {rate}, by its formula {formula(step)}",
        )
        optimiser.step()
        schedule.step()
        if step == 4:
            states = copy.deepcopy((optimiser.state_dict(), schedule.state_dict()))
            optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
            schedule = make(optimiser)
            optimiser.load_state_dict(states[0])
            schedule.load_state_dict(states[1])
    figures["summary"] = "ten rates by the formula, five of them after a resume"


@pytest.mark.deadline(30)
@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf], ids=["2", "1", "inf"])
def test_clipping(norm: float, device: Device, figures: dict[str, Figure]) -> None:
    """Gradients come out times bound / (norm + 1e-6) where that is under 1, and untouched where it is not; the norm is returned."""
    tensors = parameters(device.torch, torch.float32)[1:]
    give_gradients([torch.empty(0), *tensors], 1)
    before = [_wide(one.grad) for one in tensors]
    joined = np.concatenate([one.reshape(-1) for one in before])
    total = float(np.linalg.norm(joined, norm))
    for bound in (total * 4, total / 3):
        for tensor, gradient in zip(tensors, before, strict=True):
            tensor.grad = torch.empty_like(tensor).copy_(torch.from_numpy(gradient))
        said = float(torch.nn.utils.clip_grad_norm_(tensors, bound, norm))
        require(
            abs(said / total - 1) <= 1e-5,
            f"the {norm}-norm of the gradients is {total:.7g}, and clipping says {said:.7g}",
        )
        factor = min(1.0, bound / (total + 1e-6))
        for tensor, gradient in zip(tensors, before, strict=True):
            off = np.abs(_wide(tensor.grad) - factor * gradient).max() / np.abs(gradient).max()
            require(
                off <= 1e-6, f"clipped to {bound / total:.3g} of the norm, a gradient is {off:.2g} off, 1e-6 is allowed"
            )
    figures["summary"] = f"gradients clipped by their {norm}-norm of {total:.4g} are the definition's"


@pytest.mark.deadline(30)
def test_scaling(device: Device, figures: dict[str, Figure]) -> None:
    """The scaler unscales exactly, doubles after two good steps, halves after a bad one and skips it; resumed, it goes on so."""

    def scaler() -> torch.amp.GradScaler:
        return torch.amp.GradScaler(
            device.kind, init_scale=64.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2
        )

    weight = torch.ones(3, device=device.torch, requires_grad=True)
    optimiser, scaling = torch.optim.SGD([weight], lr=0.5), scaler()
    expected, scale, good = np.ones(3), 64.0, 0
    for turn, bad in enumerate((False, False, False, True, False, False, True)):
        slope = torch.tensor([1.0, 2.0, float("inf") if bad else 4.0], device=device.torch)
        optimiser.zero_grad()
        scaling.scale((weight * slope).sum()).backward()
        scaling.step(optimiser)
        scaling.update()
        if not bad:
            expected = expected - 0.5 * np.array([1.0, 2.0, 4.0])
        good = 0 if bad else good + 1
        scale, good = (scale / 2, 0) if bad else ((scale * 2, 0) if good == 2 else (scale, good))
        require(
            scaling.get_scale() == scale, f"turn {turn}: the scale is {scaling.get_scale()}, by its definition {scale}"
        )
        require(
            np.array_equal(_wide(weight), expected),
            f"turn {turn}: a scaled step led to {_wide(weight)}, a plain one to {expected}",
        )
        if turn == 2:
            state, scaling = scaling.state_dict(), scaler()
            scaling.load_state_dict(state)
    figures["summary"] = "seven turns of the gradient scaler are its definition, four of them after a resume"
