"""Blocks of steps from the same start, held against untimed replays of the block; how far two replays are apart is the noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch

from stackproof.record.checks import require
from stackproof.workloads.base import Job
from stackproof.workloads.gradients import AGAIN, apart
from stackproof.workloads.updates import Update
from stackproof.workloads.work import Work

_FEW = 3
"""The closed form is asked for so many small parameters in each replayed step."""
_NOISES = 5.0
_MOST_NOISE = 2 * AGAIN
_SHARE = 0.05
"""Of one run of a block: so far may its end be from the replay's, beside the noise."""

Tensors = Mapping[str, torch.Tensor]


class ReplayedSteps(Work):
    """Steps of a job's optimiser. The first ends a proof; what it left is where every block begins."""

    job: Job
    most_runs = 16

    @abstractmethod
    def to_first_step(self) -> None:
        """Take a step from where the job was built."""

    def _changing(self) -> dict[str, torch.Tensor]:
        """Return all that a step changes: parameters, floating buffers, and what the optimiser keeps."""
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
        return _copies(self._changing())

    @cached_property
    def _replays(self) -> dict[int, tuple[dict[str, Tensors], dict[str, float]]]:
        return {}

    def begin(self, runs: int) -> None:  # noqa: ARG002 - the same start for any number
        """Go back to what the first step left."""
        start = self._start
        with torch.no_grad():
            for name, tensor in self._changing().items():
                tensor.copy_(start[name])

    def verify(self, runs: int) -> None:
        """Hold the end of a block against a replay's, as one vector of what changed."""
        end = self._ends()
        if runs not in self._replays:
            known, again = self._replayed(runs), self._replayed(runs)
            self._replays[runs] = known, {group: apart(again[group], known[group]) for group in known}
        known, noise = self._replays[runs]
        worst = max(noise.values())
        shows = (_NOISES * worst + _SHARE / runs) * runs
        self.facts = {**self.facts, "distance of two replays": worst, "runs that are left out and show, from": shows}
        require(
            worst <= _MOST_NOISE,
            f"two replays of {runs} steps end {worst:.2g} of their way apart, {_MOST_NOISE} are allowed",
        )
        for group, moved in known.items():
            require(group in end, f"{runs} timed steps left the {group} as they were")
            far, allowed = apart(end[group], moved), _NOISES * noise[group] + _SHARE / runs
            require(
                far <= allowed,
                f"{runs} timed steps left {group} {far:.2g} of their way from where an untimed replay did, {allowed:.2g} are allowed: "
                "a step was left out, cut short, or done otherwise",
            )

    def _ends(self) -> dict[str, Tensors]:
        """Return how far parameters and buffers are from the start, those that moved."""
        found: dict[str, dict[str, torch.Tensor]] = {"parameters": {}, "buffers": {}}
        for name, one in self._changing().items():
            if (group := f"{name.split()[0]}s") in found:
                found[group][name] = one.detach().float() - self._start[name].float()
        return {group: moved for group, moved in found.items() if any(bool(one.any()) for one in moved.values())}

    def _replayed(self, runs: int) -> dict[str, Tensors]:
        """Take the steps of a block again, and hold each against the closed form of the optimiser."""
        self.begin(runs)
        for _ in range(runs):
            update = Update(self.job.optimiser, self._smallest)
            self.run()
            update.share()
        return self._ends()

    @cached_property
    def _smallest(self) -> list[torch.Tensor]:
        """A few small parameters that move, so that a check costs little beside the step."""
        moved = (one for one in self._parameters if one.grad is not None and bool(one.grad.any()))
        return sorted(moved, key=torch.Tensor.numel)[:_FEW]


def _copies(tensors: Mapping[str, Any]) -> Tensors:
    return {name: one.detach().clone() for name, one in tensors.items()}
