"""Gradients that are zero in exact arithmetic: a bias before a normalisation, or of attention's keys, moves nothing.

What a computer finds there is rounding, which has no relative error; what it may be is a share of the other gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from stackproof.workloads.base import StepResult

_NOTHING = 1e-9
"""Of the size of all gradients: in float64 rounding leaves less, and no gradient that trains anything is as small."""


def vanishing(exact: StepResult) -> frozenset[str]:
    """Return the parameters whose gradient in float64 is rounding."""
    typical = _typical(exact)
    return frozenset(name for name, one in exact.gradients.items() if _size(one) <= _NOTHING * typical)


def lifted(outcome: StepResult, exact: StepResult) -> StepResult:
    """Return an outcome in which what vanishes stands on top of a gradient of usual size, so that its errors are relative to that."""
    return StepResult(outcome.output, outcome.loss, on_top(outcome.gradients, exact))


def on_top(gradients: Mapping[str, torch.Tensor], exact: StepResult) -> dict[str, torch.Tensor]:
    """Return gradients of which those that vanish in `exact` stand on top of the usual size of its gradients."""
    return Lift.of(exact).on_top(gradients)


@dataclass(frozen=True)
class Lift:
    """Which gradients vanish, and the usual size of the others: found once, for all that is held against the same reference."""

    gone: frozenset[str]
    typical: float

    @classmethod
    def of(cls, exact: StepResult) -> Lift:
        """Look through the gradients in float64."""
        gone = vanishing(exact)
        return cls(gone, _typical(exact) if gone else 0.0)

    def on_top(self, gradients: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the gradients, with those that vanish on top of the usual size."""
        return {name: one.double() + self.typical if name in self.gone else one for name, one in gradients.items()}


def _typical(exact: StepResult) -> float:
    """Return the root mean square of all gradients."""
    count = sum(one.numel() for one in exact.gradients.values())
    return math.sqrt(sum(float(one.double().square().sum()) for one in exact.gradients.values()) / max(1, count))


def _size(gradient: torch.Tensor) -> float:
    return float(gradient.double().square().mean().sqrt())


def living(found: Mapping[str, torch.Tensor], exact: StepResult) -> dict[str, torch.Tensor]:
    """Return what stands by name without the parameters whose gradient vanishes: those need not move."""
    gone = vanishing(exact)
    return {name: one for name, one in found.items() if name not in gone}
