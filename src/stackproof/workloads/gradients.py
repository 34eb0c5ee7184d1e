"""Gradients of a job, held against float64, or against finite differences at sizes that are too large for it.

Some are zero in exact arithmetic (a bias before a normalisation, or of attention's keys): what a computer finds there is rounding, which
has no relative error, and may be a share of the other gradients. A network with kinks (ReLU, maxima) amplifies rounding: how far the
float64 reference itself moves, when its weights do by some units in the last place of float32, is allowed to every device.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from functools import cache

import torch

from stackproof.device import threads
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.device.numerics import MIXED, Judgement, judge, judge_mixed, relative_error, rule, shortened
from stackproof.record.checks import require
from stackproof.workloads.base import Job, StepResult, Workload

Gradients = Mapping[str, torch.Tensor]

_NOTHING = 1e-9
"""Of the size of all gradients: in float64 rounding leaves less, and no gradient that trains anything is as small."""


def _typical(exact: StepResult) -> float:
    return float(joined(exact.gradients).square().mean().sqrt()) if exact.gradients else 0.0


def vanishing(exact: StepResult) -> frozenset[str]:
    """Return the parameters whose gradient in float64 is rounding."""
    least = _NOTHING * _typical(exact)
    return frozenset(
        name for name, gradient in exact.gradients.items() if float(gradient.double().square().mean().sqrt()) <= least
    )


def living(tensors: Mapping[str, torch.Tensor], exact: StepResult) -> dict[str, torch.Tensor]:
    """Return what stands by name without the parameters whose gradient vanishes: those need not move."""
    gone = vanishing(exact)
    return {name: tensor for name, tensor in tensors.items() if name not in gone}


def on_top(gradients: Gradients, exact: StepResult) -> dict[str, torch.Tensor]:
    """Return gradients of which those that vanish in `exact` stand on top of the usual size, so that their errors are relative to that."""
    gone = vanishing(exact)
    usual = _typical(exact) if gone else 0.0
    return {name: gradient.double() + usual if name in gone else gradient for name, gradient in gradients.items()}


_ULPS = 64.0
"""By so many units in the last place weights are moved: several times what rounding inside a network amounts to, so that the steps show
which one device takes and another does not. Where nothing steps, what this moves stays below what the rule allows in any case."""
_RUNS = 6
_STEP = 1e-3
"""What moves a model by more is a step over a kink; what moves it less is what the rule allows for."""
MOST = 0.02
"""The largest spread that excuses: a model that moves further cannot be held in float32 at all."""
_SEED = 7
_SINGLE = "gradient of "


def conditioned(results: Mapping[str, Judgement], workload: Workload) -> dict[str, Judgement]:
    """Return judgements in float32 as they are, or where one is out of bounds with bounds that allow for the model's own condition."""
    if all(result.ok for result in results.values()) or (moved := spread(workload)) <= _STEP:
        return dict(results)
    allowed = {
        what: max(result.bound, rule().bound(result.anchor, torch.float32, spread=min(moved, MOST)))
        for what, result in results.items()
    }
    return {
        what: Judgement(result.error <= allowed[what], result.error, allowed[what], result.anchor)
        for what, result in results.items()
    }


def kept(results: Mapping[str, Judgement], workload: Workload, dtype: torch.dtype) -> dict[str, Judgement]:
    """Return judgements of single gradients in half precision, without those that are out of bounds because nothing is left of them.

    Eight numbers behind kinks and a normalisation may be all rounding in bfloat16. The float64 reference tells which: one unit in the last
    place of the dtype in the weights moves their gradient by more than a sixth. For these the whole gradient speaks.
    """
    bad = {what for what, result in results.items() if not result.ok and what.startswith(_SINGLE)}
    moved = _moves(workload, torch.finfo(dtype).eps) if bad else {}
    gone = {what for what in bad if rule().multiplier * moved.get(what.removeprefix(_SINGLE), 0.0) > MIXED}
    return {what: result for what, result in results.items() if what not in gone}


def spread(workload: Workload) -> float:
    """Return the largest relative change of any result of a workload's tiny job when its weights move."""
    return max(_moves(workload, _ULPS * torch.finfo(torch.float32).eps).values())


