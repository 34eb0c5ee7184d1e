"""Steps as work, of a whole training or of its optimiser alone: proved before they are timed and after, in blocks held against replays.

A block begins where a first step ended, which was held itself: its gradients against float64 or finite differences, what it did to each
parameter against the closed form of its optimiser. What the block leaves is held against untimed replays; how far two are apart is noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import nn

from stackproof.device.numerics import shortened
from stackproof.record.checks import CheckInconclusive, require
from stackproof.workloads.base import Job, Preset
from stackproof.workloads.gradients import AGAIN, Gradients, against_float64, against_itself, apart
from stackproof.workloads.updates import Update
from stackproof.workloads.work import OfWorkload, Setting, Work, name_of


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


def _tensors(outputs: Any) -> list[torch.Tensor]:
    """Return the differentiable tensors in nested lists and dictionaries."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.requires_grad else []
    nested = outputs.values() if isinstance(outputs, dict) else outputs
    return [tensor for item in nested for tensor in _tensors(item)]


SEED = 7
_FEW = 3
"""The closed form is asked for so many small parameters in each replayed step."""
_NOISES = 5.0
_MOST_NOISE = 1 / _NOISES
"""Beyond, a block could lack all of its steps and nobody would see it."""
_MOST_REPLAYS = 5
"""On a card atomics add in any order, and targets of a detector jump with what that rounds: two replays may be alike by chance."""
_SHARE = 0.05
"""Of one run of a block: so far may its end be from the replay's, beside the noise."""
ROUNDED = 0.5
"""How far tf32 may move gradients that were proved without it: 0.18 of a full YOLOv8n on an H200, whose targets jump with its outputs."""
_AGAIN_TINY = 1e-4
"""How far a tiny job's first step may be from what it was before: one device, one order of kernels, and a start that amplifies little."""

_SAME = 1e-5
"""Gradients that are as near were not rounded to tf32: the device has none, and what is timed is held like what was proved."""
_GRADIENT, _BUFFERS = "the gradient", "what the model's buffers changed by"

Tensors = Mapping[str, torch.Tensor]


