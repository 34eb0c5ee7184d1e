"""Statistics of rows, and running ones, whose definitions leave a choice: quantiles, modes, histograms, positions, logarithms of sums.

Where equal numbers leave several answers, what is held is what each of them must give.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from stackproof.operators.arrays import WIDE, Array, Expected
from stackproof.operators.trials import Trial, wide

_FLOATS = (torch.float32, torch.float64)


def positions(values: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    """Return the numbers at the positions of running extremes, and whether none is ahead of its place."""
    for name, accumulate in {"cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}.items():
        at = partial(_at, name, given)
        yield Trial(f"{name}, at its positions", at, Expected(accumulate(values, 1)), dtype)
        ahead = partial(_ahead, name, given)
        yield Trial(f"{name}, positions ahead", ahead, Expected(np.zeros(len(values), dtype=np.int64)), torch.int64)


def _at(name: str, given: torch.Tensor) -> torch.Tensor:
    places: torch.Tensor = getattr(torch, name)(given, 1)[1]
    return torch.gather(given, 1, places)


def _ahead(name: str, given: torch.Tensor) -> torch.Tensor:
    places: torch.Tensor = getattr(torch, name)(given, 1)[1]
    return (places > torch.arange(given.shape[1], device=given.device)).sum(1)


def running_logs(values: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    """Return the logarithm of running sums of powers, of rows that end somewhere."""
    exact = wide(values)
    if dtype not in _FLOATS or not np.isfinite(exact).all():
        return
    found = np.logaddexp.accumulate(exact, 1)
    room = torch.finfo(dtype).eps * (8 + np.sqrt(WIDE(exact.shape[1]))) * (1 + np.abs(found))
    yield Trial("logcumsumexp", partial(torch.logcumsumexp, given, 1), Expected(found, 4.0, room), dtype)


def of_rows(regime: str, values: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    """Return quantiles between neighbours, how often the commonest number occurs, and counts of bins with their last edge."""
    exact = wide(values)
    if dtype in _FLOATS and np.isfinite(exact).all() and regime not in ("extreme", "special"):
        for share in (0.3, 0.75):
            found = _quantile(np.sort(exact, 1), float(given.new_tensor(share)))
            room = 16 * torch.finfo(dtype).eps * np.abs(exact).max(1)
            for name in ("quantile", "nanquantile"):
                yield Trial(
                    f"{name}({share})",
                    partial(getattr(torch, name), given, share, 1),
                    Expected(found, 4.0, room),
                    dtype,
                )
    if regime != "ties":
        return
    most = np.array([np.unique(row, return_counts=True)[1].max() for row in values])
    yield Trial("mode, how often", partial(_how_often, given), Expected(most), torch.int64)
    if dtype in _FLOATS:
        counts, _ = np.histogram(values, 6, (0.0, 6.0))
        yield Trial("histc", partial(torch.histc, given, 6, 0, 6), Expected(counts.astype(WIDE)), dtype)


def _quantile(rising: Array, share: float) -> Array:
    place = share * (rising.shape[1] - 1)
    low = int(place)
    near = rising[:, low + 1] if low + 1 < rising.shape[1] else rising[:, low]
    return np.asarray(rising[:, low] + (near - rising[:, low]) * WIDE(place - low))


def _how_often(given: torch.Tensor) -> torch.Tensor:
    return (given == torch.mode(given, 1)[0][:, None]).sum(1)
