"""What a workload is: it builds itself on a device, runs a step, and says what a step is worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from stackproof.base import places
from stackproof.base.errors import Refusal
from stackproof.device import threads
from stackproof.device.devices import HOST
from stackproof.project import offers
from stackproof.project.offers import Offer
from stackproof.record.checks import CapabilityMissing
from stackproof.stack.capabilities import lacking
from stackproof.workloads.weights import widened

Preset = Literal["tiny", "full"]
Batch = Mapping[str, torch.Tensor]
Evaluation = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Units:
    """What one step of one rank is worth: samples, tokens (0 for pictures), FLOPs of the model both ways."""

    samples: int
    tokens: int
    flops: int


@dataclass(frozen=True)
class StepResult:
    """What a forward and a backward gave, on the CPU, in the dtype they were computed in.

    `output` is what the model predicts, `loss` a scalar, `gradients` the gradient of each trainable parameter
    that got one, `buffers` what forward left in floating buffers, such as running means.
    """

    output: torch.Tensor
    loss: torch.Tensor
    gradients: Mapping[str, torch.Tensor]
    buffers: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a job. Weights and data depend on `preset`, `seed` and `scale` only.

    The global batch is `scale` times the preset's; `shard` is (rank, world size), and a rank takes its
    consecutive part of it. `dtype` is that of the weights, `autocast` that of mixed precision, if any.
    """

    device: torch.device
    preset: Preset
    seed: int
    dtype: torch.dtype
    autocast: torch.dtype | None
    shard: tuple[int, int] = (0, 1)
    scale: int = 1

    def part(self, samples: int) -> range:
        """Return the indices of this rank's samples, of `samples` times `scale`; refuse unequal parts."""
        rank, world = self.shard
        total = samples * self.scale
        if not 0 <= rank < world or total % world:
            raise Refusal(f"shard {rank} of {world}: {total} samples split into equal parts, with ranks from 0")
        share = total // world
        return range(rank * share, (rank + 1) * share)

    def share(self, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's part of a tensor of the global batch (samples times `scale`, ...); floating numbers in `dtype`."""
        part = self.part(len(whole) // self.scale)
        mine = whole[part.start : part.stop]
        return mine.to(self.dtype) if mine.is_floating_point() else mine


class Job(ABC):
    """A built workload: `model` with its optimiser and the micro-batches of one step, all on the device.

    Every step runs the same micro-batches, so each step costs the same.
    """

    def __init__(
        self, recipe: Recipe, model: nn.Module, optimiser: torch.optim.Optimizer, batches: Sequence[Batch]
    ) -> None:
        self.recipe, self.model, self.optimiser = recipe, model, optimiser
        _require_batches(batches)
        self.batches = [{name: tensor.to(recipe.device) for name, tensor in batch.items()} for batch in batches]
        # float16 gradients underflow without it; in other dtypes a disabled scaler passes everything through.
        self.scaler = torch.amp.GradScaler(
            recipe.device.type, init_scale=1024.0, enabled=recipe.autocast is torch.float16
        )
        self._runner: nn.Module = model

    @abstractmethod
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return the output and the mean loss of one micro-batch, calling `model` (it may be wrapped)."""

    def infer(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return what a user of the trained model gets for one micro-batch; `model` is in evaluation mode."""
        return self.evaluate(model, batch)[0]

    def parts(self, prediction: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Return the parts of a prediction that are judged apart, because the large would hide the small."""
        return {"prediction": prediction}

    def recompute(self, mode: str | None) -> None:
        """Turn activation checkpointing off, or on as "reentrant" or "non-reentrant"; for those that take part in `recompute`."""
        raise NotImplementedError

    def closed_form(self, index: int) -> tuple[Any, float]:
        """Return output and loss of a micro-batch in float64 by NumPy, from the model's weights; for the part `closed-form`."""
        raise NotImplementedError

    def differentiate(self, loss: torch.Tensor) -> None:
        """Run backward; a workload whose libraries misbehave in it overrides this."""
        loss.backward()  # type: ignore[no-untyped-call]

    def probe(self) -> tuple[torch.Tensor, float]:
        """Return a scalar of the first micro-batch whose gradient backward gives exactly, and the size of its values.

        By it a job too large for a float64 reference is held against its own finite differences. It is the loss, unless the loss
        differentiates as if its targets stood still.
        """
        loss = self.forward(0)[1]
        return loss, abs(float(loss.detach()))

    @property
    @abstractmethod
    def units(self) -> Units:
        """What one step of this job is worth."""

    def wrap(self, wrapper: Callable[[nn.Module], nn.Module]) -> None:
        """Send forward through `wrapper(model)`, such as DDP; parameter names stay those of `model`."""
        self._runner = wrapper(self.model)

    def forward(self, index: int = 0) -> Evaluation:
        """Return the output and the loss (with its graph) of one micro-batch."""
        with self._autocast(), self._width():
            return self.evaluate(self._runner, self.batches[index])

    def predict(self, index: int = 0) -> torch.Tensor:
        """Return one micro-batch's prediction in evaluation mode, on the CPU; the model goes back to training."""
        self.model.eval()
        try:
            with torch.no_grad(), self._autocast(), self._width():
                return self.infer(self._runner, self.batches[index]).cpu()
        finally:
            self.model.train()

    def step(self) -> torch.Tensor:
        """Train once: all micro-batches, then the optimiser; return the mean loss, detached.

        Nothing waits for the device. With float16 autocast the gradient scaler reads one number from the
        device, as it does for every user.
        """
        self.optimiser.zero_grad(set_to_none=True)
        losses = [loss for _, loss in self._backward()]
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return torch.stack(losses).mean()

    def observe(self) -> StepResult:
        """Run forward and backward once, without the optimiser; return all that a reference has."""
        self.optimiser.zero_grad(set_to_none=True)
        outputs, losses = zip(*self._backward(), strict=True)
        scale = self.scaler.get_scale()
        named = [(name, parameter.grad) for name, parameter in self.model.named_parameters()]
        gradients = {name: (gradient / scale).cpu() for name, gradient in named if gradient is not None}
        self.optimiser.zero_grad(set_to_none=True)
        floating = {name: tensor for name, tensor in self.model.named_buffers() if tensor.is_floating_point()}
        buffers = {name: tensor.detach().cpu().clone() for name, tensor in floating.items()}
        return StepResult(torch.cat(outputs).cpu(), torch.stack(losses).mean().cpu(), gradients, buffers)

    def _backward(self) -> Iterator[Evaluation]:
        """Accumulate the mean loss's gradient; yield each micro-batch's output and loss, detached."""
        count = len(self.batches)
        for index in range(count):
            with self._communication(last=index == count - 1):
                output, loss = self.forward(index)
                self.differentiate(self.scaler.scale(loss / count))
            yield output.detach(), loss.detach()

    def _autocast(self) -> AbstractContextManager[Any]:
        chosen = self.recipe.autocast
        return nullcontext() if chosen is None else torch.autocast(self.recipe.device.type, dtype=chosen)

    def _width(self) -> AbstractContextManager[Any]:
        return widened() if self.recipe.dtype is torch.float64 else nullcontext()

    def _communication(self, *, last: bool) -> AbstractContextManager[Any]:
        """Let ranks exchange gradients with the last micro-batch only, where the wrapper can wait."""
        no_sync = getattr(self._runner, "no_sync", None)
        return nullcontext() if last or no_sync is None else no_sync()


class Workload(ABC):
    """A named recipe for jobs; subclasses say how one is put together."""

    name: str
    origin = places.table("workloads.toml")
    """Where people look when it was skipped: the table of ours, or the file of a project."""

    @property
    def offer(self) -> Offer:
        """What it takes part in and needs; a workload of a project says `offer = Offer(...)`, or nothing for the usual."""
        return offers.ours().get(self.name, Offer())

    def precision(self, preset: Preset) -> tuple[torch.dtype, torch.dtype | None]:  # noqa: ARG002 - the plain answer
        """Return the dtype and the autocast dtype that this preset is trained in unless one is asked for."""
        return torch.float32, None

    def accumulation(self, preset: Preset) -> int:  # noqa: ARG002 - the plain answer
        """Return over how many equal micro-batches a step accumulates."""
        return 1

    @abstractmethod
    def assemble(self, recipe: Recipe) -> Job:
        """Put a job together; may use torch's global generator, whose state the caller keeps."""

    def build(
        self,
        device: torch.device,
        preset: Preset,
        seed: int,
        dtype: torch.dtype | None = None,
        autocast: torch.dtype | None = None,
        shard: tuple[int, int] = (0, 1),
        scale: int = 1,
    ) -> Job:
        """Build on `device`; without `dtype` and `autocast` in the preset's own precision. Random state stays as it was.

        Raises:
            Refusal: a needed package is missing, the preset is unknown, or the batch cannot be split into equal shards.
        """
        if reason := self.missing():
            raise Refusal(reason)
        if preset not in ("tiny", "full"):
            raise Refusal(f"{self.name}: no preset '{preset}'; there are: tiny, full")
        if dtype is None and autocast is None:
            dtype, autocast = self.precision(preset)
        recipe = Recipe(torch.device(device), preset, seed, dtype or torch.float32, autocast, shard, scale)
        with torch.random.fork_rng(devices=[]):  # no accelerator's generator is touched; torch.manual_seed would
            torch.default_generator.manual_seed(seed)
            return self.assemble(recipe)

    def reference(self, preset: Preset, seed: int, shard: tuple[int, int] = (0, 1), scale: int = 1) -> StepResult:
        """Return the float64 outcome on the CPU, from the same weights and data."""
        with threads.chosen(preset):
            return self.build(HOST.torch, preset, seed, torch.float64, shard=shard, scale=scale).observe()

    def require(self) -> None:
        """End a check with the rule that says why this environment cannot run it."""
        if reason := self.missing():
            raise CapabilityMissing(f"{self.origin}: {reason}")

    def missing(self) -> str:
        """Return one sentence about the first package that is absent or too old, or nothing; reads metadata only."""
        lack = lacking(self.offer.needs)
        return f"{self.name} {lack}: {self.offer.reason or 'its file says so'}" if lack else ""


def _require_batches(batches: object) -> None:
    if isinstance(batches, (Mapping, torch.Tensor)) or not isinstance(batches, Sequence):
        raise TypeError(f"the batches are of type {type(batches).__name__}; write a list, [{{'images': images}}]")
    for batch in batches:
        if not isinstance(batch, Mapping):
            raise TypeError(f"a batch is of type {type(batch).__name__}; write a mapping, {{'images': images}}")
        for name, item in batch.items():
            if not isinstance(item, torch.Tensor):
                raise TypeError(f"'{name}' of a batch is of type {type(item).__name__}; it must be a tensor")
