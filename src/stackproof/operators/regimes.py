"""The numbers of each regime, by dtype: what uniformly drawn samples never hold, and what kernels go wrong on.

A regime that has no numbers of a dtype (whole numbers that are subnormal) gives none; 4099 of them end in a vector kernel's tail.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import torch

from stackproof.operators.arrays import WIDE, Array, rounded, stored

COUNT = 4099
Make = Callable[["np.random.Generator", torch.dtype, int], "Array | None"]


def numbers(regime: str, dtype: torch.dtype, count: int = COUNT, salt: str = "") -> Array | None:
    """Return numbers of the dtype in a regime, the same in every run; None where it has none of the dtype."""
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(f"{regime} {salt}".encode())))
    found = REGIMES[regime](generator, dtype, count)
    if found is None:
        return None
    whole = found if found.dtype == stored(dtype) and dtype is not torch.bfloat16 else rounded(found, dtype)
    return whole.reshape(-1)[:count]


def _ordinary(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if dtype is torch.bool:
        return draw.integers(0, 2, count).astype(np.bool_)
    if dtype.is_floating_point:
        return draw.standard_normal(count) * 3
    return draw.integers(0 if dtype is torch.uint8 else -100, 100, count).astype(stored(dtype))


def _signed(draw: np.random.Generator, sizes: Array) -> Array:
    return np.asarray(np.where(draw.integers(0, 2, sizes.shape) == 1, sizes, -sizes))


def _near_zero(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if not dtype.is_floating_point:
        return None
    low = max(3 * np.log10(torch.finfo(dtype).eps), np.log10(torch.finfo(dtype).tiny))
    return _signed(draw, 10 ** draw.uniform(low, -1.5, count))


def _subnormal(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if not dtype.is_floating_point:
        return None
    info = torch.finfo(dtype)
    steps = np.exp(draw.uniform(0, np.log(1 / info.eps), count)).astype(np.int64)
    return _signed(draw, (steps.astype(WIDE) * (WIDE(info.tiny) * WIDE(info.eps))))


def _extreme(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if dtype is torch.bool:
        return None
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, info.max // 2, info.min // 2])
        return edges.astype(stored(dtype))[draw.integers(0, len(edges), count)]
    low, high = np.log2(WIDE(torch.finfo(dtype).tiny)), np.log2(WIDE(torch.finfo(dtype).max))
    found = _signed(draw, np.exp2(draw.uniform(float(low), float(high), count).astype(WIDE)))
    found[:4] = [torch.finfo(dtype).max, torch.finfo(dtype).min, torch.finfo(dtype).tiny, -torch.finfo(dtype).tiny]
    return found


def _special(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if not dtype.is_floating_point:
        return None
    odd = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 40.0])
    return odd[draw.integers(0, len(odd), count)]


def _zeros(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if not dtype.is_floating_point:
        return None
    return np.array([0.0, -0.0, 0.0, -0.0, 1.0, -1.0])[draw.integers(0, 6, count)]


def _ties(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if dtype is torch.bool:
        return _ordinary(draw, dtype, count)
    found: Array = draw.integers(0, 7, count).astype(stored(dtype))
    return found


def _halves(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if not dtype.is_floating_point:
        return None
    return draw.integers(-60, 60, count) + 0.5


def _offset(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if not dtype.is_floating_point:
        return None
    eps = torch.finfo(dtype).eps
    return np.asarray(1.0 / eps**0.5 * 2 + draw.standard_normal(count))


def _large_whole(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    """Whole numbers that float32 (beyond 2^24) and float64 (beyond 2^53) cannot hold; odd ones, whose last bit is lost."""
    if dtype not in (torch.int32, torch.int64):
        return None
    powers = (25, 28, 30) if dtype is torch.int32 else (25, 31, 40, 54, 60)
    base = np.array([1 << power for power in powers])[draw.integers(0, len(powers), count)]
    return _signed(draw, base + 2 * draw.integers(0, 500, count) + 1).astype(stored(dtype))


def _signs(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if dtype is torch.bool:
        return None
    low = 1 if dtype is torch.uint8 else -9
    found = draw.integers(low, 10, count)
    return np.where(found == 0, 7, found).astype(stored(dtype))


def _long(draw: np.random.Generator, dtype: torch.dtype, count: int) -> Array | None:
    if dtype is torch.bool:
        return draw.integers(0, 2, count).astype(np.bool_)
    if dtype.is_floating_point:
        return draw.random(count, dtype=np.float32)
    return draw.integers(0, 100, count).astype(stored(dtype))


REGIMES: dict[str, Make] = {
    "ordinary": _ordinary,
    "near zero": _near_zero,
    "subnormal": _subnormal,
    "extreme": _extreme,
    "special": _special,
    "signed zeros": _zeros,
    "ties": _ties,
    "halves": _halves,
    "large offset": _offset,
    "large whole": _large_whole,
    "signs": _signs,
    "long": _long,
}
