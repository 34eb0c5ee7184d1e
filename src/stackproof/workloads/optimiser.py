"""The optimiser's step alone, over the parameters and gradients of a real job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch

from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job
from stackproof.workloads.training import SEED
from stackproof.workloads.updates import Update
from stackproof.workloads.work import OfWorkload, Setting, Work

_FEW = 3
"""So many parameters tell whether a step was taken."""


class OptimiserStep(Work):
    """One step of a job's own optimiser; gradients stay what one backward gave."""

    dtype = "float32"

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        workload = get(setting.parameters.row(OfWorkload).workload)
        workload.require()
        self.job: Job = workload.build(setting.device.torch, "tiny" if setting.preset == "tiny" else "full", SEED)
        self.job.differentiate(self.job.forward(0)[1])
        self.optimiser = self.job.optimiser
        self._runs = 0
        self._gradients = [one.grad.cpu().clone() for one in self.parameters if one.grad is not None]

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

    def begin_spot_check(self) -> bool:
        """Keep the smallest parameters and their state: a step that is left out shows in each."""
        self._marked = Update(self.optimiser, self._smallest)
        return True

    def end_spot_check(self) -> None:
        """Compare them with the closed form."""
        self._marked.share()

    @cached_property
    def _smallest(self) -> list[torch.Tensor]:
        """A few small parameters that move, so that a check costs little beside the step."""
        moved = (one for one in self.parameters if one.grad is not None and bool(one.grad.any()))
        return sorted(moved, key=torch.Tensor.numel)[:_FEW]

    def conclude(self) -> Mapping[str, Figure]:
        """Count the steps, and hold one more against the closed form; say how many parameters a step changes."""
        if self._runs:
            self.verify()
            self._stepped()
        return {"parameters": sum(parameter.numel() for parameter in self.parameters)}

    def _stepped(self) -> float:
        """Take a step and return how much of the bound the worst number takes."""
        update = Update(self.optimiser)
        self.run()
        given = [one.grad for one in self.parameters if one.grad is not None]
        same = len(given) == len(self._gradients) and all(
            torch.equal(one.cpu(), kept) for one, kept in zip(given, self._gradients, strict=True)
        )
        require(same, f"a step of {update.name} changed the gradients that it was given")
        return update.share()


KINDS = {"optimiser": OptimiserStep}
