"""The optimiser's step alone, over the parameters and gradients of a real job."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from stackproof.record.checks import require
from stackproof.workloads.replays import ReplayedSteps
from stackproof.workloads.training import SEED
from stackproof.workloads.updates import Update
from stackproof.workloads.work import OfWorkload, Setting


class OptimiserStep(ReplayedSteps):
    """One step of a job's own optimiser; gradients stay what one backward gave."""

    dtype = "float32"

    def __init__(self, setting: Setting) -> None:
        from stackproof.workloads.catalogue import get

        workload = get(setting.parameters.row(OfWorkload).workload)
        workload.require()
        self.job = workload.build(setting.device.torch, "tiny" if setting.preset == "tiny" else "full", SEED)
        self.job.differentiate(self.job.forward(0)[1])
        self.optimiser = self.job.optimiser
        self._gradients = [one.grad.clone() for one in self.parameters if one.grad is not None]
        self.facts = {"parameters": sum(parameter.numel() for parameter in self.parameters)}

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What a step changes."""
        return [one for one in self._parameters if one.grad is not None]

    @property
    def worth(self) -> Mapping[str, float]:
        """One step; how many parameters it changes stands among its facts."""
        return {"iteration": 1.0}

    def run(self) -> None:
        """Take one step."""
        self.optimiser.step()

    def to_first_step(self) -> None:
        """Take a step, so that the optimiser keeps what it keeps."""
        self.run()

    def prove(self) -> str:
        """Hold two steps' parameters and state against the closed form in float64: every number."""
        self._stepped()
        self.begin(1)
        worst = self._stepped()
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

    def _stepped(self) -> float:
        """Take a step and return how much of the bound the worst number takes."""
        update = Update(self.optimiser)
        self.run()
        self._require_gradients()
        return update.share()


KINDS = {"optimiser": OptimiserStep}
