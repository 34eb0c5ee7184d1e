"""What a step costs in model FLOPs: a multiplication and an addition are two.

Proves a training job before it is timed: against float64 where that can be had, against itself where it cannot.

A reference in float64 is computed on the CPU, which is possible for the tiny preset only. A full job is proved twice over: its
tiny sibling, built in the same precision on the same device, against float64; and the full job itself by finite differences:
along its own gradient g, a small step e must change the probed scalar f by e |g|^2. That is coarse, but a backward that is wrong
in direction or size does not pass.

A training step as the users run it: the same jobs that the suites verify, proved before they are timed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement, judge, judge_mixed, relative_error, shortened
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job, Outcome, Preset, Setting, Work, Workload, name_of


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


SHARE = 0.03
"""The probed scalar is moved by this share of its size: far above rounding in half precision, small against its curvature."""
CLOSE = 0.2
"""Seen on the CPU: 1 to 4 % off with YOLOv8n and YOLOv8x, full, in float32; 6 % with Qwen3-0.6B, full, in bfloat16."""
TERMS = 256.0
"""A weight's gradient is a sum over the places of every picture, or over every token: of the tiny presets, hundreds at least."""
SHORT = 0.1
"""How far tf32 may move the loss of a network that amplifies differences."""


def against_float64(workload: Workload, job: Job, device: Device) -> str:
    """Hold loss and gradient of a tiny job against float64; return what was seen in one sentence.

    In float32 every gradient by the anchored rule, with tf32 off; under autocast the whole gradient by the workload's own bound.
    """
    recipe = job.recipe
    exact = workload.reference("tiny", recipe.seed, recipe.shard, recipe.scale)
    own = workload.build(
        torch.device("cpu"), "tiny", recipe.seed, recipe.dtype, recipe.autocast, recipe.shard, recipe.scale
    )
    with shortened(False):
        actual, expected = job.observe(), own.observe()
    device.synchronize()
    require(math.isfinite(float(actual.loss)) and float(actual.loss) != 0, f"the loss is {float(actual.loss)}")
    worst = judged(workload.name, recipe.autocast, actual, exact, expected)
    require(worst.ok, worst.sentence(f"{workload.name} tiny: the gradient"))
    return f"{len(exact.gradients)} gradients against float64, error {worst.error:.1e} of {worst.bound:.1e} allowed"


def judged(name: str, autocast: torch.dtype | None, actual: Outcome, exact: Outcome, expected: Outcome) -> Judgement:
    """Return the worst judgement of all gradients, or under autocast the one of the whole gradient."""
    require(actual.gradients.keys() == exact.gradients.keys(), f"{name} tiny: not every parameter got a gradient")
    if autocast is not None:
        return judge_mixed(joined(actual), joined(exact), joined(expected), autocast, name)
    found = [
        judge(actual.gradients[key], exact.gradients[key], expected.gradients[key], torch.float32, terms=TERMS)
        for key in exact.gradients
    ]
    return max(found, key=lambda judgement: judgement.error / judgement.bound)


def joined(outcome: Outcome) -> torch.Tensor:
    """Return all gradients as one vector, in float64."""
    return torch.cat([gradient.double().flatten() for _, gradient in sorted(outcome.gradients.items())])


def against_itself(job: Job) -> str:
    """Hold a job's gradient against finite differences of its own forward; return what was seen in one sentence.

    Raises:
        CheckFailed: a gradient is missing, not finite or zero throughout, or forward does not change as backward says.
    """
    loss = _loss(job)
    with shortened(False):  # tf32 rounds away a part of the difference; the timed steps may use it
        ratio, square = _difference(job)
        strict = _loss(job)
    require(square > 0 and math.isfinite(square), f"the squared norm of the gradient is {square}")
    require(
        abs(ratio - 1) <= CLOSE,
        f"a step along the gradient changed the probed scalar by {ratio:.3f} of what the gradient says, "
        f"{1 - CLOSE:.1f} to {1 + CLOSE:.1f} are allowed: forward and backward do not belong together",
    )
    require(
        abs(loss / strict - 1) <= SHORT,
        f"the loss is {loss:.4f} as it will be timed and {strict:.4f} with tf32 off; {SHORT:.0%} are allowed between them",
    )
    return f"loss {loss:.4f}, forward changes by {ratio:.3f} of what the gradient says"


def _loss(job: Job) -> float:
    with torch.no_grad():
        return float(job.forward(0)[1])


def _difference(job: Job) -> tuple[float, float]:
    """Return (f(p + e g) - f(p - e g)) / (2 e |g|^2) and |g|^2, and leave the parameters as they were."""
    size, gradients = _gradients(job)
    square = sum(float((gradient.double() ** 2).sum()) for gradient in gradients.values())
    if not square > 0 or not math.isfinite(square):
        return math.nan, square
    step = SHARE * size / square
    named = dict(job.model.named_parameters())
    before = {name: named[name].detach().clone() for name in gradients}
    there, back = (_moved(job, before, gradients, factor * step) for factor in (1, -1))
    with torch.no_grad():
        for name, kept in before.items():
            named[name].copy_(kept)
    return (there - back) / (2 * step * square), square


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


def _moved(job: Job, before: dict[str, torch.Tensor], gradients: dict[str, torch.Tensor], step: float) -> float:
    named = dict(job.model.named_parameters())
    with torch.no_grad():
        for name, gradient in gradients.items():
            named[name].copy_(before[name] + step * gradient.to(before[name]))
        return float(job.probe()[0])


def unmoved(job: Job, before: dict[str, torch.Tensor]) -> list[str]:
    """Return the trainable parameters that a step left as they were."""
    named = dict(job.model.named_parameters())
    return [name for name, kept in before.items() if relative_error(named[name], kept) == 0]


SEED = 7


class Training(Work):
    """Forward, backward and optimiser of one step: all micro-batches of a job."""

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        with setting.parameters as row:
            self.workload = get(row.take("workload", str))
        if reason := self.workload.missing():
            raise CapabilityMissing(f"data/workloads.toml: {reason}")
        self.device, self.preset = setting.device, setting.preset
        self.job = self.build("tiny" if self.preset == "tiny" else "full")
        self._units = self.job.units
        self.dtype = name_of(self.job.recipe.autocast or self.job.recipe.dtype)
        self.arithmetic = self._arithmetic()
        self._losses: tuple[torch.Tensor, torch.Tensor] | None = None

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

    def prove(self) -> str:
        """Hold the job, or its tiny sibling and then the job itself, against a reference."""
        if self.preset == "tiny":
            return against_float64(self.workload, self.job, self.device)
        twin = self.build("tiny", torch.float32, self.job.recipe.autocast)
        sibling = against_float64(self.workload, twin, self.device)
        return f"tiny: {sibling}; full: {against_itself(self.job)}"

    def run(self) -> torch.Tensor:
        """Train one step."""
        loss = self.job.step()
        self._losses = (self._losses or (loss, loss))[0], loss
        return loss

    def conclude(self) -> Mapping[str, Figure]:
        """The timed steps trained: the loss is finite at the end."""
        assert self._losses is not None
        first, last = map(float, self._losses)
        require(math.isfinite(last), f"the loss was {first:.4g} before and {last} after the timed steps")
        return {"loss at the start": first, "loss at the end": last}


KINDS = {"training": Training}
