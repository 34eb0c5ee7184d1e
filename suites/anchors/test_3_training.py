"""Schedules, gradient clipping and gradient scaling against their definitions, also after they were saved and resumed."""

from __future__ import annotations

import copy
import importlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map

from stackproof import DATA
from stackproof.base import places
from stackproof.base.toml import read_toml
from stackproof.device.kinds import Device
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.training import in_float64
from suites.anchors.closeness import drawn

_FIRST = 1.0
"""The rate that schedules start from."""
_FUNCTIONS = {
    "reciprocal": lambda step: 1 / (1 + step),
    "halving": lambda step: math.pow(0.5, step),
    "share": lambda step: step / (1 + step),
}
SCHEDULES: dict[str, Any] = {row["name"]: row for row in read_toml(DATA / "goldens" / "schedules.toml")["schedule"]}
SHAPES = ((7,), (33, 5), (4, 3, 3, 3), (70_001,), *[(3,)] * 112)


def parameters(device: torch.device) -> list[torch.Tensor]:
    """Return parameters with values that every device makes alike."""
    return [
        torch.from_numpy(drawn(*shape, key=key)).float().to(device).requires_grad_() for key, shape in enumerate(SHAPES)
    ]


def give_gradients(tensors: Sequence[torch.Tensor], step: int) -> None:
    for key, tensor in enumerate(tensors):
        tensor.grad = torch.empty_like(tensor).copy_(torch.from_numpy(drawn(*tensor.shape, key=1000 * step + key)))


@pytest.mark.deadline(30)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str, figures: dict[str, Figure]) -> None:
    """The rate of each of ten steps is the formula's, of two groups that may start apart, also when saved and resumed half-way.

    Rates may be numbers or tensors.
    """
    row = SCHEDULES[name]
    second = row.get("second") or [rate * (0.5 if row.get("halved") else 1.0) for rate in row["rates"]]
    kinds: list[Callable[[float], Any]] = [float, partial(torch.tensor, dtype=torch.float64)]
    for kind in kinds[: 1 + row.get("tensors", True)]:
        optimiser, schedule = _scheduled(row, kind)
        for step in range(10):
            for number, group in enumerate(optimiser.param_groups):
                actual = {"rate": group["lr"], "momentum": group["betas"][0] if row.get("betas") else group["momentum"]}
                exact = {"rate": (second if number else row["rates"])[step]}
                exact |= {"momentum": row["momentum"][step]} if "momentum" in row else {}
                for what, expected in exact.items():
                    where = f"{name}: the {what} of step {step} in group {number} is {actual[what]}"
                    require(abs(actual[what] - expected) <= 1e-12, f"{where}, by its formula {expected}")
            optimiser.step()
            schedule.step(*row.get("inputs", ())[step : step + 1])
            if step == 4:
                states = copy.deepcopy((optimiser.state_dict(), schedule.state_dict()))
                optimiser, schedule = _scheduled(row, kind)
                optimiser.load_state_dict(states[0])
                schedule.load_state_dict(states[1])
    figures["summary"] = "ten rates by the formula, five of them after a resume"


def _wide(stack: Stack, place: int) -> torch.dtype:
    """Return float64 for each second tensor, where the stack has it."""
    return torch.float64 if place % 2 and "float64" in stack.precisions else torch.float32


def _scheduled(row: Mapping[str, Any], kind: Callable[[float], Any]) -> tuple[torch.optim.Optimizer, Any]:
    rates = _FIRST, _FIRST / 2 if row.get("halved") else _FIRST
    groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": kind(rate)} for rate in rates]
    options: dict[str, Any] = {"betas": (0.5, 0.75)} if row.get("betas") else {"momentum": 0.5}
    optimiser = (torch.optim.AdamW if row.get("betas") else torch.optim.SGD)(groups, lr=_FIRST, **options)
    return optimiser, _made(row, optimiser)


def _made(row: Mapping[str, Any], optimiser: torch.optim.Optimizer) -> Any:
    """Return the schedule of a row, or end the check where the package is not installed."""
    module, _, name = row["kind"].rpartition(".")
    try:
        make = getattr(importlib.import_module(module), name)
    except ImportError as error:
        rule = f"{places.table('workloads.toml')}: {module} is not installed, whose schedules these are"
        raise CapabilityMissing(rule) from error
    options = tree_map(lambda leaf: _FUNCTIONS.get(leaf, leaf), row.get("options", {}))
    if parts := [_made(part, optimiser) for part in row.get("parts", ())]:
        return make(optimiser, parts, **options) if options else make(parts)
    return make(optimiser, **options)


