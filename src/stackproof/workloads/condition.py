"""How far a model's own arithmetic carries a rounding: what no device can be blamed for.

A network with kinks (ReLU, maxima) turns a rounding into a step wherever a number is within it of a kink, and a wide one has such
numbers. The float64 reference itself tells: its weights are moved by some units in the last place of float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch

from stackproof.device.devices import HOST
from stackproof.device.numerics import MIXED, Judgement, relative_error, rule
from stackproof.workloads.base import Job, StepResult, Workload
from stackproof.workloads.vanishing import lifted

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


def conditioned(found: Mapping[str, Judgement], workload: Workload) -> dict[str, Judgement]:
    """Return judgements in float32 as they are, or where one is out of bounds with bounds that allow for the model's own condition."""
    if all(one.ok for one in found.values()):
        return dict(found)
    moved = spread(workload)
    if moved <= _STEP:
        return dict(found)
    again = {}
    for what, one in found.items():
        bound = max(one.bound, rule().bound(one.anchor, torch.float32, spread=min(moved, MOST)))
        again[what] = Judgement(one.error <= bound, one.error, bound, one.anchor)
    return again


def kept(found: Mapping[str, Judgement], workload: Workload, dtype: torch.dtype) -> dict[str, Judgement]:
    """Return judgements of single gradients in half precision, without those that are out of bounds because nothing is left of them.

    Eight numbers behind kinks and a normalisation may be all rounding in bfloat16. The float64 reference tells which: moved by one unit in
    the last place of the dtype, their gradient changes by a large share of itself. For these the whole gradient speaks.
    """
    bad = [what for what, one in found.items() if not one.ok and what.startswith(_SINGLE)]
    gone = lost(workload, dtype) if bad else frozenset()
    return {what: one for what, one in found.items() if not (what in bad and what.removeprefix(_SINGLE) in gone)}


@cache
def lost(workload: Workload, dtype: torch.dtype) -> frozenset[str]:
    """Return the parameters whose gradient one unit in the last place of `dtype` in the weights moves by more than a sixth."""

    def build() -> Job:
        return workload.build(HOST.torch, "tiny", _SEED, torch.float64)

    exact = build().observe().gradients
    moved = [_moved(build(), number, torch.finfo(dtype).eps).gradients for number in range(_RUNS)]
    worst = {name: max(relative_error(one[name], exact[name]) for one in moved) for name in exact}
    return frozenset(name for name, far in worst.items() if rule().multiplier * far > MIXED)


@cache
def spread(workload: Workload) -> float:
    """Return the largest relative change of any result of a workload's tiny job when its weights move; computed once."""

    def build() -> Job:
        return workload.build(HOST.torch, "tiny", _SEED, torch.float64)

    exact = build().observe()
    step = _ULPS * torch.finfo(torch.float32).eps
    return max(_change(_moved(build(), number, step), exact) for number in range(_RUNS))


def _moved(job: Job, number: int, step: float) -> StepResult:
    dice = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for one in job.model.parameters():
            one.mul_(1 + step * (2 * torch.rand(one.shape, generator=dice, dtype=one.dtype) - 1))
    return job.observe()


def _change(moved: StepResult, exact: StepResult) -> float:
    one, other = lifted(moved, exact), lifted(exact, exact)
    changes = [relative_error(one.gradients[name], other.gradients[name]) for name in other.gradients]
    return max([*changes, relative_error(one.output, other.output), relative_error(one.loss, other.loss)])