class ReplayedSteps(Work):
    """Steps of a job's optimiser. The first ends a proof; what it left is where every block begins."""

    job: Job
    most_runs = 16

    @abstractmethod
    def run(self) -> torch.Tensor | None:
        """Take one step; return its loss, where it has one."""

    @abstractmethod
    def to_first_step(self) -> object:
        """Take a step from where the job was built."""

    def updated(self, some: list[torch.Tensor]) -> float:
        """Take a step, hold some of its parameters, or all, against the closed form, and return how much of its bound the worst takes."""
        update = Update(self.job.optimiser, some)
        self.facts = {**self.facts, "update compared with": update.against}
        loss = self.run()
        require(loss is None or math.isfinite(loss), f"the loss of a step is {loss}")
        return update.share()

    def _changing(self) -> dict[str, torch.Tensor]:
        """Return all that a step changes: parameters, buffers, and what the optimiser keeps."""
        found = {f"buffer {name}": one for name, one in self.job.model.named_buffers()}
        for number, one in enumerate(self._parameters):
            found[f"parameter {number}"] = one
            state = self.job.optimiser.state.get(one, {})
            found |= {f"{name} {number}": kept for name, kept in state.items() if torch.is_tensor(kept)}
        return found

    @cached_property
    def _parameters(self) -> list[torch.Tensor]:
        return [one for group in self.job.optimiser.param_groups for one in group["params"]]

    @cached_property
    def _start(self) -> Tensors:
        self.to_first_step()
        return {name: one.detach().clone() for name, one in self._changing().items()}

    @cached_property
    def _replays(self) -> dict[int, tuple[list[Mapping[str, Tensors]], dict[str, float]]]:
        return {}

    def begin(self, runs: int) -> None:  # noqa: ARG002 - the same start for any number
        """Go back to what the first step left."""
        start = self._start
        with torch.no_grad():
            for name, tensor in self._changing().items():
                tensor.copy_(start[name])

    def verify(self, runs: int) -> None:
        """Hold the end of a block against the nearest replay's, as one vector of what changed; while it differs, more tell the noise.

        Raises:
            CheckFailed: a step was left out, cut short, or done otherwise.
            CheckInconclusive: replays are so far apart that nobody can say.
        """
        end = self._ends()
        if runs not in self._replays:
            self._replays[runs] = [self._replayed(runs)], {}
        replays, noises = self._replays[runs]
        for group in replays[0]:
            require(group in end, f"{runs} timed steps left the {group} as they were")
            while True:
                far, noise = min(apart(end[group], one[group]) for one in replays), noises.get(group, 0.0)
                allowed = _SHARE / runs + _NOISES * noise
                if far <= allowed or len(replays) == _MOST_REPLAYS:
                    break
                self._replay_once_more(runs)
            self.facts = {**self.facts, f"runs that are left out and show in {group}, from": allowed * runs}
            self.facts = {**self.facts, **({"distance of two replays": noise} if noise else {})}
            require(
                far <= allowed,
                f"{runs} timed steps left {group} {far:.2g} of their way from where an untimed replay did, {allowed:.2g} are allowed: "
                "a step was left out, cut short, or done otherwise",
            )
            if noise > _MOST_NOISE:
                raise CheckInconclusive(
                    f"two replays of {runs} steps end {noise:.2g} of their way apart; beyond {_MOST_NOISE} no step left out shows"
                )

    def _replay_once_more(self, runs: int) -> None:
        """Take one more replay; keep it on the host, so that the memory that is used at most does not follow chance."""
        replays, noises = self._replays[runs]
        ends = self._replayed(runs)
        for group, moved in ends.items():
            noises[group] = max(noises.get(group, 0.0), *(apart(moved, other[group]) for other in replays))
        replays.append({group: {name: one.cpu() for name, one in moved.items()} for group, moved in ends.items()})

    def _ends(self) -> dict[str, Tensors]:
        """Return how far parameters and buffers are from the start, those that moved."""
        found: dict[str, dict[str, torch.Tensor]] = {"parameters": {}, "buffers": {}}
        for name, one in self._changing().items():
            if (group := f"{name.split()[0]}s") in found:
                found[group][name] = one.detach().float() - self._start[name].float()
        return {group: moved for group, moved in found.items() if any(bool(one.any()) for one in moved.values())}

    def _replayed(self, runs: int) -> dict[str, Tensors]:
        """Take the steps of a block again, each with a few small parameters that move held against the closed form."""
        self.begin(runs)
        moving = (one for one in self._parameters if one.grad is not None and bool(one.grad.any()))
        few = sorted(moving, key=torch.Tensor.numel)[:_FEW]
        for _ in range(runs):
            self.updated(few)
        return self._ends()


