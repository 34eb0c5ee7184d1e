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
        with np.errstate(all="ignore"):
            off = np.abs(found - expected) / allowed
        place = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        figures[what] = most = float(off.flat[place])
        require(
            most <= 1,
            f"{name}: of the {what} number {place} is {found.flat[place]:.6g}, {expected.flat[place]:.6g} was expected",
        )
        worst, numbers = max(worst, most), numbers + expected.size
    figures["summary"] = f"{numbers} numbers of {len(wanted)} results, the worst at {worst:.2f} of its bound"
