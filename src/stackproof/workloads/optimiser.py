"""The optimiser's step alone, over the parameters and gradients of a real job."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from stackproof.device.numerics import judge
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job, Setting, Work
from stackproof.workloads.training import SEED

Tensors = list[torch.Tensor]


class OptimiserStep(Work):
    """One step of a job's own optimiser; gradients stay what one backward gave."""

    dtype = "float32"

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        with setting.parameters as row:
            workload = get(row.take("workload", str))
        if reason := workload.missing():
            raise CapabilityMissing(f"data/workloads.toml: {reason}")
        self.job: Job = workload.build(setting.device.torch, "tiny" if setting.preset == "tiny" else "full", SEED)
        self.job.differentiate(self.job.forward(0)[1])
        self.optimiser = self.job.optimiser
        self.parameters = [
            parameter
            for group in self.optimiser.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]

    @property
    def worth(self) -> Mapping[str, float]:
        """One step; how many parameters it changes stands among its facts."""
        return {"iteration": 1.0}

    def conclude(self) -> Mapping[str, Figure]:
        """Say how many parameters a step changes."""
        return {"parameters": sum(parameter.numel() for parameter in self.parameters)}

    def prove(self) -> str:
        """Hold the change of all parameters by one step against the same optimiser in float64 on the CPU."""
        exact, own = (self._changed(self._copies(dtype)) for dtype in (torch.float64, torch.float32))
        before = [parameter.detach().clone() for parameter in self.parameters]
        self.optimiser.step()
        pairs = zip(self.parameters, before, strict=True)
        actual = _joined([(parameter.detach() - kept) for parameter, kept in pairs])
        judgement = judge(actual, exact, own, torch.float32)
        require(judgement.ok, judgement.sentence("one step's change of all parameters"))
        return f"change of {actual.numel()} parameters, error {judgement.error:.1e} of {judgement.bound:.1e} allowed"

    def _copies(self, dtype: torch.dtype) -> Tensors:
        """Return parameters with their gradients on the CPU."""
        copies = []
        for parameter in self.parameters:
            assert parameter.grad is not None
            copy = parameter.detach().cpu().to(dtype).clone().requires_grad_()
            copy.grad = parameter.grad.detach().cpu().to(dtype)
            copies.append(copy)
        return copies

    def _changed(self, copies: Tensors) -> torch.Tensor:
        """Return by how much one step changes the copies, as one vector in float64."""
        kind: Any = type(self.optimiser)
        before = [copy.detach().clone() for copy in copies]
        known = inspect.signature(kind).parameters  # some defaults are set by a base class and cannot be passed
        kind(copies, **{name: value for name, value in self.optimiser.defaults.items() if name in known}).step()
        return _joined([copy.detach() - kept for copy, kept in zip(copies, before, strict=True)])

    def run(self) -> None:
        """Take one step."""
        self.optimiser.step()


def _joined(tensors: Tensors) -> torch.Tensor:
    return torch.cat([tensor.double().cpu().flatten() for tensor in tensors])


KINDS = {"optimiser": OptimiserStep}
