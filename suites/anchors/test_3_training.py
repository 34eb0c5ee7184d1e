"""What trains, against its definition: optimisers, schedules, clipping and scaling; and what is saved and resumed goes on as before."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from stackproof import DATA
from stackproof.base import places
from stackproof.base.toml import read_toml
from stackproof.device.kinds import Device
from stackproof.operators import forms
from stackproof.operators.recurrences import RECURRENCES, quasi_newton
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.updates import in_float64
from suites.anchors.schedules import FIRST, SCHEDULES, Schedule
from suites.optimisers.variants import CPU, SETTINGS, Case, give_gradients, left, parameters

_STEPS = 8
"""RAdam's adaptive rate begins at the sixth."""
_FAR = 700
_RATES = ("SGD", "Adam", "AdamW")
"""Those that have taken a tensor as rate since torch 2.4."""
_ALLOWED = {torch.float64: 1e-11, torch.float32: 5e-6}
_TABLE = read_toml(DATA / "optimisers.toml")
_OPTIONS: Mapping[str, Mapping[str, Any]] = {row["name"]: row for row in _TABLE["optimiser"]}


def _options(name: str) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in _OPTIONS[name]["options"].items()}


def _otherwise(key: str, value: Any) -> Any:
    """Return another value that the option may have: a group's own, which no other group's must replace.

    Adagrad's first sum is what its constructor was given, whatever the group says.
    """
    if key == "betas":
        return tuple(0.9 * one for one in value)
    halved = isinstance(value, float) and 0 < value < 1 and key != "initial_accumulator_value"
    return value / 2 if halved else value


def _made(
    name: str, tensors: Sequence[torch.Tensor], **more: Any
) -> tuple[torch.optim.Optimizer, dict[int, dict[str, Any]]]:
    """Return the optimiser of a row over two groups, and what holds for each tensor; end the check if this torch has none.

    The first group has options of its own, some by half and uphill for downhill; the other says nothing and has what is given to all.
    """
    row, kind = _OPTIONS[name], name.split(",")[0]
    if not hasattr(torch.optim, kind):
        raise CapabilityMissing(
            f"{places.table('optimisers.toml')}: {kind} is there since torch {row['since']}, this is {torch.__version__}"
        )
    options = _options(name)
    own = {key: _otherwise(key, value) for key, value in options.items()}
    own["maximize"] = not options.get("maximize", False)
    groups = [{"params": tensors[:3], **own}, {"params": tensors[3:]}]
    made: torch.optim.Optimizer = getattr(torch.optim, kind)(groups, **options, **more)
    common = {**made.defaults, **options}
    return made, {id(one): {**common, **own} if place < 3 else common for place, one in enumerate(tensors)}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("kind", ["single", "foreach"])
@pytest.mark.parametrize("name", _OPTIONS)
def test_optimiser(name: str, kind: str, device: Device, figures: dict[str, Figure]) -> None:
    """Parameters and state after each of ten steps are the closed form's, of each tensor by the options of its own group.

    Before the ninth step the counts are set far on, where corrections for a short past have faded; in the tenth the rate is a tensor.
    """
    recurrence = RECURRENCES[name.split(",")[0]]
    for place, dtype in ((CPU, torch.float64), (device.torch, torch.float32)):
        tensors = parameters(place, dtype)[1:]
        optimiser, options = _made(name, tensors, foreach=kind == "foreach")
        states: list[forms.State] = [{"parameter": in_float64(one)} for one in tensors]
        sizes: list[dict[str, float]] = [{} for _ in tensors]
        worst, allowed = 0.0, max(_ALLOWED[dtype], _OPTIONS[name].get("allowed", 0.0))
        for step in range(_STEPS + 2):
            if step == _STEPS:
                _far_on(optimiser, states)
            if step == _STEPS + 1 and kind == "single" and name.split(",")[0] in _RATES:
                for group in optimiser.param_groups:
                    group["lr"] = torch.tensor(group["lr"], dtype=torch.float64)
            give_gradients([torch.empty(0), *tensors], step)
            gradients = [in_float64(one.grad) for one in tensors]
            optimiser.step()
            for number, (tensor, slope) in enumerate(zip(tensors, gradients, strict=True)):
                own = options[id(tensor)]
                exact = states[number] = recurrence(states[number], -slope if own["maximize"] else slope, own)
                said = f"{name}, {kind}, in {dtype}, after step {step + 1}"
                worst = max(worst, _held(optimiser, tensor, exact, sizes[number], allowed, said))
        figures[f"{dtype}"] = worst
    figures |= {"tensors": len(tensors)}
    figures["summary"] = f"{_STEPS + 2} steps of {name} over {len(tensors)} tensors are its closed form, state and all"


