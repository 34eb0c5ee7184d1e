"""Gradients in half precision, each parameter for itself: by rows of data from the CPU's own error over seeds, else by that error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch

from stackproof import DATA
from stackproof.base.text import matches
from stackproof.base.toml import Table
from stackproof.device.numerics import MIXED, Judgement, judge, relative_error


@dataclass(frozen=True)
class _Halves:
    bfloat16: float
    float16: float

    def of(self, dtype: torch.dtype) -> float:
        return self.bfloat16 if dtype is torch.bfloat16 else self.float16


@dataclass(frozen=True)
class GradientBounds:
    """Bounds of some workloads' parameters: of the error, and of that part of it which is one factor."""

    workloads: tuple[str, ...]
    parameters: tuple[str, ...]
    error: _Halves
    factor: _Halves
    reason: str


@dataclass(frozen=True)
class _File:
    gradient: tuple[GradientBounds, ...]


@cache
def bounds() -> tuple[GradientBounds, ...]:
    """Load the rows once."""
    return Table.load(DATA / "halves.toml").row(_File).gradient


def row_of(workload: str, parameter: str) -> GradientBounds | None:
    """Return the first row that speaks for a parameter."""
    speaking = (row for row in bounds() if workload in row.workloads and matches(parameter, row.parameters))
    return next(speaking, None)


def judge_each(
    workload: str,
    actual: Mapping[str, torch.Tensor],
    reference: Mapping[str, torch.Tensor],
    anchor: Mapping[str, torch.Tensor],
    dtype: torch.dtype,
) -> dict[str, Judgement]:
    """Compare each parameter's gradient with float64, as a whole and as one factor; all three are by the parameters' names."""
    found: dict[str, Judgement] = {}
    for name, exact in reference.items():
        what, row = f"gradient of {name}", row_of(workload, name)
        if row is None:
            found[what] = judge(actual[name], exact, anchor[name], dtype, MIXED)
            continue
        error, own = relative_error(actual[name], exact), relative_error(anchor[name], exact)
        found[what] = Judgement(error <= row.error.of(dtype), error, row.error.of(dtype), own)
        factor, own = off(actual[name], exact), off(anchor[name], exact)
        found[f"factor of the {what}"] = Judgement(factor <= row.factor.of(dtype), factor, row.factor.of(dtype), own)
    return found


def off(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """Return by how much all numbers together are too large or too small; what is no number is infinitely so."""
    mine, wide = actual.detach().cpu().double().flatten(), reference.detach().cpu().double().flatten()
    found = abs(float(mine @ wide) / float(wide @ wide) - 1)
    return found if found == found else float("inf")
