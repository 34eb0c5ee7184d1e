"""A training step as the users run it: the same jobs that the suites verify, proved before they are timed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from ..checks import CapabilityMissing, require
from ..records import Figure
from .base import Job, Preset
from .proving import against_float64, against_itself
from .work import Setting, Work, name_of

SEED = 7


class Training(Work):
    """Forward, backward and optimiser of one step: all micro-batches of a job."""

    def __init__(self, setting: Setting) -> None:
        from . import get

        with setting.parameters as row:
            self.workload = get(row.take("workload", str))
        if reason := self.workload.missing():
            raise CapabilityMissing(f"fixtures/workloads.toml: {reason}")
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
