"""Casts as they are defined: `to` and `copy_` between all dtypes, to the bit, against bits that NumPy decodes and rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from stackproof.operators.points import COMPLEX, OperatorPoint
from stackproof.operators.relation import Relation, word

_Array: TypeAlias = Any
"""Of NumPy."""
WHAT = "a cast as it is defined"
_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.float8_e4m3fn)
_WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32)
DTYPES = (*_FLOATS, *_WHOLE, *COMPLEX)
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_LENGTH = 1031


def subjects() -> Mapping[str, Callable[..., Any]]:
    """Return what casts; it is outside of the operators that the database lets be asked."""
    return {"to": torch.Tensor.to}


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield casts to every dtype, of numbers that its range holds."""
    source = point.dtype
    bits = _drawn(source, np.random.default_rng(point.draw.randrange(1 << 30)))
    for target in DTYPES:
        fitting = np.resize(bits[_fits(bits, source, target)], (_LENGTH, bits.shape[1]))
        arguments = (torch.from_numpy(fitting).to(point.device),)

        def cast(raw: torch.Tensor, target: torch.dtype = target) -> Any:
            x = raw.view(source)[:, 0]
            ways = {
                "a row": x.contiguous().to(target),
                "a strided row": x.repeat_interleave(2)[::2].to(target),
                "transposed numbers": x[: len(x) // 8 * 8].reshape(8, -1).mT.contiguous().mT.to(target),
                "a copy": torch.zeros(len(x), dtype=target, device=x.device).copy_(x),
                "a copy with gaps": torch.zeros(2 * len(x), dtype=target, device=x.device)[::2].copy_(x),
            }
            return {name: _numbers(_decoded(_raw(out), target)) for name, out in ways.items()}

        def defined(raw: torch.Tensor, target: torch.dtype = target) -> Any:
            numbers = _numbers(_rounded(_decoded(raw.cpu().numpy(), source), target))
            ways = dict.fromkeys(("a row", "a strided row", "a copy", "a copy with gaps"), numbers)
            return {**ways, "transposed numbers": numbers[: len(numbers) // 8 * 8]}

        code = f"first = second = arguments[0].view({source})[:, 0].to({target})  # second: as it is defined"
        yield Relation(f"to {word(target)}", arguments, {}, cast, defined, code, exact=True)


def _drawn(dtype: torch.dtype, generator: np.random.Generator) -> _Array:
    """Return the bits of numbers in rows: of any size, of ordinary size, and next to the middle of two of a narrower dtype."""
    real = dtype.to_real() if dtype.is_complex else dtype
    size, parts = real.itemsize, 1 + dtype.is_complex
    one, bits = np.uint64(1), generator.integers(0, 2**64 - 1, (6 * _LENGTH, parts), np.uint64, endpoint=True)
    if real.is_floating_point:
        digits = -int(np.log2(torch.finfo(real).eps))
        middle = 1 << (8 * size - 2 - digits)  # exponents from here on are of 2 and more
        share = generator.integers(max(middle - 12, 0), middle + 26, bits[::2].shape, np.uint64) % np.uint64(2 * middle)
        low, sign = np.uint64((1 << digits) - 1), bits[::2] & np.uint64(1 << (8 * size - 1))
        bits[::2] = bits[::2] & low | share << np.uint64(digits) | sign
    cut = generator.integers(1, max(8 * size - 8, 2), bits[::3].shape, np.uint64)
    near = generator.integers(0, 3, cut.shape, np.uint64)
    bits[::3] = (bits[::3] >> cut << cut) + (one << (cut - one)) + near - one
    raw = bits % np.uint64(2) if dtype is torch.bool else bits
    return raw.astype(f"u{size}").view(str(_BITS[size]).removeprefix("torch."))


def _raw(result: torch.Tensor) -> _Array:
    """Return a result's bits in rows of one number."""
    real = torch.view_as_real(result.reshape(-1)) if result.is_complex() else result.reshape(-1, 1)
    return real.contiguous().view(_BITS[real.itemsize]).cpu().numpy()


def _decoded(bits: _Array, dtype: torch.dtype) -> _Array:
    """Return numbers as float64 or int64 in rows: the number, or its real and imaginary part."""
    if dtype is torch.bfloat16:
        return (bits.astype("i4") << 16).view("f4").astype("f8")
    if dtype is torch.float8_e5m2:
        return (bits.astype("u2") << 8).view("f2").astype("f8")
    if dtype is torch.float8_e4m3fn:
        exponent, digits = bits.astype("i4") >> 3 & 15, bits.astype("i4") & 7
        size = np.where(exponent == 0, digits * 2.0**-9, (8 + digits) * 2.0 ** (exponent - 10))
        return np.where(bits & 127 == 127, np.nan, np.where(bits > 127, -size, size))
    numbers = bits.view(word(dtype.to_real() if dtype.is_complex else dtype))
    return numbers.astype("f8" if numbers.dtype.kind == "f" else "i8")


def _fits(bits: _Array, source: torch.dtype, target: torch.dtype) -> _Array:
    """Return which numbers have one result: a range holds them, and it is the same by way of float32, which torch may take."""
    numbers = _decoded(bits, source)
    if target.is_floating_point:
        result, by_way = (_rounded(x, target) for x in (numbers, _rounded(numbers, torch.float32)))
        beyond = (np.abs(result) > torch.finfo(target).max) & (target is torch.float8_e4m3fn)
        return ((result == by_way) & ~beyond | np.isnan(numbers[:, :1])).all(1) | (target.itemsize > 2)
    if numbers.dtype.kind != "f" or target is torch.bool or target.is_complex:
        return np.ones(len(numbers), dtype=bool)
    ends = torch.iinfo(target)
    return ((np.trunc(numbers) >= float(ends.min)) & (np.trunc(numbers) < float(ends.max + 1)))[:, 0]


def _rounded(numbers: _Array, target: torch.dtype) -> _Array:
    """Return the definition: nearest with ties to even, cut towards zero, not zero, or so many bits."""
    if target is torch.bool:
        return (numbers != 0).any(1, keepdims=True).astype("i8")
    if target.is_complex:
        pair = numbers if numbers.shape[1] == 2 else np.concatenate([numbers, np.zeros_like(numbers)], 1)
        return _rounded_floats(pair, target.to_real())
    if target.is_floating_point:
        return _rounded_floats(numbers[:, :1], target)
    return numbers[:, :1].astype("i8").astype(word(target)).astype("i8")


def _rounded_floats(numbers: _Array, target: torch.dtype) -> _Array:
    if target is torch.float64:
        return numbers.astype("f8")
    if numbers.dtype.kind == "i":  # what float64 would round keeps in a last bit that there was more
        odd = (numbers >> 11 << 11) | ((numbers & 2047 != 0).astype("i8") << 11)
        numbers = np.where(np.abs(numbers >> 1) < 2**51, numbers, odd).astype("f8")
    info = torch.finfo(target)
    lowest = int(np.log2(info.smallest_normal))
    unit = np.ldexp(info.eps, np.maximum(np.frexp(numbers)[1] - 1, lowest))
    with np.errstate(invalid="ignore", over="ignore"):
        result = np.rint(numbers / unit) * unit
    return np.where(np.abs(result) > info.max, np.copysign(np.inf, result), result)


def _numbers(numbers: _Array) -> torch.Tensor:
    """Return numbers beside their signs, also those of zeros."""
    if numbers.dtype.kind == "i":
        return torch.from_numpy(numbers)
    signs = np.where(np.isnan(numbers), 0.0, np.copysign(1.0, numbers))
    return torch.from_numpy(np.concatenate([numbers, signs], 1))
