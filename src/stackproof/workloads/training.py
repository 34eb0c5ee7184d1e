"""Steps as work, of a whole training or of its optimiser alone: proved before they are timed and after, in blocks held against replays.

A block begins where a first step ended, which was held itself: its gradients against float64 or finite differences, what it did to each
parameter against the closed form of its optimiser. What the block leaves is held against untimed replays; how far two are apart is noise.
A whole trajectory has no such reference: Adam divides a gradient by its own size, so that one whose value is rounding noise steps the
other way on one correct device and not on another, and every later step starts elsewhere.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from stackproof.device.numerics import shortened
from stackproof.operators import forms
from stackproof.operators.relation import word
from stackproof.record.checks import CheckInconclusive, require
from stackproof.workloads.base import Job, Preset, Workload
from stackproof.workloads.catalogue import get
from stackproof.workloads.gradients import AGAIN, Gradients, against_float64, against_itself, apart
from stackproof.workloads.work import Setting, Work


def counted(model: nn.Module, *inputs: Any, **named: Any) -> int:
    """Return the FLOPs of forward and backward of `model(*inputs, **named)`: matrix products and convolutions, no loss.

    Counted on the meta device: nothing is computed and the model is not touched. The first layer has no
    gradient of its input, so the total lies a little under three times the forward.
    """
    from torch.utils._pytree import tree_leaves, tree_map_only
    from torch.utils.flop_counter import FlopCounterMode  # slow to import, and a listing does not count

    state = {name: tensor.detach().to("meta") for name, tensor in model.state_dict(keep_vars=True).items()}
    for name, parameter in model.named_parameters():
        state[name].requires_grad_(parameter.requires_grad)
    arguments, keywords = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (inputs, named))
    with FlopCounterMode(display=False) as counter:
        outputs = torch.func.functional_call(model, state, arguments, keywords)
        differentiable = [leaf for leaf in tree_leaves(outputs) if torch.is_tensor(leaf) and leaf.requires_grad]
        torch.stack([leaf.sum() for leaf in differentiable]).sum().backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


_ULPS = 4.0
_ROUNDING = 3e-5
"""Of a change's terms: CUDA's fused kernels take 1 - beta from beta in float32, 1.3e-5 off with a beta of 0.999."""
_ROUNDING_TWIN = 1e-3
"""The same where nobody wrote a closed form, and the sizes of terms are not known."""
_HOW = {"foreach", "fused", "capturable"}

State = dict[str, Any]


class Update:
    """An optimiser before a step; after it, `share` says how much of its bound the worst number of all, or of some, parameters takes.

    SGD, Adam and AdamW have closed forms. Any other takes the same step in float64 on the CPU: another arithmetic and device, the same
    Python, in which a mistake is not seen. `against` says which.
    """

    def __init__(self, optimiser: torch.optim.Optimizer, some: Sequence[torch.Tensor] = ()) -> None:
        self.optimiser, self.name = optimiser, type(optimiser).__name__
        self._options = {id(item): group for group in optimiser.param_groups for item in group["params"]}
        self._parameters = list(some) or parameters_of(optimiser)
        own = type(optimiser) is not getattr(torch.optim, self.name, None)
        odd = any(
            group.get("maximize") or (self.name == "Adam" and group.get("decoupled_weight_decay"))
            for group in optimiser.param_groups
        )
        self._written = self.name in forms.STEPS and not own and not odd
        with_options = " with these options" if odd else ""
        self.against = (
            "its closed form" if self._written else f"the CPU only: no closed form for {self.name}{with_options}"
        )
        self._before = {id(parameter): self._state(parameter) for parameter in self._parameters}

    def share(self) -> float:
        """Hold every parameter that has a gradient, and all that the optimiser keeps of it, against float64.

        Raises:
            CheckFailed: one is further from what the step must give than rounding may bring it.
        """
        tensors = [parameter for parameter in self._parameters if parameter.grad is not None]
        require(bool(tensors), f"a step of {self.name}: no parameter has a gradient")
        allowed, worst = _ROUNDING if self._written else _ROUNDING_TWIN, State()
        for tensor, (exact, sizes) in zip(tensors, self._exact(tensors), strict=True):
            before, eps = self._before[id(tensor)], torch.finfo(tensor.dtype).eps
            after = {name: value for name, value in self._state(tensor).items() if isinstance(value, np.ndarray)}
            keeps = [", ".join(sorted(names)) for names in (after, exact)]
            require(keeps[0] == keeps[1], f"{self.name} keeps {keeps[0]}, not {keeps[1]}")
            for what, value in exact.items():
                bound = _ULPS * eps * sizes[what] + allowed * np.abs(value - before.get(what, 0.0))
                shares = np.abs(after[what] - value) / (bound + np.finfo(np.float32).tiny)
                share = float(np.nan_to_num(shares, nan=np.inf).max(initial=0.0))
                worst[what] = max(share, worst.get(what, 0.0))
        most = max(worst, key=lambda what: float(worst[what]))
        require(
            worst[most] <= 1,
            f"a step of {self.name}: the {most} is {worst[most]:.3g} times what rounding may do from {self.against}",
        )
        return float(worst[most])

    def _state(self, parameter: torch.Tensor) -> State:
        kept = {"parameter": parameter, **self.optimiser.state.get(parameter, {})}
        return {name: in_float64(value) if torch.is_tensor(value) else value for name, value in kept.items()}

    def _exact(self, tensors: list[torch.Tensor]) -> Iterator[tuple[State, State]]:
        """Yield what the step must make of each parameter and its state, and how large the terms are that it adds up."""
        if self._written:
            for param in tensors:
                yield forms.STEPS[self.name](self._before[id(param)], in_float64(param.grad), self._options[id(param)])
            return
        twin, wide = copy.copy(self.optimiser), dict[int, torch.Tensor]()
        twin.state = defaultdict(dict)
        for param in tensors:
            arrays = self._before[id(param)].items()
            start = {
                name: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else copy.copy(value)
                for name, value in arrays
            }
            wide[id(param)] = own = start.pop("parameter").requires_grad_()
            own.grad = torch.from_numpy(in_float64(param.grad))
            twin.state |= {own: start} if start else {}
        twin.param_groups = [
            {
                **group,
                **dict.fromkeys(group.keys() & _HOW, False),
                "params": [wide[id(param)] for param in group["params"] if id(param) in wide],
            }
            for group in self.optimiser.param_groups
        ]
        twin.step()
        for key, own in wide.items():
            kept = {"parameter": own, **twin.state.get(own, {})}
            exact = {name: in_float64(value) for name, value in kept.items() if torch.is_tensor(value)}
            moved = {name: np.abs(value - self._before[key].get(name, 0.0)) for name, value in exact.items()}
            # Terms may cancel in one number; how large they are shows in the others.
            yield exact, {name: 2 * np.abs(value) + 2 * moved[name].max(initial=0.0) for name, value in exact.items()}


def parameters_of(optimiser: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [item for group in optimiser.param_groups for item in group["params"]]


def in_float64(tensor: Any) -> Any:
    """Return a copy of a tensor as a NumPy array in float64, made on the host: not every card has it."""
    return tensor.detach().cpu().to(torch.float64, copy=True).numpy()


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

Ends = dict[str, torch.Tensor]
"""How far parameters, and buffers, each as one vector in float32, are from where a block begins: those that moved."""


class ReplayedSteps(Work):
    """Steps of a job's optimiser. The first ends a proof; what it left is where every block begins."""

    job: Job
    most_runs = 16
    _start: list[list[torch.Tensor]] | None = None

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

    @cached_property
    def _parameters(self) -> list[torch.Tensor]:
        return parameters_of(self.job.optimiser)

    def _changing(self) -> list[list[torch.Tensor]]:
        states = [self.job.optimiser.state.get(param, {}) for param in self._parameters]
        kept = [value for state in states for value in state.values() if torch.is_tensor(value)]
        return [self._parameters, list(self.job.model.buffers()), kept]

    @cached_property
    def _replays(self) -> dict[int, tuple[list[Ends], dict[str, float]]]:
        return {}

    def _kept(self) -> list[list[torch.Tensor]]:
        return [[tensor.detach().clone() for tensor in group] for group in self._changing()]

    def _put(self, kept: list[list[torch.Tensor]]) -> None:
        for group, values in zip(self._changing(), kept, strict=True):
            if group:
                with torch.no_grad():
                    torch._foreach_copy_(group, values)

    def keep_start(self) -> None:
        """Let blocks begin where the job is now, if they have no beginning yet."""
        self._start = self._start or self._kept()

    def begin(self, runs: int, compared: bool = True) -> None:  # noqa: ARG002 - any number starts there
        """Go back to what the first step left, or train on."""
        if self._start is None:
            self.to_first_step()
            self.keep_start()
        if compared and self._start:
            self._put(self._start)

    def _ends(self) -> Ends:
        moved = {
            name: _vector([tensor.detach().sub(before) for tensor, before in zip(now, start, strict=True)])
            for name, now, start in zip(("parameters", "buffers"), self._changing(), self._start or (), strict=False)
        }
        return {name: vector for name, vector in moved.items() if bool(vector.any())}

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
        both = [", ".join(sorted(moved)) or "nothing" for moved in (end, replays[0])]
        require(both[0] == both[1], f"{runs} timed steps changed {both[0]}, and an untimed replay {both[1]}")
        for group in end:
            while True:
                far, noise = min(apart({"": end[group]}, {"": run[group]}) for run in replays), noises.get(group, 0.0)
                allowed = _SHARE / runs + _NOISES * noise
                if far <= allowed or len(replays) == _MOST_REPLAYS:
                    break
                # It is kept on the host, so that the memory that is used at most does not follow chance.
                another = {name: moved.cpu() for name, moved in self._replayed(runs).items()}
                for name, moved in another.items():
                    distances = [apart({"": moved}, {"": run[name]}) for run in replays]
                    noises[name] = max(noises.get(name, 0.0), *distances)
                replays.append(another)
            self.facts = {**self.facts, f"runs that are left out and show in {group}, from": allowed * runs}
            self.facts = {**self.facts, **({"distance of two replays": noise} if noise else {})}
            require(
                far <= allowed,
                f"{runs} timed steps left {group} {far:.2g} of their way from where an untimed replay did, {allowed:.2g} are allowed: "
                "a step was left out, cut short, or done otherwise",
            )
            if noise > _MOST_NOISE:
                raise CheckInconclusive(
                    f"two replays of {runs} steps end {noise:.2g} of their way apart; beyond {_MOST_NOISE} a step left out "
                    "would not show; if a quiet host shows it too, the stack does not repeat itself"
                )

    def _replayed(self, runs: int) -> Ends:
        """Take the steps of a block again, each with a few small parameters that move held against the closed form."""
        self.begin(runs)
        moving = (param for param in self._parameters if param.grad is not None and bool(param.grad.any()))
        few = sorted(moving, key=torch.Tensor.numel)[:_FEW]
        for _ in range(runs):
            self.updated(few)
        return self._ends()


