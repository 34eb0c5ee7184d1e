"""Results and gradients against definitions in NumPy.

A gradient is held against what the definition itself changes by, moved along random signs, so that nobody has to write it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from stackproof.operators.arrays import Array
from stackproof.record.checks import require

ALLOWED = {torch.float64: 1e-12, torch.float32: 1e-5}
_SLOPES = {torch.float64: 1e-6, torch.float32: 1e-4}
_STEP, _DRAWS = 1e-5, 3

_KINDS: Mapping[str, Callable[[np.random.Generator, Any], Any]] = {
    "numbers": lambda draw, shape: draw.standard_normal(shape),
    "fixed": lambda draw, shape: draw.standard_normal(shape),
    "positive": lambda draw, shape: draw.uniform(0.5, 2.0, shape),
    "weights": lambda draw, shape: draw.uniform(0.5, 2.0, shape),
    "shares": lambda draw, shape: draw.uniform(0.05, 0.95, shape),
    "odds": lambda draw, shape: draw.uniform(0.05, 0.95, shape),
    "signs": lambda draw, shape: draw.choice((-1.0, 1.0), shape),
}


@dataclass(frozen=True)
class Argument:
    """One argument: what its numbers are, how many, and for whole ones what they are below."""

    kind: str
    shape: tuple[int, ...]
    below: int = 0

    def draw(self, seed: int) -> Array:
        """Return numbers that float32 holds exactly."""
        draw = np.random.default_rng(seed)
        if self.kind == "classes":
            return draw.integers(0, self.below, self.shape)
        if self.kind == "truths":
            found = draw.random(self.shape) < 0.6
            found[..., 0] = True  # no row of a mask hides everything
            return found
        return np.asarray(np.float32(_KINDS[self.kind](draw, self.shape)), dtype=np.float64)


def slopes(weighed: Callable[[Array], float], values: Array, still: int | None = None) -> Iterator[tuple[Array, float]]:
    """Yield directions of random signs, and by how much what is `weighed` changes along each; row `still` is not moved."""
    for draw in range(_DRAWS):
        way = np.random.default_rng(draw).choice((-1.0, 1.0), values.shape)
        if still is not None:
            way[still] = 0
        ends = [weighed(values + sign * _STEP * way) for sign in (1, -1)]
        yield way, (ends[0] - ends[1]) / (2 * _STEP)


def near(found: torch.Tensor, exact: Array, allowed: float, what: str) -> float:
    """Hold a result against its definition; return its share of what is allowed."""
    actual = _array(found)
    require(actual.shape == exact.shape, f"{what} has shape {actual.shape}, not {exact.shape}")
    off = float(np.linalg.norm(actual - exact)) / max(float(np.linalg.norm(exact)), 1e-300)
    require(off <= allowed, f"{what} is {off:.2g} from its definition, {allowed} is allowed")
    return off / allowed


def sloped(gradient: torch.Tensor, wanted: tuple[tuple[Array, float], ...], still: int | None, what: str) -> float:
    """Hold a gradient against directions and by how much the definition changes along each; return the share of what is allowed."""
    seen, allowed, worst = _array(gradient), _SLOPES[gradient.dtype], 0.0
    require(still is None or not seen[still].any(), f"{what} has a gradient in row {still}, which takes none")
    size = max(float(np.linalg.norm(seen)), 1e-12)
    for way, change in wanted:
        off = abs(float((seen * way).sum()) - change) / size
        require(
            off <= allowed, f"{what}'s gradient is {off:.2g} from what the definition changes by, {allowed} is allowed"
        )
        worst = max(worst, off / allowed)
    return worst


def _array(tensor: torch.Tensor) -> Array:
    found: Array = tensor.detach().cpu().double().numpy()
    return found
