"""A training step as the users run it, proved before it is timed and looked at again afterwards.

A tiny job is proved against float64; a full one by its tiny sibling, and by finite differences at its own sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement, judge, judge_mixed, relative_error, shortened
from stackproof.operators import forms
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job, Preset, StepResult, Workload
from stackproof.workloads.condition import conditioned
from stackproof.workloads.updates import Update, against, unanchored
from stackproof.workloads.vanishing import lifted, vanishing
from stackproof.workloads.work import OfWorkload, Setting, Work, name_of


def counted(model: nn.Module, inputs: torch.Tensor) -> int:
    """Return the FLOPs of forward and backward on `inputs`: matrix products and convolutions, no loss.

    Counted on the meta device: nothing is computed and the model is not touched. The first layer has no
    gradient of its input, so the total lies a little under three times the forward.
    """
    from torch.utils.flop_counter import FlopCounterMode  # slow to import, and a listing does not count

    state = {name: tensor.detach().to("meta") for name, tensor in model.state_dict(keep_vars=True).items()}
    for name, parameter in model.named_parameters():
        state[name].requires_grad_(parameter.requires_grad)
    with FlopCounterMode(display=False) as counter:
        outputs = torch.func.functional_call(model, state, (inputs.to("meta"),))
        total = torch.stack([tensor.sum() for tensor in _tensors(outputs)]).sum()
        total.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def trainer_flops(tokens: int, parameters: int) -> int:
    """Return 6 x tokens x non-embedding parameters: what trainers print as total FLOPs (measurement.md)."""
    return 6 * tokens * parameters


def _tensors(outputs: Any) -> list[torch.Tensor]:
    """Return the differentiable tensors in nested lists and dictionaries."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.requires_grad else []
    nested = outputs.values() if isinstance(outputs, dict) else outputs
    return [tensor for item in nested for tensor in _tensors(item)]


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


@dataclass(frozen=True)
class Proved:
    """What a job must find whenever it computes on its first parameters: `judge` says how far an outcome is from it."""

    name: str
    judge: Callable[[StepResult], Judgement]

    def hold(self, job: Job, when: str = "") -> tuple[StepResult, Judgement]:
        """Let the job compute loss and gradients, and hold them against what was proved."""
        with shortened(False):
            actual = job.observe()
        require(math.isfinite(float(actual.loss)) and float(actual.loss) != 0, f"the loss is {float(actual.loss)}")
        worst = self.judge(actual)
        require(worst.ok, worst.sentence(f"{self.name}: the gradient{when}"))
        return actual, worst


def against_float64(workload: Workload, job: Job, device: Device) -> tuple[str, Proved]:
    """Hold loss and gradient of a tiny job against float64; return what was seen in one sentence, and how to look again.

    In float32 every gradient by the anchored rule, with tf32 off; under autocast the whole gradient by the workload's own bound.
    """
    recipe = job.recipe
    exact = workload.reference("tiny", recipe.seed, recipe.shard, recipe.scale)
    own = workload.build(HOST.torch, "tiny", recipe.seed, recipe.dtype, recipe.autocast, recipe.shard, recipe.scale)
    with shortened(False):
        expected = own.observe()
    proved = Proved(f"{workload.name} tiny", lambda actual: judged(workload, recipe.autocast, actual, exact, expected))
    _, worst = proved.hold(job)
    device.synchronize()
    return (
        f"{len(exact.gradients)} gradients against float64, error {worst.error:.1e} of {worst.bound:.1e} allowed",
        proved,
    )


def judged(
    workload: Workload, autocast: torch.dtype | None, actual: StepResult, exact: StepResult, expected: StepResult
) -> Judgement:
    """Return the worst judgement of all gradients, or under autocast the one of the whole gradient."""
    require(
        actual.gradients.keys() == exact.gradients.keys(), f"{workload.name} tiny: not every parameter got a gradient"
    )
    if autocast is not None:
        return judge_mixed(joined(actual), joined(exact), joined(expected), autocast, workload.offer.mixed)
    seen, wanted, anchor = (lifted(one, exact).gradients for one in (actual, exact, expected))
    found = {key: judge(seen[key], wanted[key], anchor[key], torch.float32, terms=TERMS) for key in wanted}
    return max(conditioned(found, workload).values(), key=lambda judgement: judgement.error / judgement.bound)


