"""Numbers that are drawn, and results each of whose numbers is held against its own bound."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from stackproof.operators.arrays import Array
from stackproof.record.checks import require
from stackproof.record.records import Figure
from suites.common import SEED

EPS = 1e-5
"""What norms add to a variance."""


def drawn(shape: tuple[int, ...], dtype: torch.dtype, size: float, turn: int) -> tuple[torch.Tensor, Array]:
    """Return normal numbers of a dtype, and the same ones in float64; each turn draws others."""
    found = torch.from_numpy(np.random.default_rng((SEED, turn)).standard_normal(shape, np.float32) * np.float32(size))
    return found.to(dtype), found.to(dtype).double().numpy()


def rounding(count: int, dtype: torch.dtype) -> float:
    """Return the relative error of a result of so many summands: their sum in float32, and its rounding."""
    single = torch.finfo(torch.float32).eps
    return 4 * single * (4 + math.log2(count) + math.sqrt(count) / 16) + torch.finfo(dtype).eps


def hold(
    name: str, got: Mapping[str, torch.Tensor], wanted: Mapping[str, tuple[Array, Array]], figures: dict[str, Figure]
) -> None:
    """Hold each number of each result against the expected one and its own bound."""
    worst, numbers = 0.0, 0
    for what, (expected, allowed) in wanted.items():
        found = got[what].detach().cpu().double().numpy()
        require(found.shape == expected.shape, f"{name}: {what}: {found.shape} numbers, {expected.shape} were expected")
        with np.errstate(all="ignore"):
            off = np.where(found == expected, 0.0, np.abs(found - expected) / allowed)
        place = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        figures[what] = most = float(off.flat[place])
        require(
            most <= 1,
            f"{name}: of the {what} number {place} is {found.flat[place]:.6g}, {expected.flat[place]:.6g} was expected",
        )
        worst, numbers = max(worst, most), numbers + expected.size
    figures["summary"] = f"{numbers} numbers of {len(wanted)} results, the worst at {worst:.2f} of its bound"


def normed(exact: Array, slope: Array, centred: bool) -> tuple[Array, Array]:
    """Return the normalised rows, and the gradient of their input (Ba et al., 2016; Zhang and Sennrich, 2019)."""
    away = exact - exact.mean(1, keepdims=True) if centred else exact
    deviation = np.sqrt((away * away).mean(1, keepdims=True) + EPS)
    normal = away / deviation
    along = (slope * normal).mean(1, keepdims=True) * normal
    middle = slope.mean(1, keepdims=True) if centred else 0.0
    return normal, (slope - middle - along) / deviation


def column_sums(terms: Array, kind: torch.dtype) -> tuple[Array, Array]:
    """Return the sums of columns, and what they may be off by: each term is rounded a few times, and the sum is one of float32."""
    total, size = terms.sum(0), torch.finfo(kind).eps * np.sqrt((terms * terms).sum(0))
    return total, 8 * size + rounding(len(terms), torch.float32) * np.abs(terms).sum(0) + 2 * torch.finfo(
        kind
    ).eps * np.abs(total)