@cache
def _moves(workload: Workload, step: float) -> dict[str, float]:
    """Return how far output, loss and gradients of a tiny job in float64 change at most, of themselves, when its weights do by a step."""
    results = list[StepResult]()
    for number in range(_RUNS + 1):
        job, dice = (
            workload.build(HOST.torch, "tiny", _SEED, torch.float64),
            torch.Generator().manual_seed(max(number - 1, 0)),
        )
        with torch.no_grad():
            for param in job.model.parameters() if number else ():
                param.mul_(1 + step * (2 * torch.rand(param.shape, generator=dice, dtype=param.dtype) - 1))
        results.append(job.observe())
    exact, *moved = [{"output": run.output, "loss": run.loss, **on_top(run.gradients, results[0])} for run in results]
    return {name: max(relative_error(other[name], value) for other in moved) for name, value in exact.items()}


_MOVED = {"float32": (0.003, 0.05), "half": (0.003, 0.1), "blind": (0.03, 0.2)}
"""By what share of its size the probed scalar is moved (far above rounding, and little enough for its curvature), and how far a kind of
gradients may be off; blind: forward itself runs in half precision, where there is no memory for weights in float32."""
TERMS = 256.0
"""A weight's gradient is a sum over the places of every picture, or over every token: of the tiny presets, hundreds at least."""
SHORT = 0.1
"""How far tf32 may move the loss of a network that amplifies differences."""
AGAIN = 0.05
"""How far gradients may move, as one vector, between two times that a job computes the same: atomics add in any order."""


@threads.chosen("tiny")
def against_float64(workload: Workload, job: Job) -> str:
    """Hold what a tiny job computes against float64, the mean gradient of ranks against that of all their samples; say what was seen.

    In float32 every gradient and buffer is judged by the anchored rule; under autocast the whole gradient by the workload's own bound.

    Raises:
        CheckFailed: a gradient is missing, or further from float64 than rounding brings it.
    """
    recipe, name = job.recipe, f"{workload.name} tiny"
    exact = workload.reference("tiny", recipe.seed, scale=recipe.scale)
    own = workload.build(HOST.torch, "tiny", recipe.seed, recipe.dtype, recipe.autocast, scale=recipe.scale)
    with shortened(False):  # cuDNN convolves float32 in tf32 unless told not to
        actual, expected = job.observe(), own.observe()
    loss = float(actual.loss)
    require(math.isfinite(loss) and loss != 0, f"the loss is {loss}")
    require(actual.gradients.keys() == exact.gradients.keys(), f"{name}: not every parameter got a gradient")
    every = actual, exact, expected
    if recipe.autocast is not None:
        seen, reference, anchor = (joined(result.gradients) for result in every)
        worst = judge_mixed(seen, reference, anchor, recipe.autocast, workload.offer.mixed)
    else:
        mine, known, host = ({**on_top(result.gradients, exact), **result.buffers} for result in every)
        judged = {key: judge(mine[key], known[key], host[key], torch.float32, terms=TERMS) for key in known}
        worst = max(conditioned(judged, workload).values(), key=lambda judgement: judgement.error / judgement.bound)
    require(worst.ok, worst.sentence(f"{name}: the gradient"))
    return f"{len(exact.gradients)} gradients against float64, error {worst.error:.1e} of {worst.bound:.1e} allowed"


def joined(gradients: Gradients) -> torch.Tensor:
    """Return all gradients as one vector, in float64: rounding in half precision may drown a small one, not the step as a whole."""
    return torch.cat([gradient.double().flatten() for _, gradient in sorted(gradients.items())])


def apart(seen: Gradients, known: Gradients) -> float:
    """Return the distance of gradients from known ones, all parameters as one vector, over that vector's length; computed on the device."""
    far, whole = list[torch.Tensor](), list[torch.Tensor]()
    for name, gradient in known.items():
        wide = torch.promote_types(gradient.dtype, torch.float32)  # a length in half precision would overflow
        right = gradient.to(seen[name].device, wide)
        far.append(torch.linalg.vector_norm(seen[name].to(wide) - right))
        whole.append(torch.linalg.vector_norm(right))
    lengths = [float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0 for norms in (far, whole)]
    return lengths[0] / max(lengths[1], sys.float_info.min)