def _far_on(optimiser: torch.optim.Optimizer, states: Sequence[forms.State]) -> None:
    """Set the count of steps of every tensor, and of its closed form."""
    for one in optimiser.state.values():
        if "step" in one:
            one["step"].fill_(_FAR)
    for state in states:
        if "step" in state:
            state["step"] = np.asarray(float(_FAR))


@pytest.mark.deadline(30)
def test_defaults(device: Device, figures: dict[str, Figure]) -> None:
    """Where nothing is said, every optimiser and the gradient scaler do what torch documents."""
    compared = 0
    for row in _TABLE["default"]:
        name = row["name"]
        if name == "GradScaler":
            found = torch.amp.GradScaler(device.kind).state_dict()
        else:
            found = getattr(torch.optim, name)([torch.zeros(1, requires_grad=True)]).defaults
        for what, value in row["values"].items():
            said, known = found.get(what), tuple(value) if isinstance(value, list) else value
            require(said == known, f"{name}: where nothing is said of {what} it is {said}, {known} is documented")
            compared += 1
    figures |= {"compared": compared}
    figures["summary"] = f"{compared} defaults are what torch documents"


def _held(
    optimiser: torch.optim.Optimizer,
    tensor: torch.Tensor,
    exact: forms.State,
    sizes: dict[str, float],
    allowed: float,
    said: str,
) -> float:
    """Hold a parameter and what the optimiser keeps of it, in parts of the largest size that each had; return the worst."""
    found = {key: in_float64(one) for key, one in optimiser.state[tensor].items() if torch.is_tensor(one)}
    found["parameter"] = in_float64(tensor)
    require(found.keys() == exact.keys(), f"{said} it keeps {sorted(found)}, its closed form {sorted(exact)}")
    worst = 0.0
    for what, value in exact.items():
        require(
            found[what].shape == np.shape(value),
            f"{said} the {what} has shape {found[what].shape}, not {np.shape(value)}",
        )
        sizes[what] = max(sizes.get(what, 1e-300), float(np.linalg.norm(value)))
        off = float(np.linalg.norm(found[what] - value)) / sizes[what]
        require(off <= allowed, f"{said} the {what} is {off:.2g} from the closed form, {allowed} is allowed")
        worst = max(worst, off)
    return worst


@pytest.mark.deadline(60)
def test_quasi_newton(device: Device, figures: dict[str, Figure]) -> None:
    """L-BFGS with a history of three goes where the recursion of two loops goes, on nine numbers, from afar and from near."""
    matrix = np.diag(np.arange(1.0, 10.0)) + 0.25
    for away in (2.0, 0.02):  # near the end curvatures are small, and are still to be used
        start = np.linspace(-away, away, 9)
        exact = quasi_newton(lambda place: matrix @ place, start, 0.5, 3, 8)
        for place, dtype, allowed in ((CPU, torch.float64, 1e-9), (device.torch, torch.float32, 1e-3)):
            found = _settled(matrix, start, place, dtype)
            off = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
            said = (
                f"L-BFGS in {dtype} is {off:.2g} from its recursion after 8 steps from {away:g}, {allowed} is allowed"
            )
            require(off <= allowed, said)
            figures[f"{dtype}, from {away:g}"] = off
    figures["summary"] = "eight steps of L-BFGS are its recursion, twice"


