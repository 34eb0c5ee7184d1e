"""A training step as the users run it: proved before it is timed and after, and timed in blocks that are held against replays.

A tiny job is proved against float64; a full one by its tiny sibling, and by finite differences at its own sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import nn

from stackproof.device.devices import HOST
from stackproof.device.numerics import shortened
from stackproof.record.checks import require
from stackproof.workloads.base import Job, Preset, StepResult
from stackproof.workloads.gradients import (
    AGAIN,
    Gradients,
    against_float64,
    against_itself,
    apart,
    kind_of,
    vanishing,
    widened_twin,
)

# The harness of a night, or of another commit, asks the workloads of a frozen one, and finds these names here in all of them.
from stackproof.workloads.gradients import Proved as Proved
from stackproof.workloads.gradients import as_before as as_before
from stackproof.workloads.gradients import judged as judged
from stackproof.workloads.replays import ReplayedSteps
from stackproof.workloads.updates import Update, against, on_host, unanchored, written
from stackproof.workloads.work import OfWorkload, Setting, name_of


def counted(model: nn.Module, *inputs: Any, **named: Any) -> int:
    """Return the FLOPs of forward and backward of `model(*inputs, **named)`: matrix products and convolutions, no loss.

    Counted on the meta device: nothing is computed and the model is not touched. The first layer has no
    gradient of its input, so the total lies a little under three times the forward.
    """
    from torch.utils._pytree import tree_map_only
    from torch.utils.flop_counter import FlopCounterMode  # slow to import, and a listing does not count

    state = {name: tensor.detach().to("meta") for name, tensor in model.state_dict(keep_vars=True).items()}
    for name, parameter in model.named_parameters():
        state[name].requires_grad_(parameter.requires_grad)
    given, keywords = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (inputs, named))
    with FlopCounterMode(display=False) as counter:
        outputs = torch.func.functional_call(model, state, given, keywords)
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


SEED = 7
ROUNDED = 0.5
"""How far tf32 may move gradients that were proved without it: 0.18 of a full YOLOv8n on an H200, whose targets jump with its outputs."""
_KEPT = 1e-3
"""How far a step in float32 may move running means and variances from where they belong."""
_SAME = 1e-5
"""Gradients that are as near in both were not rounded to tf32: the device has none, and what is timed is held like what was proved."""


class TrainingSteps(ReplayedSteps):
    """One training step: forward, backward and optimiser over all micro-batches of a job.

    The first step must find the gradients that were proved, and do to each parameter what the closed form of its optimiser does with them.
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
        self._proved: Proved | None = None
        self._rounded: Gradients | None = None
        self._averages: Gradients = {}
        self._built = {name: tensor.detach().cpu().clone() for name, tensor in self._state().items()}

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
        return {**dict(self.job.model.named_buffers()), **self._trained}

    @cached_property
    def _trained(self) -> dict[str, nn.Parameter]:
        """The trainable parameters, which stay the same tensors; buffers may be others after a step."""
        return {name: one for name, one in self.job.model.named_parameters() if one.requires_grad}

    def prove(self) -> str:
        """Hold the job, or its tiny sibling and then the job itself, against a reference; then a whole step from where it was built."""
        if self._proved is None:
            self._said, self._proved = self.against_reference()
            self._round()
        self.to_first_step()
        self._require_step(self._proved)
        return self._said

    def against_reference(self) -> tuple[str, Proved]:
        """Return what was seen, and what the first gradients must be."""
        if self.preset == "tiny":
            said, proved = against_float64(self.workload, self.job, self.device)
            self._averages = self._averaged()
            return said + unanchored(self.job.optimiser), proved
        twin = self.build("tiny", torch.float32, self.job.recipe.autocast)
        sibling, _ = against_float64(self.workload, twin, self.device)
        said = against_itself(self.job, widened_twin(self.workload, self.job, self.device), self._dead())
        proved = as_before(self.workload.name, self.job)
        return f"tiny: {sibling}; full: {said}{unanchored(self.job.optimiser)}", proved

    def _averaged(self) -> Gradients:
        """Return what a step's forward must leave in each floating buffer that it moves, such as running means, in float64 on the CPU."""
        moving = [
            name for name, one in self.job.model.named_buffers()
            if one.is_floating_point() and not torch.equal(one.cpu(), self._built[name])
        ]  # fmt: skip
        if not moving:
            return {}
        exact = self.workload.build(HOST.torch, "tiny", SEED, torch.float64)
        with torch.no_grad():
            for index in range(len(exact.batches)):
                exact.forward(index)
        found = dict(exact.model.named_buffers())
        return {name: found[name] - self._built[name] for name in moving}

    def _dead(self) -> frozenset[str]:
        """Return the kinds of parameters none of which has a gradient in exact arithmetic."""
        exact = self.workload.reference("tiny", SEED)
        gone = vanishing(exact)
        return frozenset(map(kind_of, gone)) - frozenset(kind_of(name) for name in exact.gradients if name not in gone)

    def _round(self) -> None:
        """Keep the gradients in the timed precision where it may round to tf32; they must lie near those that were proved without."""
        if self.arithmetic == "tf32" or torch.get_float32_matmul_precision() != "highest":
            with shortened(False):
                exact = self.job.observe().gradients
            rounded = self.job.observe().gradients
            if _require_near(rounded, exact, ROUNDED, "in the precision that is timed") > _SAME:
                self._rounded = rounded

    def run(self) -> torch.Tensor:
        """Train one step."""
        self._loss = self.job.step()
        return self._loss

    def to_first_step(self) -> None:
        """Take a step from where the job was built."""
        with torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(self._built[name])
        self.job.optimiser.state.clear()
        self.run()
        loss = float(self._loss)
        require(math.isfinite(loss), f"the loss of the first step is {loss}")
        self.facts = {**self.facts, "loss at the start": loss, "update compared with": against(self.job.optimiser)}

    def _require_step(self, proved: Proved) -> None:
        trained = {name: one for name, one in self._trained.items() if one.grad is not None}
        used = {name: one.grad for name, one in trained.items() if one.grad is not None}
        if self._rounded is None:
            proved.require(
                StepResult(self._loss, self._loss, {name: one.cpu() for name, one in used.items()}), " in a timed step"
            )
        else:
            _require_near(used, self._rounded, AGAIN, "in a timed step")
        if self._averages:
            self._require_averages()
        if not written(self.job.optimiser):
            update = Update(self.job.optimiser)
            self.run()
            update.share()
            return
        owned = {id(one) for group in self.job.optimiser.param_groups for one in group["params"]}
        mine = {name: one for name, one in trained.items() if id(one) in owned and one.numel()}
        Update(
            self.job.optimiser,
            list(mine.values()),
            {id(one): {"parameter": on_host(self._built[name])} for name, one in mine.items()},
        ).share()
        others = {name: one for name, one in trained.items() if id(one) not in owned}
        moved = [name for name, one in others.items() if not torch.equal(one.detach().cpu(), self._built[name])]
        require(not moved, f"a step changed {moved[:1]}, which no group of the optimiser has")

    def _require_averages(self) -> None:
        """Hold what the step's forward left in buffers."""
        found = dict(self.job.model.named_buffers())
        changes = {name: found[name].cpu().double() - self._built[name] for name in self._averages}
        far, allowed = apart(changes, self._averages), _KEPT if self._exact else AGAIN
        require(
            far <= allowed,
            f"a timed step changed the model's buffers by {far:.2g} of the change otherwise than float64, {allowed} are allowed",
        )

    @property
    def _exact(self) -> bool:
        """Whether what is timed rounds as float32 does, and no more."""
        return self._rounded is None and self.dtype == "float32"


def _require_near(seen: Gradients, known: Gradients, allowed: float, where: str) -> float:
    """Require gradients of the same parameters, as one vector within `allowed` of its length; return how far they are."""
    require(seen.keys() == known.keys(), f"{where} there are gradients for other parameters than were proved")
    far = apart(seen, known)
    require(
        far <= allowed,
        f"{where} gradients are {far:.2g} of their length from those that were proved, {allowed} are allowed",
    )
    return far


KINDS = {"training": TrainingSteps}
