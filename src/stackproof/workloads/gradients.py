"""Gradients of a job, held against float64, against finite differences at sizes that are too large for it, or against what they were.

Some are zero in exact arithmetic (a bias before a normalisation, or of attention's keys): what a computer finds there is rounding, which
has no relative error, and may be a share of the other gradients. A network with kinks (ReLU, maxima) amplifies rounding: how far the
float64 reference itself moves, when its weights do by some units in the last place of float32, is allowed to every device.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.device.numerics import MIXED, Judgement, judge_mixed, relative_error, rule, shortened
from stackproof.record.checks import require
from stackproof.workloads.base import Job, StepResult, Workload

_NOTHING = 1e-9
"""Of the size of all gradients: in float64 rounding leaves less, and no gradient that trains anything is as small."""


def vanishing(exact: StepResult) -> frozenset[str]:
    """Return the parameters whose gradient in float64 is rounding."""
    typical = _typical(exact)
    return frozenset(name for name, one in exact.gradients.items() if _size(one) <= _NOTHING * typical)


def lifted(outcome: StepResult, exact: StepResult) -> StepResult:
    """Return an outcome in which what vanishes stands on top of a gradient of usual size, so that its errors are relative to that."""
    return StepResult(outcome.output, outcome.loss, on_top(outcome.gradients, exact))


def on_top(gradients: Mapping[str, torch.Tensor], exact: StepResult) -> dict[str, torch.Tensor]:
    """Return gradients of which those that vanish in `exact` stand on top of the usual size of its gradients."""
    return Lift.of(exact).on_top(gradients)


@dataclass(frozen=True)
class Lift:
    """Which gradients vanish, and the usual size of the others: found once, for all that is held against the same reference."""

    gone: frozenset[str]
    typical: float

    @classmethod
    def of(cls, exact: StepResult) -> Lift:
        """Look through the gradients in float64."""
        gone = vanishing(exact)
        return cls(gone, _typical(exact) if gone else 0.0)

    def on_top(self, gradients: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the gradients, with those that vanish on top of the usual size."""
        return {name: one.double() + self.typical if name in self.gone else one for name, one in gradients.items()}


def _typical(exact: StepResult) -> float:
    """Return the root mean square of all gradients."""
    count = sum(one.numel() for one in exact.gradients.values())
    return math.sqrt(sum(float(one.double().square().sum()) for one in exact.gradients.values()) / max(1, count))


def _size(gradient: torch.Tensor) -> float:
    return float(gradient.double().square().mean().sqrt())


def living(found: Mapping[str, torch.Tensor], exact: StepResult) -> dict[str, torch.Tensor]:
    """Return what stands by name without the parameters whose gradient vanishes: those need not move."""
    gone = vanishing(exact)
    return {name: one for name, one in found.items() if name not in gone}


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


SHARE, SHARE_NARROW = 0.003, 0.03
"""The probed scalar is moved by this share of its size: far above the rounding of float32, or of half precision, and little enough for
its curvature."""
CLOSE, CLOSE_NARROW = 0.05, 0.1
"""How far a kind of gradients may be off, of float32 and of half precision."""
CLOSE_BLIND = 0.2
"""The same where there is no memory for weights in float32, and forward itself runs in half precision."""
TERMS = 256.0
"""A weight's gradient is a sum over the places of every picture, or over every token: of the tiny presets, hundreds at least."""
SHORT = 0.1
"""How far tf32 may move the loss of a network that amplifies differences."""


Gradients = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Proved:
    """What a job must find whenever it computes on its first parameters: `judge` says how far an outcome is from it."""

    name: str
    judge: Callable[[StepResult], Judgement]

    def check(self, job: Job, when: str = "") -> tuple[StepResult, Judgement]:
        """Let the job compute loss and gradients without tf32, and hold them against what was proved."""
        with shortened(False):
            actual = job.observe()
        require(math.isfinite(float(actual.loss)) and float(actual.loss) != 0, f"the loss is {float(actual.loss)}")
        return actual, self.require(actual, when)

    def require(self, actual: StepResult, when: str = "") -> Judgement:
        """Hold an outcome against what was proved.

        Raises:
            CheckFailed: it is further from it than rounding brings it.
        """
        worst = self.judge(actual)
        require(worst.ok, worst.sentence(f"{self.name}: the gradient{when}"))
        return worst