def against_itself(workload: Workload, job: Job, device: Device) -> str:
    """Hold a job's gradients against finite differences, kind by kind; return what was seen in one sentence.

    A full job is too large for a float64 reference. Along g / |g|^2 of each kind of parameter (all down projections' A matrices, say) a
    small step e must change the probed scalar by e, whatever the parameter's size: so each counts alike, and a kind whose gradients are
    wrong in direction or size does not hide behind others. Kinds whose gradients are zero in exact arithmetic are left out.

    Where the job computes in half precision, the same job in float32 is differenced in its place if there is room for it.

    Raises:
        CheckFailed: a gradient is missing, not finite or zero throughout, or forward does not change as backward says.
    """
    exact, wide = workload.reference("tiny", _SEED), _widened_twin(workload, job, device)
    dead = frozenset(map(kind_of, vanishing(exact))) - frozenset(map(kind_of, living(exact.gradients, exact)))
    narrow = (job.recipe.autocast or job.recipe.dtype) in (torch.float16, torch.bfloat16)
    share, close = _MOVED["float32" if not narrow else "half" if wide else "blind"]
    loss, other = _loss(job), wide or job
    with shortened(False):  # tf32 rounds away a part of the difference; the timed steps may use it
        ratios, strict = _differences(job, other, share, dead), _loss(other)
    worst = max(ratios, key=lambda kind: abs(ratios[kind] - 1) if math.isfinite(ratios[kind]) else math.inf)
    require(
        abs(ratios[worst] - 1) <= close,
        f"a step along the gradients of '{worst}' changed the probed scalar by {ratios[worst]:.3f} of what they say, "
        f"{1 - close:.2f} to {1 + close:.2f} are allowed: forward and backward do not belong together",
    )
    require(
        abs(loss / strict - 1) <= SHORT,
        f"the loss is {loss:.4f} as it will be timed and {strict:.4f} in float32; {SHORT:.0%} are allowed between them",
    )
    return f"loss {loss:.4f}, forward changes by {ratios[worst]:.3f} of what the gradient says in the worst of {len(ratios)} kinds"


_ROOM = 1.5
"""A forward needs its weights and half as much again."""


def _widened_twin(workload: Workload, job: Job, device: Device) -> Job | None:
    """Return the job in float32 with the job's own weights, or nothing where there is no need or no room for it."""
    recipe = job.recipe
    size = sum(parameter.numel() for parameter in job.model.parameters())
    if (recipe.dtype is torch.float32 and recipe.autocast is None) or device.memory().free < _ROOM * 4 * size:
        return None
    twin = workload.build(recipe.device, recipe.preset, recipe.seed, torch.float32, None, recipe.shard, recipe.scale)
    _put(twin, {name: param.detach() for name, param in job.model.named_parameters()})
    return twin


def _loss(job: Job) -> float:
    with torch.no_grad():
        return float(torch.stack([job.forward(index)[1] for index in range(len(job.batches))]).mean())


def kind_of(name: str) -> str:
    """Return a parameter's name without the numbers of layers."""
    return re.sub(r"[.]?[0-9]+", "", name)


def _differences(job: Job, wide: Job, share: float, dead: frozenset[str]) -> dict[str, float]:
    """Return by kind (f(p + e d) - f(p - e d)) / 2 e n, where d is g / |g|^2 of each of n parameters; they stay as they were."""
    job.optimiser.zero_grad(set_to_none=True)
    probed, size = job.probe()
    job.differentiate(job.scaler.scale(probed))
    scale, named = job.scaler.get_scale(), job.model.named_parameters()
    gradients = {
        name: param.grad.detach() / scale
        for name, param in named
        if param.grad is not None and kind_of(name) not in dead
    }
    job.optimiser.zero_grad(set_to_none=True)
    require(bool(gradients), "the squared norm of the gradient is 0: no parameter has one")
    squares = {name: float((gradient.double() ** 2).sum()) for name, gradient in gradients.items()}
    bad = [name for name, square in squares.items() if not (square > 0 and math.isfinite(square))]
    require(
        not bad,
        f"the squared norm of the gradient is {squares.get((bad or [''])[0])} in {len(bad)} parameters, first {bad[:1]}",
    )
    differences = {}
    for kind in sorted(set(map(kind_of, gradients))):
        names = [name for name in gradients if kind_of(name) == kind]
        step = share * size / len(names)
        before = {name: param.detach().clone() for name, param in wide.model.named_parameters() if name in names}
        ends = list[float]()
        for way in (step, -step):
            _put(wide, {name: old + way * (gradients[name] / squares[name]).to(old) for name, old in before.items()})
            with torch.no_grad():
                ends.append(float(wide.probe()[0]))
        _put(wide, before)
        differences[kind] = (ends[0] - ends[1]) / (2 * step * len(names))
    return differences


def _put(job: Job, values: Gradients) -> None:
    named = dict(job.model.named_parameters())
    with torch.no_grad():
        for name, value in values.items():
            named[name].copy_(value)