def _settled(matrix: forms.Floats, start: forms.Floats, place: torch.device, dtype: torch.dtype) -> forms.Floats:
    """Return where eight steps of L-BFGS end, which nothing stops before."""
    form, leaf = (torch.tensor(one, dtype=dtype, device=place) for one in (matrix, start))
    optimiser = torch.optim.LBFGS(
        [leaf.requires_grad_()], lr=0.5, max_iter=8, history_size=3, tolerance_grad=0.0, tolerance_change=0.0
    )

    def loss() -> float:
        leaf.grad = form @ leaf.detach()
        return float(leaf.detach() @ leaf.grad) / 2

    optimiser.step(loss)
    found: forms.Floats = in_float64(leaf)
    return found


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", SETTINGS)
def test_resume(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Three steps, saved and loaded into a new optimiser, and two more are five steps, bit for bit, for every tensor of its state.

    The second group has a rate and a decay of its own, which the new optimiser knows only from what was saved.
    """
    case = Case(name, "foreach", device.torch, torch.float32)
    tensors = parameters(device.torch, torch.float32)
    optimiser = _grouped(case, tensors, 0.5)
    _train(optimiser, tensors, range(3))
    saved, kept = copy.deepcopy(optimiser.state_dict()), [one.detach().clone() for one in tensors]
    _train(optimiser, tensors, range(3, 5))
    others = [one.requires_grad_() for one in kept]
    resumed = _grouped(case, others, 1.0)
    resumed.load_state_dict(saved)
    _train(resumed, others, range(3, 5))
    on, again = left(optimiser, tensors), left(resumed, others)
    require(
        on.keys() == again.keys(), f"{name}: what was resumed keeps {sorted(again.keys() ^ on.keys())[:3]} otherwise"
    )
    apart = [what for what, value in on.items() if not torch.equal(value, again[what])]
    require(not apart, f"{name}: resumed, {len(apart)} of {len(on)} tensors differ from going on, such as {apart[:1]}")
    _counts(case, others)
    figures["compared"] = len(on)
    figures["summary"] = f"{len(on)} tensors are bit-equal after a resume"


def _counts(case: Case, tensors: list[torch.Tensor]) -> None:
    """Steps are counted on where parameters are bfloat16, which does not hold the number 257."""
    halves = [one.detach().bfloat16().requires_grad_() for one in tensors]
    optimiser, resumed = _grouped(case, halves, 0.5), _grouped(case, halves, 0.5)
    _train(optimiser, halves, range(1))
    counters = [state["step"] for state in optimiser.state.values() if isinstance(state.get("step"), torch.Tensor)]
    for counter in counters:
        counter.fill_(257)
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    found = {float(state["step"]) for state in resumed.state.values() if isinstance(state.get("step"), torch.Tensor)}
    require(
        found <= {257.0},
        f"{case.optimiser}: saved after 257 steps and loaded, it counts {sorted(found)} of parameters in bfloat16",
    )


def _grouped(case: Case, tensors: Sequence[torch.Tensor], share: float) -> torch.optim.Optimizer:
    """Return the optimiser over two groups, the second at this share of the rate."""
    rate = share * SETTINGS[case.optimiser]["lr"]
    made = case.build([{"params": tensors[:5]}, {"params": tensors[5:], "lr": rate}])
    if "weight_decay" in (own := made.param_groups[1]):
        own["weight_decay"] = 0.1 * share
    return made


def _train(optimiser: torch.optim.Optimizer, tensors: list[torch.Tensor], turns: range) -> None:
    for step in turns:
        give_gradients(tensors, step)
        optimiser.step()


@pytest.mark.deadline(30)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str, figures: dict[str, Figure]) -> None:
    """The rate of each of ten steps is the formula's, of two groups that may start apart, also when saved and resumed half-way."""
    row = SCHEDULES[name]
    optimiser, schedule = _scheduled(row)
    for step in range(10):
        for number, group in enumerate(optimiser.param_groups):
            for what, formula in {"rate": row.formula, "momentum": row.momentum}.items():
                found = group["lr"] if what == "rate" else group["betas"][0] if row.betas else group["momentum"]
                expected = formula(step) if formula else found
                if number and what == "rate":
                    expected = row.of_second(step)
                require(
                    abs(found - expected) <= 1e-12,
                    f"{name}: the {what} of step {step} in group {number} is {found}, by its formula {expected}",
                )
        optimiser.step()
        schedule.step(*([row.loss(step)] if row.loss else []))
        if step == 4:
            states = copy.deepcopy((optimiser.state_dict(), schedule.state_dict()))
            optimiser, schedule = _scheduled(row)
            optimiser.load_state_dict(states[0])
            schedule.load_state_dict(states[1])
    figures["summary"] = "ten rates by the formula, five of them after a resume"


def _wide(stack: Stack, place: int) -> torch.dtype:
    """Return float64 for each second tensor, where the stack has it."""
    return torch.float64 if place % 2 and "float64" in stack.precisions else torch.float32


def _scheduled(row: Schedule) -> tuple[torch.optim.Optimizer, Any]:
    tensors = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    groups: list[dict[str, Any]] = [{"params": [one]} for one in tensors]
    if row.halved:
        groups[1] |= {"lr": FIRST / 2}
    given: dict[str, Any] = {"betas": (0.5, 0.75)} if row.betas else {"momentum": 0.5}
    optimiser = (torch.optim.AdamW if row.betas else torch.optim.SGD)(groups, lr=FIRST, **given)
    return optimiser, row.make(optimiser)


@pytest.mark.deadline(30)
@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf, 3.0], ids=["2", "1", "inf", "3"])
def test_clipping(norm: float, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Gradients come out times bound / (norm + 1e-6) where that is under 1, and untouched where it is not; the norm is returned.

    In one call for a list of tensors, and tensor by tensor; of two dtypes where the stack has float64.
    """
    tensors = [
        one.detach().to(_wide(stack, place)).requires_grad_()
        for place, one in enumerate(parameters(device.torch, torch.float32)[1:])
    ]
    give_gradients([torch.empty(0), *tensors], 1)
    before = [in_float64(one.grad) for one in tensors]
    joined = np.concatenate([one.reshape(-1) for one in before])
    total = float(np.linalg.norm(joined, norm))
    for bound, foreach in itertools.product((total * 4, total * 1.01, total / 1.01, total / 3), (None, False)):
        for tensor, gradient in zip(tensors, before, strict=True):
            tensor.grad = torch.empty_like(tensor).copy_(torch.from_numpy(gradient))
        said = float(torch.nn.utils.clip_grad_norm_(tensors, bound, norm, foreach=foreach))
        require(
            abs(said / total - 1) <= 1e-5,
            f"the {norm}-norm of the gradients is {total:.7g}, and clipping says {said:.7g}",
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
    """A norm that is infinite leaves zeros where gradients are finite; where it is to be an error it is one, and nothing is touched."""
    leaf = torch.zeros(3, device=device.torch, requires_grad=True)
    for foreach, bad in itertools.product((None, False), (math.inf, math.nan)):
        leaf.grad = torch.tensor([1.0, bad, 2.0], device=device.torch)
        with pytest.raises(RuntimeError, match="non-finite"):
            torch.nn.utils.clip_grad_norm_([leaf], 1.0, error_if_nonfinite=True, foreach=foreach)
        require(
            in_float64(leaf.grad)[2] == 2.0, f"a norm of {bad} is refused, and the gradients are changed all the same"
        )
        said = float(torch.nn.utils.clip_grad_norm_([leaf], 1.0, foreach=foreach))
        require(not math.isfinite(said), f"the norm of a gradient with {bad} is said to be {said}")
        found, rest = in_float64(leaf.grad), 0.0 if math.isinf(bad) else math.nan
        require(
            np.array_equal(found, [rest, math.nan, rest], equal_nan=True),
            f"clipped by a norm of {bad}, [1, {bad}, 2] is {found}",
        )
    figures["summary"] = "infinite norms and those that are no number are refused, or leave what their definition does"


@pytest.mark.deadline(30)
def test_clearing(device: Device, figures: dict[str, Figure]) -> None:
    """Gradients are None when cleared, or zeros in the same memory where that is asked for."""
    for kind in ("single", "foreach"):
        tensors = parameters(device.torch, torch.float32)[1:]
        optimiser = torch.optim.SGD(tensors, lr=0.1, foreach=kind == "foreach")
        give_gradients([torch.empty(0), *tensors], 1)
        kept = [one.grad for one in tensors]
        optimiser.zero_grad(set_to_none=False)
        same = [one.grad is before for one, before in zip(tensors, kept, strict=True)]
        left_over = sum(int(one.grad.count_nonzero()) for one in tensors if one.grad is not None)
        require(all(same) and not left_over, f"{kind}: {left_over} numbers of cleared gradients are not zero")
        optimiser.zero_grad()
        require(all(one.grad is None for one in tensors), f"{kind}: gradients that are cleared are there")
    figures["summary"] = "gradients are cleared, to zeros and to nothing"


@pytest.mark.deadline(30)
def test_clipping_values(device: Device, figures: dict[str, Figure]) -> None:
    """Each number of a gradient is cut at the bound, to the bit, and no other is touched."""
    tensors = parameters(device.torch, torch.float32)[1:]
    wrong: list[int] = []
    for foreach in (None, False):
        give_gradients([torch.empty(0), *tensors], 2)
        before = [in_float64(one.grad) for one in tensors]
        torch.nn.utils.clip_grad_value_(tensors, 0.375, foreach=foreach)
        wrong += [
            number
            for number, (one, gradient) in enumerate(zip(tensors, before, strict=True))
            if not np.array_equal(in_float64(one.grad), np.clip(gradient, -0.375, 0.375))
        ]
    require(not wrong, f"clipped by value, {len(wrong)} of {len(tensors)} gradients are not what lies within 0.375")
    figures["summary"] = f"{len(tensors)} gradients clipped by value to the bit"


@pytest.mark.deadline(30)
def test_scaled_clipping(device: Device, figures: dict[str, Figure]) -> None:
    """Unscaled, clipped and stepped once, by two optimisers of which one alone meets an infinite gradient."""
    scaling = torch.amp.GradScaler(device.kind, init_scale=64.0)
    weights = [torch.ones(3, device=device.torch, requires_grad=True) for _ in range(2)]
    optimisers, scale = [torch.optim.SGD([one], lr=0.5) for one in weights], 64.0
    for bad in (None, 1, 0):
        before = [in_float64(one) for one in weights]
        slopes = [np.array([3.0, 4.0, 12.0]), np.array([1.0, 2.0, 2.0])]
        given = [torch.tensor(one, dtype=torch.float32, device=device.torch) for one in slopes]
        if bad is not None:
            given[bad][1] = math.inf
        for one in optimisers:
            one.zero_grad()
        loss = torch.stack([(weight * slope).sum() for weight, slope in zip(weights, given, strict=True)]).sum()
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
    """The scaler unscales exactly, doubles after two good steps, halves after a bad one and skips it; resumed, it goes on so.

    Of two groups, of two dtypes where the stack has float64; a list of losses is scaled alike, and a scale that is given is the one it has.
    """

    def scaler() -> torch.amp.GradScaler:
        return torch.amp.GradScaler(
            device.kind, init_scale=64.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2
        )

    weights = [torch.ones(3, dtype=_wide(stack, place), device=device.torch, requires_grad=True) for place in range(2)]
    optimiser, scaling = torch.optim.SGD([{"params": [one]} for one in weights], lr=0.5), scaler()
    expected, scale, good = np.ones(3), 64.0, 0
    for turn, bad in enumerate((False, False, False, True, False, False, True)):
        slope = torch.tensor([1.0, 2.0, float("inf") if bad else 4.0], device=device.torch)
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
    times = {float(one) / plain for ones, plain in zip(several, (1.0, 3.0), strict=True) for one in ones.flatten()}
    require(times == {scale}, f"of a list, losses are scaled by {sorted(times)}, not by {scale}")
    scaling.update(8.0)
    require(scaling.get_scale() == 8.0, f"the scaler was given the scale 8, and has {scaling.get_scale()}")
    figures["summary"] = "seven turns of the gradient scaler are its definition, two of them after a resume"