@dataclass(frozen=True)
class TinyReference:
    """What a tiny job must find: `exact` in float64, and how far the CPU is from it in the job's own precision (`own`).

    In float32 every gradient is judged by the anchored rule; under autocast the whole gradient by the workload's own bound.
    """

    workload: Workload
    autocast: torch.dtype | None
    exact: StepResult
    own: StepResult

    def judge(self, actual: StepResult) -> Judgement:
        """Return the worst judgement of all gradients, or under autocast the one of the whole gradient."""
        name, seen = f"{self.workload.name} tiny", actual.gradients
        require(seen.keys() == self.exact.gradients.keys(), f"{name}: not every parameter got a gradient")
        if self.autocast is not None:
            whole, anchor = self._wholes
            return judge_mixed(joined(seen), whole, anchor, self.autocast, self.workload.offer.mixed)
        above = self._lift.on_top(seen)
        found = {name: self._judged(name, above[name]) for name in self._wanted}
        return max(conditioned(found, self.workload).values(), key=lambda judgement: judgement.error / judgement.bound)

    def _judged(self, name: str, gradient: torch.Tensor) -> Judgement:
        error, anchor = relative_error(gradient, self._wanted[name]), self._anchors[name]
        bound = rule().bound(anchor, torch.float32, terms=TERMS)
        return Judgement(error <= bound, error, bound, anchor)

    @cached_property
    def _lift(self) -> Lift:
        return Lift.of(self.exact)

    @cached_property
    def _wanted(self) -> Gradients:
        return self._lift.on_top(self.exact.gradients)

    @cached_property
    def _anchors(self) -> Mapping[str, float]:
        own = self._lift.on_top(self.own.gradients)
        return {name: relative_error(own[name], wanted) for name, wanted in self._wanted.items()}

    @cached_property
    def _wholes(self) -> tuple[torch.Tensor, torch.Tensor]:
        return joined(self.exact.gradients), joined(self.own.gradients)


def judged(
    workload: Workload, autocast: torch.dtype | None, actual: StepResult, exact: StepResult, expected: StepResult
) -> Judgement:
    """Return the worst judgement of a tiny job's gradients; of one outcome, for more than one make a reference."""
    return TinyReference(workload, autocast, exact, expected).judge(actual)


def against_float64(workload: Workload, job: Job, device: Device) -> tuple[str, Proved]:
    """Hold loss and gradient of a tiny job against float64; return what was seen in one sentence, and how to look again."""
    recipe = job.recipe
    exact = workload.reference("tiny", recipe.seed, recipe.shard, recipe.scale)
    own = workload.build(HOST.torch, "tiny", recipe.seed, recipe.dtype, recipe.autocast, recipe.shard, recipe.scale)
    with shortened(False):
        reference = TinyReference(workload, recipe.autocast, exact, own.observe())
    proved = Proved(f"{workload.name} tiny", reference.judge)
    _, worst = proved.check(job)
    device.synchronize()
    return (
        f"{len(exact.gradients)} gradients against float64, error {worst.error:.1e} of {worst.bound:.1e} allowed",
        proved,
    )


def joined(gradients: Gradients) -> torch.Tensor:
    """Return all gradients as one vector, in float64: rounding in half precision may drown a small one, not the step as a whole."""
    return torch.cat([gradient.double().flatten() for _, gradient in sorted(gradients.items())])


def apart(seen: Gradients, known: Gradients) -> float:
    """Return how far apart gradients of the same parameters are as one vector, of its length, summed where they are."""
    there = [(_wide(seen[name]), _wide(one).to(seen[name].device)) for name, one in known.items()]
    whole = _length([one for _, one in there])
    return _length([one - other for one, other in there]) / max(whole, sys.float_info.min)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float32 at least: a length in half precision would overflow."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _length(tensors: Sequence[torch.Tensor]) -> float:
    """Return the 2-norm of all tensors as one vector."""
    return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one) for one in tensors])))


AGAIN = 0.05
"""How far gradients may move, as one vector, between two times that a job computes the same: atomics add in any order."""


def as_before(name: str, job: Job) -> Proved:
    """Take what a full job computes now, after it was held against differences, for what it must compute later."""
    with shortened(False):
        kept = job.observe().gradients

    def judge(actual: StepResult) -> Judgement:
        require(actual.gradients.keys() == kept.keys(), f"{name}: not every parameter got a gradient")
        error = apart(actual.gradients, kept)
        return Judgement(error <= AGAIN, error, AGAIN, 0.0)

    return Proved(name, judge)


