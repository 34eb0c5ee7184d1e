"""Numbers between NumPy and torch by their bits, and results held against NumPy's, number by number.

A reference that torch computes in float64 shares torch's code. Here expectations come from NumPy, Python's whole numbers and the C
library's long double; torch only carries bits in and out. bfloat16, which NumPy lacks, is float32 whose lower half is zero.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

Array: TypeAlias = "np.ndarray[Any, Any]"

WIDE = np.longdouble
"""64 bits of mantissa on x86, 113 on others; where a compiler has neither it is float64, and float64 is judged by its own rounding."""

_STORED: dict[torch.dtype, Any] = {
    torch.float64: np.float64,
    torch.float32: np.float32,
    torch.float16: np.float16,
    torch.bfloat16: np.float32,
    torch.int8: np.int8,
    torch.int16: np.int16,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.uint8: np.uint8,
    torch.bool: np.bool_,
}


def stored(dtype: torch.dtype) -> Any:
    """Return the NumPy type that holds numbers of the dtype."""
    return _STORED[dtype]


def rounded(values: Any, dtype: torch.dtype) -> Array:
    """Return the values as numbers of the dtype: to nearest, ties to even, without torch."""
    with np.errstate(all="ignore"):
        made = np.asarray(values).astype(_STORED[dtype])
    if dtype is not torch.bfloat16:
        return made
    bits = np.ascontiguousarray(made).view(np.uint32).astype(np.uint64)
    short = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(made), np.float32(np.nan), short.reshape(made.shape)).astype(np.float32)


def tensor(values: Array, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the tensor with these bits; the values are numbers of the dtype already."""
    held = np.ascontiguousarray(values, dtype=_STORED[dtype])
    if dtype is torch.bfloat16:
        halves = (held.view(np.uint32) >> 16).astype(np.uint16).view(np.int16).copy()
        return torch.from_numpy(halves).view(torch.bfloat16).reshape(values.shape).to(device)
    return torch.from_numpy(held.copy()).reshape(values.shape).to(device)


def array(value: torch.Tensor) -> Array:
    """Return the tensor's bits as NumPy's numbers."""
    plain = value.detach().resolve_neg().cpu().contiguous()
    if plain.dtype is torch.bfloat16:
        halves: Array = plain.reshape(-1).view(torch.int16).numpy()
        wide: Array = (halves.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        return wide.reshape(tuple(value.shape))
    found: Array = plain.numpy()
    return found


def ulp(values: Array, dtype: torch.dtype) -> Array:
    """Return the distance between neighbours of the dtype at each value; at the least that of the smallest normal number."""
    info = torch.finfo(dtype)
    with np.errstate(all="ignore"):
        size = np.clip(
            np.abs(np.nan_to_num(values.astype(WIDE), posinf=info.max, neginf=info.max)), info.tiny, info.max
        )
        _, exponent = np.frexp(size)
        return np.asarray(np.ldexp(WIDE(info.eps), exponent - 1))


@dataclass(frozen=True)
class Expected:
    """What a result has to be.

    `ulps`: how many units in the last place each number may be off. `slack`: what else it may be off by, absolutely, for all or each.
    `zero_sign`: whether a zero's sign is part of the result.
    """

    values: Array
    ulps: float = 0.0
    slack: Any = 0.0
    zero_sign: bool = False


def fault(got: torch.Tensor, expected: Expected, dtype: torch.dtype) -> str:
    """Say what is wrong with a result of the dtype, with the first number that is; empty if nothing is."""
    if tuple(got.shape) != expected.values.shape:
        return f"shape {tuple(got.shape)} instead of {expected.values.shape}"
    if got.dtype is not dtype:
        return f"{got.dtype} instead of {dtype}"
    found = array(got)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bad = _wrong_floats(found, expected, dtype) if dtype.is_floating_point else found != expected.values
    if not bad.any():
        return ""
    place = int(np.flatnonzero(bad.reshape(-1))[0])
    pair = found.reshape(-1)[place], expected.values.reshape(-1)[place]
    return f"number {place} is {_said(pair[0])} instead of {_said(pair[1])} ({int(bad.sum())} of {bad.size} are wrong)"


def _said(value: Any) -> str:
    return repr(float(value)) if isinstance(value, np.floating) else str(value)


def _wrong_floats(found: Array, expected: Expected, dtype: torch.dtype) -> Array:
    """Return where numbers differ by more than they may; infinity is right where rounding ends there."""
    info, wanted = torch.finfo(dtype), expected.values.astype(WIDE)
    unit = ulp(wanted, dtype)
    room = WIDE(expected.ulps) * unit + np.asarray(expected.slack, dtype=WIDE)
    top = WIDE(info.max)
    beyond = np.abs(wanted) > top + unit / 2  # rounds to infinity
    near = np.abs(wanted) + room > top
    lost = np.isnan(wanted)
    infinite = np.where(beyond, np.copysign(WIDE(np.inf), wanted), wanted)
    apart = np.abs(found.astype(WIDE) - wanted) > room
    same = found.astype(WIDE) == infinite
    edge = near & np.isinf(found) & (np.sign(found) == np.sign(wanted))
    wrong = np.where(lost, ~np.isnan(found), ~(same | edge | (~apart & np.isfinite(found) & np.isfinite(wanted))))
    if expected.zero_sign:
        wrong = wrong | ((wanted == 0) & (np.signbit(found) != np.signbit(wanted)))
    return np.asarray(wrong)
