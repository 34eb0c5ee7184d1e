"""What a workload must offer, checked when it is loaded and before anything runs: one sentence names the file and what lacks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import nn

from stackproof.base.errors import Refusal
from stackproof.base.text import error_line, plain
from stackproof.device.devices import HOST
from stackproof.device.numerics import relative_error
from stackproof.project import offers
from stackproof.project.offers import Offer
from stackproof.workloads.base import Job, Units, Workload

T = TypeVar("T")
_CPU = HOST.torch
_SEED = 7
_NAME = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
_LONGEST = 60
"""Characters of a name: it stands in the names of checks, files and columns."""
_SHARED = ("data-parallel", "exchange", "sharded")
_WIDE = 1e-3
"""How far the loss in float32 may be from that in float64: further than rounding, nearer than other weights."""
_AGAIN = 1e-5


def declared(module: ModuleType, file: str) -> tuple[Workload, ...]:
    """Return the workloads that a module offers; nothing is built.

    Raises:
        Refusal: `WORKLOADS`, a name or an offer is not what it must be.
    """
    value = getattr(module, "WORKLOADS", None)
    if not isinstance(value, (tuple, list)) or not value:
        what = "has no WORKLOADS" if value is None else f"has WORKLOADS = {value!r}"
        raise Refusal(f"{file}: {what}; end it with a tuple of objects, such as WORKLOADS = (Mine(),)")
    for item in value:
        if not isinstance(item, Workload):
            hint = "make an object of it" if isinstance(item, type) else "extend stackproof.workloads.base.Workload"
            raise Refusal(f"{file}: WORKLOADS holds {item!r}, which is no Workload; {hint}")
        name = getattr(item, "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST:
            raise Refusal(
                f"{file}: {type(item).__name__}.name is {plain(repr(name), 80)}; "
                f"it must be a word in lower case of at most {_LONGEST} characters, such as 'my-vit'"
            )
        if not isinstance(item.offer, Offer):
            raise Refusal(
                f"{file}: '{name}' has offer = {item.offer!r}; it must be an Offer(...) of stackproof.project.offers"
            )
        if item.offer.roles and name not in offers.ours():
            raise Refusal(f"{file}: '{name}' has roles, which only stackproof's own workloads play; leave them out")
    return tuple(value)


def check(workload: Workload) -> str:
    """Build a workload tiny on the CPU, look at all that checks will ask of it, and say what was seen in one sentence.

    Raises:
        Refusal: something lacks or is not of its kind; the sentence names the file, the workload and the remedy.
    """
    return _Look(workload).take()


class _Look:
    def __init__(self, workload: Workload) -> None:
        self.workload, self.where = workload, f"{workload.origin}: '{workload.name}'"

    def take(self) -> str:
        if reason := self.workload.missing():
            return f"not built here: {reason}"
        job = self._job(torch.float32)
        self._built(job, torch.float32)
        self._repeats(job)
        wide = self._job(torch.float64)
        self._built(wide, torch.float64)
        remedy = "make weights and data in float32 on the CPU, and cast them then"
        self._same(job, wide, _AGAIN, f"between float32 and float64, which must start alike; {remedy}")
        self._computes(job, wide)
        units = self._try("units", lambda: job.units)
        counted = isinstance(units, Units) and units.samples >= 1 and units.flops >= 1 and units.tokens >= 0
        self._need(counted, f"units are {units!r}; they must be Units(samples, tokens, flops) of one step, counted")
        self._parts(job)
        loss = float(self._try("step()", job.step))
        self._need(math.isfinite(loss), f"the loss of the first step is {loss}")
        trainable = sum(parameter.numel() for parameter in job.model.parameters() if parameter.requires_grad)
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in job.batches[0].items())
        return f"{trainable} trainable numbers, {type(job.optimiser).__name__}, {shapes}"

    def _need(self, holds: bool, why: str) -> None:
        if not holds:
            raise Refusal(f"{self.where}: {why}")

    def _try(self, what: str, act: Callable[[], T]) -> T:
        try:
            return act()
        except Refusal:
            raise
        except Exception as error:
            text = f"{what} raises {error_line(error)}{line_of(error, self.workload.origin)}"
            raise Refusal(f"{self.where}: {text}") from error

    def _job(self, dtype: torch.dtype, seed: int = _SEED, shard: tuple[int, int] = (0, 1)) -> Job:
        job = self._try(f"building it in {dtype}", lambda: self.workload.build(_CPU, "tiny", seed, dtype, shard=shard))
        what = f"assemble() returns {type(job).__name__}; it must return a Job (stackproof.workloads.base)"
        self._need(isinstance(job, Job), what)
        return job

    def _built(self, job: Job, dtype: torch.dtype) -> None:
        """Model, optimiser and batches are of their kinds, on the device, in the dtype that was asked for."""
        of_kinds = isinstance(job.model, nn.Module) and isinstance(job.optimiser, torch.optim.Optimizer)
        self._need(of_kinds, "a Job takes a torch.nn.Module and a torch.optim.Optimizer")
        trained = {name: parameter for name, parameter in job.model.named_parameters() if parameter.requires_grad}
        owned = {id(item) for group in job.optimiser.param_groups for item in group["params"]}
        self._need(bool(trained), "no parameter of the model requires a gradient")
        left = [name for name, parameter in trained.items() if id(parameter) not in owned]
        remedy = "give it what requires a gradient, after model.to(...)"
        self._need(not left, f"the optimiser does not have '{(left or [''])[0]}'; {remedy}")
        full = bool(job.batches) and all(job.batches)
        self._need(full, "a Job has no batches, or an empty one; give it a list of mappings from names to tensors")
        for name, tensor in {**trained, **_data(job)}.items():
            self._need(
                not tensor.is_floating_point() or tensor.dtype is dtype,
                f"{name} is {tensor.dtype} where {dtype} was asked for; use recipe.dtype, or recipe.share() for data",
            )
            self._need(bool(tensor.numel()), f"{name} is empty, of shape {tuple(tensor.shape)}")

    def _same(self, job: Job, other: Job, off: float, how: str) -> None:
        before = _everything(job)
        for name, tensor in _everything(other).items():
            same = name in before and relative_error(before[name], tensor) <= off
            self._need(same, f"{name} differs {how}")

    def _repeats(self, job: Job) -> None:
        self._same(
            job, self._job(torch.float32), 0.0, "between two builds from one seed; draw everything from recipe.seed"
        )
        before, other = _everything(job), _everything(self._job(torch.float32, _SEED + 1))
        alike = all(name in before and torch.equal(tensor, before[name]) for name, tensor in other.items())
        remedy = "draw them from recipe.seed, or from torch's generator"
        self._need(not alike, f"another seed gives the same weights and batches; {remedy}")

    def _computes(self, job: Job, wide: Job) -> None:
        """Forward gives a tensor and a scalar loss, twice the same, in float64 too; backward reaches every parameter."""
        first, again, exact = self._forward(job), self._forward(job), self._forward(wide)
        same = all(relative_error(other, tensor) <= _AGAIN for tensor, other in zip(first, again, strict=True))
        remedy = "set dropout and other draws to 0, which no reference can follow"
        self._need(same, f"two forward passes on the same batch differ; {remedy}")
        for what, tensor in zip(("output", "loss"), exact, strict=True):
            remedy = "so something inside rounds; cast by the inputs' dtype"
            self._need(tensor.dtype is torch.float64, f"the {what} of the float64 job is {tensor.dtype}, {remedy}")
        narrow, far = float(first[1].detach()), float(exact[1].detach())
        near = abs(narrow - far) <= _WIDE * max(abs(narrow), 1e-3)
        self._need(near, f"the loss is {narrow:.6g} in float32 and {far:.6g} in float64")
        self._try("backward", lambda: job.differentiate(first[1]))
        none = [name for name, param in job.model.named_parameters() if param.requires_grad and param.grad is None]
        some = f"such as '{(none or [''])[0]}'; freeze them or leave them out"
        self._need(not none, f"{len(none)} parameters get no gradient, {some}")

    def _forward(self, job: Job) -> tuple[torch.Tensor, torch.Tensor]:
        item: Any = self._try("evaluate()", lambda: job.forward(0))
        what = type(item).__name__
        if sequence := isinstance(item, Sequence) and not isinstance(item, str):
            what += f" of ({', '.join(type(part).__name__ for part in item)})"
        two = sequence and len(item) == 2 and all(isinstance(part, torch.Tensor) for part in item)
        self._need(two, f"evaluate() returns {what}; it must return two tensors, (output, loss)")
        output, loss = item
        remedy = "it must be a scalar with a gradient, such as a mean"
        self._need(not loss.dim() and loss.requires_grad, f"the loss has shape {tuple(loss.shape)}; {remedy}")
        remedy = "return logits or another prediction in floating point"
        self._need(output.is_floating_point(), f"the output is {output.dtype}; {remedy}")
        value = float(loss.detach())
        self._need(math.isfinite(value) and value != 0, f"the loss is {value} at the start")
        return output, loss

    def _parts(self, job: Job) -> None:
        parts, compiled = self.workload.offer.parts, self.workload.offer.compiled
        for part, method in {"recompute": "recompute", "closed-form": "closed_form"}.items():
            own = part not in parts or getattr(type(job), method) is not getattr(Job, method)
            self._need(own, f"takes part in '{part}', and its Job has no method '{method}'")
        if "compile" in parts:
            self._try(f"compiled = '{compiled}'", lambda: job.model.get_submodule(compiled))
        if "channels-last" in parts:
            pictures = any(tensor.dim() == 4 and tensor.is_floating_point() for tensor in job.batches[0].values())
            convolves = any(isinstance(module, nn.Conv2d) for module in job.model.modules())
            what = "takes part in 'channels-last', and has no pictures (4 dimensions) or no Conv2d"
            self._need(pictures and convolves, what)
        if set(_SHARED) & set(parts) and len(job.batches) == 1:
            halves = [sum(map(len, self._job(torch.float32, shard=(rank, 2)).batches[0].values())) for rank in range(2)]
            whole = sum(map(len, job.batches[0].values()))
            remedy = "take recipe.share(...) of the whole batch"
            self._need(sum(halves) == whole, f"two shards do not hold what one process has; {remedy}")


def _data(job: Job) -> dict[str, torch.Tensor]:
    return {f"batch {at} '{name}'": tensor for at, batch in enumerate(job.batches) for name, tensor in batch.items()}


def _everything(job: Job) -> dict[str, torch.Tensor]:
    return {f"parameter '{name}'": parameter.detach() for name, parameter in job.model.named_parameters()} | _data(job)


def line_of(error: BaseException, file: str) -> str:
    """Return the last line of the workload's file that an error went through."""
    text, trace = "", error.__traceback__
    while trace:
        text = f" (line {trace.tb_lineno})" if trace.tb_frame.f_code.co_filename == file else text
        trace = trace.tb_next
    return text