def _vector(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten().float() for tensor in tensors]) if tensors else torch.zeros(1)


class TrainingSteps(ReplayedSteps):
    """One training step: forward, backward and optimiser over all micro-batches of a job; FLOPs are those without recomputation."""

    def __init__(self, setting: Setting) -> None:
        self.workload, self.device, self.preset = _workload(setting), setting.device, setting.preset
        size: Preset = "tiny" if self.preset == "tiny" else "full"
        parts = self.workload.accumulation(size) // setting.micro_batches if setting.micro_batches else 1
        few = parts > 1  # no rank of a group is asked for fewer
        self.job = self.workload.build(self.device.torch, size, SEED, shard=(0, parts)) if few else self.build(size)
        units = self.job.units
        tokens = {"token": float(units.tokens)} if units.tokens else {}
        self.worth = {"sample": float(units.samples), **tokens, "TFLOP": units.flops / 1e12}
        self.dtype = word(self.job.recipe.autocast or self.job.recipe.dtype)
        # Convolutions of float32 run as tf32 where cuDNN is allowed to.
        convolves = any(isinstance(module, torch.nn.Conv2d) for module in self.job.model.modules())
        short = convolves and self.dtype == "float32" and bool(torch.backends.cudnn.allow_tf32)
        self.arithmetic = "tf32" if short else self.dtype
        self._built = self._kept()
        self._known: Mapping[str, Gradients] = {}

    def build(self, preset: Preset, dtype: torch.dtype | None = None, autocast: torch.dtype | None = None) -> Job:
        return self.workload.build(self.device.torch, preset, SEED, dtype, autocast)

    def prove(self) -> str:
        """Hold the job, or its tiny sibling and then the job itself, against a reference; then a whole step from where it was built."""
        if not self._known:
            self._proof = self.against_reference()
            with shortened(False):
                exact = self.job.observe().gradients
            self._known = {_GRADIENT: self.job.observe().gradients}
            what = f"{_GRADIENT} in the precision that is timed is, of what was proved,"
            rounded = _require_near(self._known[_GRADIENT], exact, ROUNDED, what) > _SAME
            self._allowed = AGAIN if rounded or self.preset == "full" else _AGAIN_TINY
            self._known = self.to_first_step()
            self.keep_start()
        else:
            self.to_first_step()
        return self._proof

    def against_reference(self) -> str:
        if self.preset == "tiny":
            return against_float64(self.workload, self.job)
        sibling = against_float64(self.workload, self.build("tiny", torch.float32, self.job.recipe.autocast))
        return f"tiny: {sibling}; full: {against_itself(self.workload, self.job, self.device)}"

    def run(self) -> torch.Tensor:
        self._loss = self.job.step()
        return self._loss

    def to_first_step(self) -> Mapping[str, Gradients]:
        """Take a step from where the job was built; it must find what was known, and do with it what its optimiser does.

        Return the gradients that it found, and what its forward did to floating buffers, such as running means.
        """
        self.job.optimiser.state.clear()
        self._put(self._built)
        self.updated([])
        self.facts = {**self.facts, "loss at the start": float(self._loss)}
        buffers = zip(self.job.model.named_buffers(), self._built[1], strict=True)
        seen = {
            _GRADIENT: {
                name: param.grad.clone() for name, param in self.job.model.named_parameters() if param.grad is not None
            },
            _BUFFERS: {name: buffer - before for (name, buffer), before in buffers if buffer.is_floating_point()},
        }
        for what, known in self._known.items():
            _require_near(seen[what], known, self._allowed, f"{what} in a timed step is, of what was proved,")
        return seen