@pytest.mark.deadline(30)
@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf, 3.0], ids=["2", "1", "inf", "3"])
def test_clipping(norm: float, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Gradients are scaled by bound / (norm + 1e-6) where that is under 1, and left alone where it is not; the norm is returned.

    In one call for a list of tensors, and tensor by tensor; of two dtypes where the stack has float64.
    """
    tensors = [
        leaf.detach().to(_wide(stack, place)).requires_grad_() for place, leaf in enumerate(parameters(device.torch))
    ]
    give_gradients(tensors, 1)
    before = [in_float64(tensor.grad) for tensor in tensors]
    joined = np.concatenate([gradient.reshape(-1) for gradient in before])
    total = float(np.linalg.norm(joined, norm))
    for bound, foreach in itertools.product((total * 4, total * 1.01, total / 1.01, total / 3), (None, False)):
        for tensor, gradient in zip(tensors, before, strict=True):
            tensor.grad = torch.empty_like(tensor).copy_(torch.from_numpy(gradient))
        returned = float(torch.nn.utils.clip_grad_norm_(tensors, bound, norm, foreach=foreach))
        require(
            abs(returned / total - 1) <= 1e-5,
            f"the {norm}-norm of the gradients is {total:.7g}, and clipping says {returned:.7g}",
        )
        factor = min(1.0, bound / (total + 1e-6))
        for tensor, gradient in zip(tensors, before, strict=True):
            off = np.abs(in_float64(tensor.grad) - factor * gradient).max() / np.abs(gradient).max()
            require(
                off <= 1e-5, f"clipped to {bound / total:.3g} of the norm, a gradient is {off:.2g} off, 1e-5 is allowed"
            )
    figures["summary"] = f"gradients clipped by their {norm}-norm of {total:.4g} are the definition's"


@pytest.mark.deadline(30)
def test_clipping_infinite(device: Device, figures: dict[str, Figure]) -> None:
    """An infinite norm leaves zeros where gradients are finite; with `error_if_nonfinite` it raises, and gradients stay as they are."""
    leaf = torch.zeros(3, device=device.torch, requires_grad=True)
    for foreach, bad in itertools.product((None, False), (math.inf, math.nan)):
        leaf.grad = torch.tensor([1.0, bad, 2.0], device=device.torch)
        with pytest.raises(RuntimeError, match="non-finite"):
            torch.nn.utils.clip_grad_norm_([leaf], 1.0, error_if_nonfinite=True, foreach=foreach)
        require(
            in_float64(leaf.grad)[2] == 2.0, f"a norm of {bad} is refused, and the gradients are changed all the same"
        )
        returned = float(torch.nn.utils.clip_grad_norm_([leaf], 1.0, foreach=foreach))
        require(not math.isfinite(returned), f"the norm of a gradient with {bad} is said to be {returned}")
        gradient, rest = in_float64(leaf.grad), 0.0 if math.isinf(bad) else math.nan
        require(
            np.array_equal(gradient, [rest, math.nan, rest], equal_nan=True),
            f"clipped by a norm of {bad}, [1, {bad}, 2] is {gradient}",
        )
    figures["summary"] = "infinite norms and those that are no number are refused, or leave what their definition does"


@pytest.mark.deadline(30)
def test_clearing(device: Device, figures: dict[str, Figure]) -> None:
    """Gradients are None when cleared, or zeros in the same memory where that is asked for."""
    for kind in ("single", "foreach"):
        tensors = parameters(device.torch)
        optimiser = torch.optim.SGD(tensors, lr=0.1, foreach=kind == "foreach")
        give_gradients(tensors, 1)
        kept = [tensor.grad for tensor in tensors]
        optimiser.zero_grad(set_to_none=False)
        same = [tensor.grad is before for tensor, before in zip(tensors, kept, strict=True)]
        left_over = sum(int(tensor.grad.count_nonzero()) for tensor in tensors if tensor.grad is not None)
        require(all(same) and not left_over, f"{kind}: {left_over} numbers of cleared gradients are not zero")
        optimiser.zero_grad()
        require(all(tensor.grad is None for tensor in tensors), f"{kind}: gradients that are cleared are there")
    figures["summary"] = "gradients are cleared, to zeros and to nothing"


@pytest.mark.deadline(30)
def test_clipping_values(device: Device, figures: dict[str, Figure]) -> None:
    """Each number of a gradient is cut at the bound, to the bit, and no other is touched."""
    tensors = parameters(device.torch)
    wrong: list[int] = []
    for foreach in (None, False):
        give_gradients(tensors, 2)
        before = [in_float64(tensor.grad) for tensor in tensors]
        torch.nn.utils.clip_grad_value_(tensors, 0.375, foreach=foreach)
        wrong += [
            number
            for number, (tensor, gradient) in enumerate(zip(tensors, before, strict=True))
            if not np.array_equal(in_float64(tensor.grad), np.clip(gradient, -0.375, 0.375))
        ]
    require(not wrong, f"clipped by value, {len(wrong)} of {len(tensors)} gradients are not what lies within 0.375")
    figures["summary"] = f"{len(tensors)} gradients clipped by value to the bit"


@pytest.mark.deadline(30)
def test_scaled_clipping(device: Device, figures: dict[str, Figure]) -> None:
    """Two optimisers under one scaler unscale, clip and step once, where only one of them meets an infinite gradient."""
    scaling = torch.amp.GradScaler(device.kind, init_scale=64.0)
    weights = [torch.ones(3, device=device.torch, requires_grad=True) for _ in range(2)]
    optimisers, scale = [torch.optim.SGD([weight], lr=0.5) for weight in weights], 64.0
    for bad in (None, 1, 0):
        before = [in_float64(weight) for weight in weights]
        slopes = [np.array([3.0, 4.0, 12.0]), np.array([1.0, 2.0, 2.0])]
        factors = [torch.tensor(slope, dtype=torch.float32, device=device.torch) for slope in slopes]
        if bad is not None:
            factors[bad][1] = math.inf
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss = torch.stack([(weight * slope).sum() for weight, slope in zip(weights, factors, strict=True)]).sum()
        scaling.scale(loss).backward()
        for number, optimiser in enumerate(optimisers):
            scaling.unscale_(optimiser)
            torch.nn.utils.clip_grad_norm_([weights[number]], 2.0)
            scaling.step(optimiser)
        scaling.update()
        scale /= 1.0 if bad is None else 2.0
        require(
            scaling.get_scale() == scale,
            f"of two optimisers, number {bad} with an infinite gradient: the scale is {scaling.get_scale()}, not {scale}",
        )
        for number, slope in enumerate(slopes):
            moved = 0.0 if number == bad else 0.5 * slope * min(1.0, 2.0 / (float(np.linalg.norm(slope)) + 1e-6))
            off = float(np.abs(in_float64(weights[number]) - (before[number] - moved)).max())
            require(
                off <= 1e-6,
                f"of two optimisers, {'neither' if bad is None else f'number {bad}'} with an infinite gradient: "
                f"number {number} is {off:.2g} from a step of its clipped gradient",
            )
    figures["summary"] = "two optimisers under one scaler: unscaled once, clipped, and stepped where finite"


@pytest.mark.deadline(30)
def test_scaling(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """The scaler unscales exactly, doubles after two good steps, halves after a bad one and skips it, also when it is resumed.

    Of two groups, of two dtypes where the stack has float64; a list of losses is scaled alike, and a scale that is given is the one it has.
    """

    def scaler() -> torch.amp.GradScaler:
        return torch.amp.GradScaler(
            device.kind, init_scale=64.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2
        )

    weights = [torch.ones(3, dtype=_wide(stack, place), device=device.torch, requires_grad=True) for place in range(2)]
    optimiser, scaling = torch.optim.SGD([{"params": [weight]} for weight in weights], lr=0.5), scaler()
    expected, scale, good = np.ones(3), 64.0, 0
    for turn, bad in enumerate((0.0, 0.0, 0.0, math.inf, 0.0, 0.0, math.nan)):
        slope = torch.tensor([1.0, 2.0, bad or 4.0], device=device.torch)
        optimiser.zero_grad()
        scaling.scale((weights[0] * slope).sum() + (weights[1] * slope).sum()).backward()
        scaling.step(optimiser)
        scaling.update()
        if not bad:
            expected = expected - 0.5 * np.array([1.0, 2.0, 4.0])
        good = 0 if bad else good + 1
        scale, good = (scale / 2, 0) if bad else ((scale * 2, 0) if good == 2 else (scale, good))
        require(
            scaling.get_scale() == scale, f"turn {turn}: the scale is {scaling.get_scale()}, by its definition {scale}"
        )
        for weight in weights:
            require(
                np.array_equal(in_float64(weight), expected),
                f"turn {turn}: a scaled step of {weight.dtype} led to {in_float64(weight)}, a plain one to {expected}",
            )
        if turn == 4:  # one good step of two: the next one doubles only if that is remembered
            state, scaling = scaling.state_dict(), scaler()
            scaling.load_state_dict(state)
    several = scaling.scale([torch.ones((), device=device.torch), torch.full((2,), 3.0, device=device.torch)])
    times = {float(x) / plain for losses, plain in zip(several, (1.0, 3.0), strict=True) for x in losses.flatten()}
    require(times == {scale}, f"of a list, losses are scaled by {sorted(times)}, not by {scale}")
    scaling.update(8.0)
    require(scaling.get_scale() == 8.0, f"the scaler was given the scale 8, and has {scaling.get_scale()}")
    figures["summary"] = "seven turns of the gradient scaler are its definition, two of them after a resume"