class TrainingSteps(ReplayedSteps):
    """One training step: forward, backward and optimiser over all micro-batches of a job; FLOPs are those without recomputation."""

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        self.workload = get(setting.parameters.row(OfWorkload).workload)
        self.workload.require()
        self.device, self.preset = setting.device, setting.preset
        self.job = self.build("tiny" if self.preset == "tiny" else "full")
        units = self.job.units
        tokens = {"token": float(units.tokens)} if units.tokens else {}
        self.worth = {"sample": float(units.samples), **tokens, "TFLOP": units.flops / 1e12}
        self.dtype = name_of(self.job.recipe.autocast or self.job.recipe.dtype)
        # Convolutions of float32 run as tf32 where cuDNN is allowed to.
        convolves = any(isinstance(module, torch.nn.Conv2d) for module in self.job.model.modules())
        short = convolves and self.dtype == "float32" and bool(torch.backends.cudnn.allow_tf32)
        self.arithmetic = "tf32" if short else self.dtype
        self._built = {name: tensor.detach().cpu().clone() for name, tensor in self._state().items()}
        self._known: Mapping[str, Gradients] = {}

    def build(self, preset: Preset, dtype: torch.dtype | None = None, autocast: torch.dtype | None = None) -> Job:
        """Build the job, in the preset's own precision unless another is asked for."""
        return self.workload.build(self.device.torch, preset, SEED, dtype, autocast)

    def _state(self) -> dict[str, torch.Tensor]:
        """Return what steps change: trainable parameters and buffers, which may be other tensors after a step."""
        trained = {name: one for name, one in self.job.model.named_parameters() if one.requires_grad}
        return {**dict(self.job.model.named_buffers()), **trained}

    def prove(self) -> str:
        """Hold the job, or its tiny sibling and then the job itself, against a reference; then a whole step from where it was built."""
        if not self._known:
            self._said = self.against_reference()
            with shortened(False):
                exact = self.job.observe().gradients
            self._known = {_GRADIENT: self.job.observe().gradients}
            what = f"{_GRADIENT} in the precision that is timed is, of what was proved,"
            rounded = _require_near(self._known[_GRADIENT], exact, ROUNDED, what) > _SAME
            self._allowed = AGAIN if rounded or self.preset == "full" else _AGAIN_TINY
            self._known = self.to_first_step()
        self.to_first_step()
        return self._said

    def against_reference(self) -> str:
        """Return what was seen."""
        if self.preset == "tiny":
            return against_float64(self.workload, self.job)
        sibling = against_float64(self.workload, self.build("tiny", torch.float32, self.job.recipe.autocast))
        return f"tiny: {sibling}; full: {against_itself(self.workload, self.job, self.device)}"

    def run(self) -> torch.Tensor:
        """Train one step."""
        self._loss = self.job.step()
        return self._loss

    def to_first_step(self) -> Mapping[str, Gradients]:
        """Take a step from where the job was built; it must find what was known, and do with it what its optimiser does.

        Return the gradients that it found, and what its forward did to floating buffers, such as running means.
        """
        with torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(self._built[name])
        self.job.optimiser.state.clear()
        self.updated([])
        self.facts = {**self.facts, "loss at the start": float(self._loss)}
        found: dict[str, dict[str, torch.Tensor]] = {_GRADIENT: {}, _BUFFERS: {}}
        for name, one in self._state().items():
            if one.grad is not None:
                found[_GRADIENT][name] = one.grad.clone()
            elif one.is_floating_point() and not one.requires_grad:
                found[_BUFFERS][name] = one.cpu() - self._built[name]
        for what, known in self._known.items():
            _require_near(found[what], known, self._allowed, f"{what} in a timed step is, of what was proved,")
        return found


def _require_near(seen: Gradients, known: Gradients, allowed: float, what: str) -> float:
    """Require tensors of the same names, as one vector within `allowed` of its length; return how far they are."""
    require(seen.keys() == known.keys(), f"{what} that of other tensors")
    far = apart(seen, known)
    require(far <= allowed, f"{what} off by {far:.2g} of its length, {allowed} are allowed")
    return far


class OptimiserStep(ReplayedSteps):
    """One step of a job's own optimiser; gradients stay what one backward gave."""

    dtype = "float32"
    worth = {"iteration": 1.0}  # noqa: RUF012 - never written

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        workload = get(setting.parameters.row(OfWorkload).workload)
        workload.require()
        self.job = workload.build(setting.device.torch, "tiny" if setting.preset == "tiny" else "full", SEED)
        self.job.differentiate(self.job.forward(0)[1])
        self.optimiser = self.job.optimiser
        self.parameters = [one for one in self._parameters if one.grad is not None]
        self._gradients = [one.grad.clone() for one in self.parameters if one.grad is not None]
        self.facts = {"parameters": sum(parameter.numel() for parameter in self.parameters)}

    def run(self) -> None:
        """Take one step."""
        self.optimiser.step()

    def to_first_step(self) -> None:
        """Take a step, so that the optimiser keeps what it keeps."""
        self.run()

    def prove(self) -> str:
        """Hold two steps' parameters and state against the closed form in float64: every number."""
        self.updated([])
        self.begin(1)
        worst = self.updated([])
        self._require_gradients()
        return f"all {self.facts['parameters']} parameters and their state after two steps, {worst:.1%} of what rounding may do"

    def verify(self, runs: int) -> None:
        """Hold the end of a block, and the gradients, which no step changes."""
        super().verify(runs)
        self._require_gradients()

    def _require_gradients(self) -> None:
        given = [one.grad for one in self.parameters if one.grad is not None]
        same = len(given) == len(self._gradients) and all(map(torch.equal, given, self._gradients))
        name = type(self.optimiser).__name__
        require(same, f"a step of {name} changed the gradients that it was given")


KINDS = {"training": TrainingSteps, "optimiser": OptimiserStep}