@dataclass(frozen=True)
class _Parameters:
    workload: str


def _workload(setting: Setting) -> Workload:
    workload = get(setting.parameters.row(_Parameters).workload)
    workload.require()
    return workload


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
    most_runs = 64

    def __init__(self, setting: Setting) -> None:
        self.job = _workload(setting).build(setting.device.torch, "tiny" if setting.preset == "tiny" else "full", SEED)
        self.job.differentiate(self.job.forward(0)[1])
        self.optimiser = self.job.optimiser
        self.parameters = [param for param in self._parameters if param.grad is not None]
        self._gradients = self._gradient_vector()
        self.facts = {"parameters": sum(parameter.numel() for parameter in self.parameters)}

    def run(self) -> None:
        self.optimiser.step()

    to_first_step = run

    def prove(self) -> str:
        """Hold two steps' parameters and state against the closed form in float64: every number."""
        self.updated([])
        self.keep_start()
        self.begin(1)
        worst = self.updated([])
        self._require_gradients()
        return f"all {self.facts['parameters']} parameters and their state after two steps, {worst:.1%} of what rounding may do"

    def verify(self, runs: int) -> None:
        super().verify(runs)
        self._require_gradients()

    def _gradient_vector(self) -> torch.Tensor:
        return _vector([param.grad for param in self.parameters if param.grad is not None])

    def _require_gradients(self) -> None:
        name = type(self.optimiser).__name__
        same = torch.equal(self._gradient_vector(), self._gradients)
        require(same, f"a step of {name} changed the gradients that it was given")


KINDS = {"training": TrainingSteps, "optimiser": OptimiserStep}