def joined(outcome: StepResult) -> torch.Tensor:
    """Return all gradients as one vector, in float64: rounding in half precision may drown a small one, not the step as a whole."""
    return torch.cat([gradient.double().flatten() for _, gradient in sorted(outcome.gradients.items())])


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
        there, back = (_moved(wide, before, along, factor * step) for factor in (1, -1))
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


def _moved(job: Job, before: dict[str, torch.Tensor], along: dict[str, torch.Tensor], step: float) -> float:
    _put(job, {name: before[name] + step * direction.to(before[name]) for name, direction in along.items()})
    with torch.no_grad():
        return float(job.probe()[0])


SEED = 7


class TrainingSteps(Work):
    """Forward, backward and optimiser of one step: all micro-batches of a job.

    After the timed steps the job goes back to where it started. It must find the gradients again that were proved, and one step must do
    to each parameter what the closed form of its optimiser does with them.
    """

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        self.workload = get(setting.parameters.row(OfWorkload).workload)
        self.workload.require()
        self.device, self.preset = setting.device, setting.preset
        self.job = self.build("tiny" if self.preset == "tiny" else "full")
        self._units = self.job.units
        self.dtype = name_of(self.job.recipe.autocast or self.job.recipe.dtype)
        self.arithmetic = self._arithmetic()
        self._losses: tuple[torch.Tensor, torch.Tensor] | None = None
        self._proved: Proved | None = None
        self._start = {name: tensor.detach().cpu().clone() for name, tensor in self._state().items()}

    def build(self, preset: Preset, dtype: torch.dtype | None = None, autocast: torch.dtype | None = None) -> Job:
        """Build the job, in the preset's own precision unless another is asked for."""
        return self.workload.build(self.device.torch, preset, SEED, dtype, autocast)

    def _arithmetic(self) -> str:
        """Return what the peak is counted in: convolutions of float32 run as tf32 where cuDNN is allowed to."""
        convolves = any(isinstance(module, torch.nn.Conv2d) for module in self.job.model.modules())
        short = convolves and self.dtype == "float32" and bool(torch.backends.cudnn.allow_tf32)
        return "tf32" if short else self.dtype

    @property
    def worth(self) -> Mapping[str, float]:
        """Samples, tokens where there are any, and model FLOPs: forward and backward without recomputation."""
        tokens = {"token": float(self._units.tokens)} if self._units.tokens else {}
        return {"sample": float(self._units.samples), **tokens, "TFLOP": self._units.flops / 1e12}

    def _state(self) -> dict[str, torch.Tensor]:
        """Return what steps change: trainable parameters and buffers."""
        trained = [(name, value) for name, value in self.job.model.named_parameters() if value.requires_grad]
        return {**dict(self.job.model.named_buffers()), **dict(trained)}

    def prove(self) -> str:
        """Hold the job, or its tiny sibling and then the job itself, against a reference."""
        if self.preset == "tiny":
            said, self._proved = against_float64(self.workload, self.job, self.device)
            return said + unanchored(self.job.optimiser)
        twin = self.build("tiny", torch.float32, self.job.recipe.autocast)
        sibling, _ = against_float64(self.workload, twin, self.device)
        said = against_itself(self.job, widened_twin(self.workload, self.job, self.device), self._dead())
        self._proved = as_before(self.workload.name, self.job)
        return f"tiny: {sibling}; full: {said}{unanchored(self.job.optimiser)}"

    def _dead(self) -> frozenset[str]:
        """Return the kinds of parameters none of which has a gradient in exact arithmetic."""
        exact = self.workload.reference("tiny", SEED)
        gone = vanishing(exact)
        return frozenset(map(kind_of, gone)) - frozenset(kind_of(name) for name in exact.gradients if name not in gone)

    def run(self) -> torch.Tensor:
        """Train one step."""
        loss = self.job.step()
        self._losses = (self._losses or (loss, loss))[0], loss
        return loss

    def verify(self) -> None:
        """The loss is a number at the end of the timed steps."""
        assert self._losses is not None
        first, last = map(float, self._losses)
        require(math.isfinite(last), f"the loss was {first:.4g} before and {last} after the timed steps")

    def again(self) -> None:
        """Go back to the start: gradients are those that were proved, and a step does what its optimiser's closed form does."""
        self.verify()
        if self._proved is None:
            return
        with torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(self._start[name])
        self.job.optimiser.state.clear()
        proved, _ = self._proved.hold(self.job, " after the timed steps")
        timed = self.job.observe()
        allowed = ROUNDED if self.arithmetic == "tf32" else 2 * AGAIN  # either of two may be as far from the truth
        _require_near(timed.gradients, proved.gradients, allowed, "in the precision that was timed")
        update = Update(self.job.optimiser)
        self.job.step()
        trained = {name: one for name, one in self.job.model.named_parameters() if one.grad is not None}
        used = {name: one.grad.cpu() for name, one in trained.items() if one.grad is not None}
        _require_near(used, timed.gradients, 2 * AGAIN, "in a step")
        if not update.written:
            update.share()
            return
        for name, gradient in used.items():
            self._require_step(name, trained[name], gradient)

    def _require_step(self, name: str, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        groups = [
            group for group in self.job.optimiser.param_groups if any(one is parameter for one in group["params"])
        ]
        kind, old = type(self.job.optimiser).__name__, self._start[name].double().numpy()
        exact, _ = forms.STEPS[kind]({"parameter": old}, gradient.double().numpy(), groups[0])
        change = np.linalg.norm(exact["parameter"] - old)
        rounding = torch.finfo(parameter.dtype).eps * np.linalg.norm(old)
        off = np.linalg.norm(parameter.detach().cpu().double().numpy() - exact["parameter"])
        require(
            off <= STEPPED * change + rounding,
            f"a step of {kind} changed {name} by {off / change:.2g} of the change otherwise than its closed form, {STEPPED} are allowed",
        )

    def conclude(self) -> Mapping[str, Figure]:
        """Look at what the timed steps left, and at the start once more."""
        assert self._losses is not None
        first, last = map(float, self._losses)
        self.again()
        facts: dict[str, Figure] = {"loss at the start": first, "loss at the end": last}
        return {**facts, "update compared with": against(self.job.optimiser)} if self._proved else facts


def _require_near(
    seen: Mapping[str, torch.Tensor], known: Mapping[str, torch.Tensor], allowed: float, where: str
) -> None:
    """Require gradients of the same parameters, as one vector within `allowed` of its length."""
    require(seen.keys() == known.keys(), f"{where} there are gradients for other parameters than were proved")
    whole = math.sqrt(sum(float(one.double().square().sum()) for one in known.values()))
    apart = math.sqrt(sum(float((seen[name].double() - one.double()).square().sum()) for name, one in known.items()))
    require(
        apart <= allowed * whole,
        f"{where} gradients are {apart / whole:.2g} of their length from those that were proved, {allowed} are allowed",
    )


ROUNDED = 0.5
"""How far tf32 may move gradients that were proved without it: 0.18 of a full YOLOv8n on an H200, whose targets jump with its outputs."""
STEPPED = 0.02
"""AdamW's first step is the sign of each gradient: those that are rounding noise go either way."""
AGAIN = 0.05
"""How far gradients may move, as one vector, between two times that a full job computes the same: atomics add in any order."""


def as_before(name: str, job: Job) -> Proved:
    """Take what a full job computes now, after it was held against differences, for what it must compute later."""
    with shortened(False):
        kept = job.observe()
    whole = joined(kept)

    def judge(actual: StepResult) -> Judgement:
        require(actual.gradients.keys() == kept.gradients.keys(), f"{name}: not every parameter got a gradient")
        error = relative_error(joined(actual), whole)
        return Judgement(error <= AGAIN, error, AGAIN, 0.0)

    return Proved(name, judge)


KINDS = {"training": TrainingSteps}
