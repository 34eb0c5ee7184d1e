"""The optimiser's step alone, over the parameters and gradients of a real job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from stackproof.operators import forms
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job
from stackproof.workloads.training import SEED
from stackproof.workloads.work import OfWorkload, Setting, Work

_ULPS = 4.0
_SHARE = 3e-5
"""Of a change's terms: CUDA's fused kernels take 1 - beta from beta in float32, 1.3e-5 off with a beta of 0.999."""

State = dict[str, Any]


class OptimiserStep(Work):
    """One step of a job's own optimiser; gradients stay what one backward gave."""

    dtype = "float32"

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        workload = get(setting.parameters.row(OfWorkload).workload)
        if reason := workload.missing():
            raise CapabilityMissing(f"data/workloads.toml: {reason}")
        self.job: Job = workload.build(setting.device.torch, "tiny" if setting.preset == "tiny" else "full", SEED)
        self.job.differentiate(self.job.forward(0)[1])
        self.optimiser = self.job.optimiser
        self._runs = 0

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What a step changes."""
        return [one for group in self.optimiser.param_groups for one in group["params"] if one.grad is not None]

    @property
    def worth(self) -> Mapping[str, float]:
        """One step; how many parameters it changes stands among its facts."""
        return {"iteration": 1.0}

    def run(self) -> None:
        """Take one step."""
        self.optimiser.step()
        self._runs += 1

    def prove(self) -> str:
        """Hold a first and a second step's parameters and state against the closed form in float64: every number."""
        worst = max(self._stepped(), self._stepped())
        count = sum(parameter.numel() for parameter in self.parameters)
        return f"all {count} parameters and their state after two steps, {worst:.1%} of what rounding may do"

    def verify(self) -> None:
        """As many steps were taken as were asked for, where the optimiser counts them."""
        counted = {float(state["step"]) for state in self.optimiser.state.values() if "step" in state}
        require(
            counted <= {float(self._runs)},
            f"{self._runs} steps were asked for, and the optimiser counted {sorted(counted)}",
        )

    def again(self) -> None:
        """Count the steps, and hold one more against the closed form."""
        self.verify()
        self._stepped()

    def conclude(self) -> Mapping[str, Figure]:
        """Look once more; say how many parameters a step changes."""
        if self._runs:
            self.again()
        return {"parameters": sum(parameter.numel() for parameter in self.parameters)}

    def _stepped(self) -> float:
        """Take a step and return how much of the bound its worst number takes."""
        before = [self._state(parameter) for parameter in self.parameters]
        self.run()
        return max(self._judged(parameter, kept) for parameter, kept in zip(self.parameters, before, strict=True))

    def _state(self, parameter: torch.Tensor) -> State:
        """Return a parameter and what the optimiser keeps of it, on the host in float64."""
        kept = {
            name: value for name, value in self.optimiser.state.get(parameter, {}).items() if torch.is_tensor(value)
        }
        return {name: _wide(value) for name, value in {"parameter": parameter, **kept}.items()}

    def _judged(self, parameter: torch.Tensor, before: State) -> float:
        (options,) = [
            group for group in self.optimiser.param_groups if any(one is parameter for one in group["params"])
        ]
        name = type(self.optimiser).__name__
        exact, sizes = forms.STEPS[name](before, _wide(parameter.grad), options)
        after = self._state(parameter)
        require(
            after.keys() == exact.keys(), f"{name} keeps {', '.join(sorted(after))}, not {', '.join(sorted(exact))}"
        )
        shares = {what: _share(after[what], exact[what], sizes[what], before.get(what, 0.0)) for what in exact}
        worst = max(shares, key=lambda what: shares[what])
        require(
            shares[worst] <= 1,
            f"a step of {name}: the {worst} is {shares[worst]:.3g} times what rounding may do from the closed form",
        )
        return shares[worst]


def _share(found: Any, exact: Any, size: Any, before: Any) -> float:
    """Return how much of its bound the worst number takes: some ulp of its terms, and a share of its change."""
    bound = _ULPS * torch.finfo(torch.float32).eps * size + _SHARE * np.abs(exact - before) + np.finfo(np.float32).tiny
    return float((np.abs(found - exact) / bound).max())


def _wide(tensor: Any) -> Any:
    return tensor.detach().cpu().double().numpy().copy()


KINDS = {"optimiser": OptimiserStep}
