"""What a workload must offer, checked when it is loaded and before anything runs: one sentence names the file and what lacks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
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
    found = getattr(module, "WORKLOADS", None)
    if not isinstance(found, (tuple, list)) or not found:
        what = "has no WORKLOADS" if found is None else f"has WORKLOADS = {found!r}"
        raise Refusal(f"{file}: {what}; end it with a tuple of objects, such as WORKLOADS = (Mine(),)")
    for one in found:
        if not isinstance(one, Workload):
            hint = "make an object of it" if isinstance(one, type) else "extend stackproof.workloads.base.Workload"
            raise Refusal(f"{file}: WORKLOADS holds {one!r}, which is no Workload; {hint}")
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST:
            raise Refusal(
                f"{file}: {type(one).__name__}.name is {plain(repr(name), 80)}; "
                f"it must be a word in lower case of at most {_LONGEST} characters, such as 'my-vit'"
            )
        if not isinstance(one.offer, Offer):
            raise Refusal(
                f"{file}: '{name}' has offer = {one.offer!r}; it must be an Offer(...) of stackproof.project.offers"
            )
        if one.offer.roles and name not in offers.ours():
            raise Refusal(f"{file}: '{name}' has roles, which only stackproof's own workloads play; leave them out")
    return tuple(found)


def check(workload: Workload) -> str:
    """Build a workload tiny on the CPU, look at all that checks will ask of it, and say what was seen in one sentence.

    Raises:
        Refusal: something lacks or is not of its kind; the sentence names the file, the workload and the remedy.
    """
    return _Held(workload).look()


class _Held:
    """A workload that is looked at."""

    def __init__(self, workload: Workload) -> None:
        self.workload, self.where = workload, f"{workload.origin}: '{workload.name}'"

    def look(self) -> str:
        """Look at everything, the plainest first."""
        if reason := self.workload.missing():
            return f"not built here: {reason}"
        job = self._job(torch.float32)
        self._built(job, torch.float32)
        self._repeats(job)
        wide = self._job(torch.float64)
        self._built(wide, torch.float64)
        self._same_start(job, wide)
        self._computes(job, wide)
        units = self._try("units", lambda: job.units)
        if not isinstance(units, Units) or units.samples < 1 or units.flops < 1 or units.tokens < 0:
            raise self._lacks(f"units are {units!r}; they must be Units(samples, tokens, flops) of one step, counted")
        self._parts(job)
        loss = float(self._try("step()", job.step))
        if not math.isfinite(loss):
            raise self._lacks(f"the loss of the first step is {loss}")
        trainable = sum(one.numel() for one in job.model.parameters() if one.requires_grad)
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in job.batches[0].items())
        return f"{trainable} trainable numbers, {type(job.optimiser).__name__}, {shapes}"

    def _job(self, dtype: torch.dtype, seed: int = _SEED, shard: tuple[int, int] = (0, 1)) -> Job:
        job = self._try(f"building it in {dtype}", lambda: self.workload.build(_CPU, "tiny", seed, dtype, shard=shard))
        if not isinstance(job, Job):
            raise self._lacks(
                f"assemble() returns {type(job).__name__}; it must return a Job (stackproof.workloads.base)"
            )
        return job

    def _try(self, what: str, act: Callable[[], T]) -> T:
        """Let the workload's own code run; what it raises becomes the sentence."""
        try:
            return act()
        except Refusal:
            raise
        except Exception as error:
            raise self._lacks(f"{what} raises {error_line(error)}{line_of(error, self.workload.origin)}") from error

    def _lacks(self, why: str) -> Refusal:
        return Refusal(f"{self.where}: {why}")

    def _built(self, job: Job, dtype: torch.dtype) -> None:
        """Model, optimiser and batches are of their kinds, on the device, in the dtype that was asked for."""
        if not isinstance(job.model, nn.Module) or not isinstance(job.optimiser, torch.optim.Optimizer):
            raise self._lacks("a Job takes a torch.nn.Module and a torch.optim.Optimizer")
        trained = {name: one for name, one in job.model.named_parameters() if one.requires_grad}
        given = {id(one) for group in job.optimiser.param_groups for one in group["params"]}
        if not trained:
            raise self._lacks("no parameter of the model requires a gradient")
        if left := [name for name, one in trained.items() if id(one) not in given]:
            raise self._lacks(
                f"the optimiser does not have '{left[0]}'; give it what requires a gradient, after model.to(...)"
            )
        if not job.batches or not all(job.batches):
            raise self._lacks("a Job has no batches, or an empty one; give it a list of mappings from names to tensors")
        named = {**trained, **{f"batch '{name}'": one for batch in job.batches for name, one in batch.items()}}
        for name, one in named.items():
            if one.is_floating_point() and one.dtype is not dtype:
                raise self._lacks(
                    f"{name} is {one.dtype} where {dtype} was asked for; use recipe.dtype, or recipe.share() for data"
                )
            if not one.numel():
                raise self._lacks(f"{name} is empty, of shape {tuple(one.shape)}")

    def _repeats(self, job: Job) -> None:
        """The same seed gives the same weights and batches, another seed others."""
        again, other = self._job(torch.float32), self._job(torch.float32, _SEED + 1)
        before = _everything(job)
        for name, one in _everything(again).items():
            if name not in before or not torch.equal(one, before[name]):
                raise self._lacks(f"{name} differs between two builds from one seed; draw everything from recipe.seed")
        if all(name in before and torch.equal(one, before[name]) for name, one in _everything(other).items()):
            raise self._lacks(
                "another seed gives the same weights and batches; draw them from recipe.seed, or from torch's generator"
            )

    def _same_start(self, job: Job, wide: Job) -> None:
        """The float64 job has the weights and data of the float32 one."""
        before = _everything(job)
        for name, one in _everything(wide).items():
            if name not in before or relative_error(before[name], one) > _AGAIN:
                remedy = "make weights and data in float32 on the CPU, and cast them then"
                raise self._lacks(f"{name} differs between float32 and float64, which must start alike; {remedy}")

    def _computes(self, job: Job, wide: Job) -> None:
        """Forward gives a tensor and a scalar loss, twice the same, in float64 too; backward reaches every parameter."""
        (output, loss), again = self._forward(job), self._forward(job)
        if relative_error(again[0], output) > _AGAIN or relative_error(again[1], loss) > _AGAIN:
            raise self._lacks(
                "two forward passes on the same batch differ; set dropout and other draws to 0, which no reference can follow"
            )
        exact, narrow = self._forward(wide), float(loss.detach())
        far = float(exact[1].detach())
        for what, one in zip(("output", "loss"), exact, strict=True):
            if one.dtype is not torch.float64:
                raise self._lacks(
                    f"the {what} of the float64 job is {one.dtype}, so something inside rounds; cast by the inputs' dtype"
                )
        if abs(narrow - far) > _WIDE * max(abs(narrow), 1e-3):
            raise self._lacks(f"the loss is {narrow:.6g} in float32 and {far:.6g} in float64")
        self._try("backward", lambda: job.differentiate(loss))
        trained = [name for name, one in job.model.named_parameters() if one.requires_grad and one.grad is None]
        if trained:
            raise self._lacks(
                f"{len(trained)} parameters get no gradient, such as '{trained[0]}'; freeze them or leave them out"
            )

    def _forward(self, job: Job) -> tuple[torch.Tensor, torch.Tensor]:
        found: Any = self._try("evaluate()", lambda: job.forward(0))
        if not (
            isinstance(found, Sequence) and len(found) == 2 and all(isinstance(one, torch.Tensor) for one in found)
        ):
            what = type(found).__name__
            if isinstance(found, Sequence) and not isinstance(found, str):
                what += f" of ({', '.join(type(one).__name__ for one in found)})"
            raise self._lacks(f"evaluate() returns {what}; it must return two tensors, (output, loss)")
        output, loss = found
        if loss.dim() or not loss.requires_grad:
            raise self._lacks(
                f"the loss has shape {tuple(loss.shape)}; it must be a scalar with a gradient, such as a mean"
            )
        if not output.is_floating_point():
            raise self._lacks(f"the output is {output.dtype}; return logits or another prediction in floating point")
        if not math.isfinite(float(loss.detach())) or not float(loss.detach()):
            raise self._lacks(f"the loss is {float(loss.detach())} at the start")
        return output, loss

    def _parts(self, job: Job) -> None:
        """What it says that it takes part in is there."""
        parts = self.workload.offer.parts
        for part, method in {"recompute": "recompute", "closed-form": "closed_form"}.items():
            if part in parts and getattr(type(job), method) is getattr(Job, method):
                raise self._lacks(f"takes part in '{part}', and its Job has no method '{method}'")
        if "compile" in parts:
            self._try(
                f"compiled = '{self.workload.offer.compiled}'",
                lambda: job.model.get_submodule(self.workload.offer.compiled),
            )
        pictures = any(one.dim() == 4 and one.is_floating_point() for one in job.batches[0].values())
        if "channels-last" in parts and not (
            pictures and any(isinstance(one, nn.Conv2d) for one in job.model.modules())
        ):
            raise self._lacks("takes part in 'channels-last', and has no pictures (4 dimensions) or no Conv2d")
        if set(_SHARED) & set(parts):
            halves = [sum(map(len, self._job(torch.float32, shard=(rank, 2)).batches[0].values())) for rank in range(2)]
            whole = sum(map(len, job.batches[0].values()))
            if len(job.batches) == 1 and sum(halves) != whole:
                raise self._lacks(
                    "two shards do not hold what one process has; take recipe.share(...) of the whole batch"
                )


def _everything(job: Job) -> Mapping[str, torch.Tensor]:
    state = {f"parameter '{name}'": one.detach() for name, one in job.model.named_parameters()}
    batches = {
        f"batch {number} '{name}'": one for number, batch in enumerate(job.batches) for name, one in batch.items()
    }
    return {**state, **batches}


def line_of(error: BaseException, file: str) -> str:
    """Return the last line of the workload's file that an error went through."""
    found, trace = "", error.__traceback__
    while trace:
        found = f" (line {trace.tb_lineno})" if trace.tb_frame.f_code.co_filename == file else found
        trace = trace.tb_next
    return found