def against_itself(job: Job, wide: Job | None = None, dead: frozenset[str] = frozenset()) -> str:
    """Hold a job's gradients against finite differences, kind by kind; return what was seen in one sentence.

    A full job is too large for a float64 reference. Along g / |g|^2 of each kind of parameter (all down projections' A matrices, say) a
    small step e must change the probed scalar by e, whatever the parameter's size: so each counts alike, and a kind whose gradients are
    wrong in direction or size does not hide behind others.

    `dead`: kinds whose gradient is zero in exact arithmetic, along which there is nothing to see.

    `wide`: the same job in float32, whose forward is differenced in place of the job's own if that is in half precision.

    Raises:
        CheckFailed: a gradient is missing, not finite or zero throughout, or forward does not change as backward says.
    """
    narrow = (job.recipe.autocast or job.recipe.dtype) in (torch.float16, torch.bfloat16)
    share, close = (SHARE, CLOSE_NARROW if narrow else CLOSE) if wide or not narrow else (SHARE_NARROW, CLOSE_BLIND)
    loss, other = _loss(job), wide or job
    with shortened(False):  # tf32 rounds away a part of the difference; the timed steps may use it
        ratios = _differences(job, other, share, dead)
        strict = _loss(other)
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


def widened_twin(workload: Workload, job: Job, device: Device) -> Job | None:
    """Return the job in float32 with the job's own weights, or nothing where there is no need or no room for it."""
    recipe = job.recipe
    size = sum(parameter.numel() for parameter in job.model.parameters())
    if (recipe.dtype is torch.float32 and recipe.autocast is None) or device.memory().free < _ROOM * 4 * size:
        return None
    twin = workload.build(recipe.device, recipe.preset, recipe.seed, torch.float32, None, recipe.shard, recipe.scale)
    state = dict(job.model.named_parameters())
    with torch.no_grad():
        for name, parameter in twin.model.named_parameters():
            parameter.copy_(state[name])
    return twin


_ROOM = 1.5
"""A forward needs its weights and half as much again."""


def _loss(job: Job) -> float:
    with torch.no_grad():
        return float(torch.stack([job.forward(index)[1] for index in range(len(job.batches))]).mean())


def kind_of(name: str) -> str:
    """Return a parameter's name without the numbers of layers."""
    return re.sub(r"[.]?[0-9]+", "", name)


def _differences(job: Job, wide: Job, share: float, gone: frozenset[str]) -> dict[str, float]:
    """Return by kind (f(p + e d) - f(p - e d)) / 2 e n, where d is g / |g|^2 of each of n parameters; they stay as they were."""
    size, every = _gradients(job)
    gradients = {name: gradient for name, gradient in every.items() if kind_of(name) not in gone}
    require(bool(gradients), "the squared norm of the gradient is 0: no parameter has one")
    squares = {name: float((gradient.double() ** 2).sum()) for name, gradient in gradients.items()}
    dead = [name for name, square in squares.items() if not (square > 0 and math.isfinite(square))]
    require(
        not dead,
        f"the squared norm of the gradient is {squares.get((dead or [''])[0])} in {len(dead)} parameters, first {dead[:1]}",
    )
    found = {}
    for kind in sorted({kind_of(name) for name in gradients}):
        names = [name for name in gradients if kind_of(name) == kind]
        along = {name: gradients[name] / squares[name] for name in names}
        step = share * size / len(names)
        before = {
            name: parameter.detach().clone() for name, parameter in wide.model.named_parameters() if name in along
        }
        there, back = (_change_of_loss(wide, before, along, factor * step) for factor in (1, -1))
        _put(wide, before)
        found[kind] = (there - back) / (2 * step * len(names))
    return found


def _put(job: Job, values: dict[str, torch.Tensor]) -> None:
    named = dict(job.model.named_parameters())
    with torch.no_grad():
        for name, value in values.items():
            named[name].copy_(value)


def _gradients(job: Job) -> tuple[float, dict[str, torch.Tensor]]:
    """Return the size of the probed scalar and its gradient, unscaled."""
    job.optimiser.zero_grad(set_to_none=True)
    probed, size = job.probe()
    job.differentiate(job.scaler.scale(probed))
    scale = job.scaler.get_scale()
    found = {
        name: parameter.grad.detach() / scale
        for name, parameter in job.model.named_parameters()
        if parameter.grad is not None
    }
    job.optimiser.zero_grad(set_to_none=True)
    return size, found


def _change_of_loss(job: Job, before: dict[str, torch.Tensor], along: dict[str, torch.Tensor], step: float) -> float:
    _put(job, {name: before[name] + step * direction.to(before[name]) for name, direction in along.items()})
    with torch.no_grad():
        return float(job.probe()[0])
