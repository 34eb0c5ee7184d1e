"""Gradients in half precision, each parameter for itself: by rows of data from the CPU's own error over seeds, else by that error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import torch

from stackproof import DATA
from stackproof.base.text import matches
from stackproof.base.toml import OneOf, Table
from stackproof.device.numerics import MIXED, Judgement, judge, relative_error

_ByDtype = Mapping[Annotated[str, OneOf(("bfloat16", "float16"))], float]


@dataclass(frozen=True)
class GradientBounds:
    """Bounds of some workloads' parameters: of the error, and of that part of it which is one factor."""

    workloads: tuple[str, ...]
    parameters: tuple[str, ...]
    error: _ByDtype
    factor: _ByDtype
    reason: str


@cache
def bounds() -> tuple[GradientBounds, ...]:
    """Load the rows once."""
    with Table.load(DATA / "halves.toml") as table:
        return table.rows("gradient", GradientBounds)


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
        for kind, far, bounds_of in ((what, relative_error, row.error), (f"factor of the {what}", off, row.factor)):
            error, bound = far(actual[name], exact), bounds_of[str(dtype).removeprefix("torch.")]
            found[kind] = Judgement(error <= bound, error, bound, far(anchor[name], exact))
    return found


def off(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """Return by how much all numbers together are too large or too small; what is no number is infinitely so."""
    mine, wide = actual.detach().cpu().double().flatten(), reference.detach().cpu().double().flatten()
    found = abs(float(mine @ wide) / float(wide @ wide) - 1)
    return found if found == found else float("inf")
