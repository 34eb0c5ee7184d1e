"""What NumPy says of operators, number by number: unary, binary and whole-number ones, with what a correct kernel may err by.

Expectations are computed in long double from numbers of the dtype. `ulps` is what libraries of devices promise (CUDA C++ Programming Guide,
"Mathematical Functions"; SLEEF's u35), `slack` what the textbook formula loses where it cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from stackproof.operators.arrays import WIDE, Array

Reference: TypeAlias = Callable[..., Array]
Call: TypeAlias = Callable[..., torch.Tensor]

EXACT = 0.51
"""What IEEE 754 rounds correctly, and long double rounds once more."""
GOOD = 4.0
FAIR = 16.0


@dataclass(frozen=True)
class Oracle:
    """One operator: how it is called, what NumPy says of it, and by how much it may be off."""

    call: Call
    reference: Reference
    ulps: float = EXACT
    slack: Callable[..., Any] | None = None
    """An absolute error, from the dtype's epsilon and the arguments of `reference`."""
    zero_sign: bool = False
    returns: torch.dtype | None = None
    """The dtype of the result where it is not that of the numbers."""


def method(name: str) -> Call:
    """Return the operator as a function of torch, looked up when it is called."""
    return lambda *given: getattr(torch, name)(*given)


def layer(name: str, **keywords: Any) -> Call:
    """Return the operator as a function of torch.nn.functional, looked up when it is called."""
    return lambda *given: getattr(functional, name)(*given, **keywords)


def each(function: Callable[[float], float]) -> Reference:
    """Return a function of Python's floats for arrays: double precision, right for narrower dtypes and to a few ulp of float64."""

    def many(values: Array) -> Array:
        return np.array([function(float(value)) for value in values.reshape(-1)], dtype=WIDE).reshape(values.shape)

    return many


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e^-x) without overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def tail(x: Array) -> Array:
    """Return the share of the normal distribution below x."""
    return each(math.erfc)(-x / np.sqrt(WIDE(2))) / 2


def softplus(x: Array) -> Array:
    """Return log(1 + e^x), which torch takes for x above 20."""
    return np.asarray(np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20)))))


def _quiet_max(x: Array, low: float) -> Array:
    return np.maximum(x, WIDE(low))


def _gelu(x: Array) -> Array:
    return x * tail(x)


def _exact(name: str, reference: Reference, **more: Any) -> tuple[str, Oracle]:
    return name, Oracle(method(name), reference, **more)


def _close(name: str, reference: Reference | None = None, ulps: float = GOOD, **more: Any) -> tuple[str, Oracle]:
    return name, Oracle(method(name), reference or getattr(np, name), ulps, **more)


def _layer(name: str, reference: Reference, slack: Any = None, **keywords: Any) -> tuple[str, Oracle]:
    return name, Oracle(layer(name, **keywords), reference, GOOD, slack)


def _power(exponent: int, filled: bool) -> tuple[str, Oracle]:
    """A power by a number, or by a tensor of them; of an odd one the sign of a zero is kept."""
    by = (lambda x: torch.full_like(x, exponent)) if filled else (lambda _: exponent)
    name = f"pow(tensor of {exponent})" if filled else f"pow({exponent})"
    return name, Oracle(lambda x: torch.pow(x, by(x)), lambda x: x**exponent, GOOD, zero_sign=True)


_SINGLE = torch.finfo(torch.float32).eps


def _underflow(*_: Any) -> float:
    """Allow what a library loses that computes 1 / (1 + e^-x) where e^-x is infinite."""
    return float(torch.finfo(torch.float32).tiny)


def _truth(name: str, reference: Reference) -> tuple[str, Oracle]:
    return name, Oracle(method(name), reference, 0.0, returns=torch.bool)


def _clip(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.clip(x, WIDE(-1), WIDE(2)))


def _cut(x: Array) -> Array:
    return np.asarray(np.maximum(x, 1).astype(x.dtype))


CUT: list[tuple[str, Oracle]] = [
    ("clamp(1, largest)", Oracle(lambda x: torch.clamp(x, 1, _largest_of(x)), _cut)),
    ("clamp(min=1)", Oracle(lambda x: torch.clamp(x, min=1), _cut)),
    ("clamp_min(1)", Oracle(lambda x: torch.clamp_min(x, 1), _cut)),
    ("clamp(max=1)", Oracle(lambda x: torch.clamp(x, max=1), lambda x: np.minimum(x, 1).astype(x.dtype))),
]
"""Cut at bounds that whole numbers have too, large ones among them."""


def _largest_of(x: torch.Tensor) -> float:
    return math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max


UNARY: dict[str, Oracle] = dict(
    [
        _exact("abs", np.abs, zero_sign=True),
        _exact("neg", np.negative, zero_sign=True),
        _exact("positive", np.positive, zero_sign=True),
        _exact("sign", lambda x: np.nan_to_num(np.sign(x), nan=0.0)),
        _exact("ceil", np.ceil, zero_sign=True),
        _exact("floor", np.floor, zero_sign=True),
        _exact("trunc", np.trunc, zero_sign=True),
        _exact("round", np.rint),
        _exact("sqrt", np.sqrt, ulps=1.0, zero_sign=True),
        _exact("reciprocal", lambda x: 1 / x, ulps=1.0, zero_sign=True),
        _exact("square", np.square),
        *(_power(exponent, filled) for exponent in (3, -1, -3) for filled in (False, True)),
        _close("rsqrt", lambda x: 1 / np.sqrt(x)),
        _close("exp"),
        _close("exp2"),
        _close("expm1", zero_sign=True),
        _close("log"),
        _close("log2"),
        _close("log10"),
        _close("log1p", zero_sign=True),
        _close("sin", zero_sign=True),
        _close("cos"),
        _close("tan", zero_sign=True),
        _close("asin", np.arcsin),
        _close("acos", np.arccos),
        _close("atan", np.arctan),
        _close("sinh"),
        _close("cosh"),
        _close("tanh", zero_sign=True),
        _close("asinh", np.arcsinh),
        _close("acosh", np.arccosh),
        _close("atanh", np.arctanh),
        _close("erf", each(math.erf), slack=lambda eps, _: 4e-4 * eps),  # an absolute error of 2e-7 in halves
        _close("erfc", each(math.erfc), FAIR),
        _close("sigmoid", sigmoid, slack=_underflow),
        _exact("relu", lambda x: _quiet_max(x, 0.0)),
        ("clamp(-1, 2)", Oracle(lambda x: torch.clamp(x, -1, 2), _clip)),
        *CUT,
        (
            "nan_to_num(1.5, 2.5, -3.5)",
            Oracle(lambda x: torch.nan_to_num(x, 1.5, 2.5, -3.5), lambda x: np.nan_to_num(x, nan=1.5, posinf=2.5, neginf=-3.5)),
        ),
        _layer("relu6", lambda x: np.where(np.isnan(x), x, np.clip(x, WIDE(0), WIDE(6)))),
        _layer("hardtanh", lambda x: np.where(np.isnan(x), x, np.clip(x, WIDE(-1), WIDE(1)))),
        _layer("leaky_relu", lambda x: np.where(x > 0, x, x / 8), negative_slope=0.125),
        # torch 2.4 forms e^x - 1
        _layer("elu", lambda x: np.asarray(np.where(x > 0, x, np.expm1(x))), slack=lambda eps, _: 2 * min(eps, _SINGLE)),
        _layer("silu", lambda x: x * sigmoid(x), slack=lambda *_: 100 * _underflow()),
        _layer("softplus", softplus),
        _layer("logsigmoid", lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))),
        _layer("gelu", _gelu, slack=lambda eps, x: 4 * eps * np.abs(x)),
        _layer("softsign", lambda x: x / (1 + np.abs(x))),
        _truth("isnan", np.isnan),
        _truth("isinf", np.isinf),
        _truth("isfinite", np.isfinite),
        _truth("signbit", np.signbit),
        _truth("logical_not", np.logical_not),
    ]
)  # fmt: skip


def _remainder(x: Array, y: Array) -> Array:
    """Return the remainder that has the divisor's sign, as Python does."""
    found = np.fmod(x, y)
    return np.where((found != 0) & ((found < 0) != (y < 0)), found + y, found)


def _floored(x: Array, y: Array) -> Array:
    found = np.where(~np.isfinite(x), np.nan, np.floor((x - _remainder(x, y)) / y + WIDE(0.5)))
    beside = np.where((x != 0) & ((x < 0) != (y < 0)), -1, 0)
    return np.where(np.isinf(y) & np.isfinite(x), beside, found)


def _edge(eps: float, x: Array, y: Array) -> Array:
    """Allow one where the quotient is so near a whole number that its rounding decides."""
    quotient = np.abs(np.nan_to_num(x / y, posinf=0, neginf=0))
    return np.where(np.abs(quotient - np.rint(quotient)) <= 2 * eps * quotient, WIDE(1), WIDE(0))


def _logaddexp(x: Array, y: Array) -> Array:
    top = np.maximum(x, y)
    return np.where(np.isinf(x) & (x == y), x, top + np.log1p(np.exp(-np.abs(x - y))))


def _xlogy(x: Array, y: Array) -> Array:
    return np.where((x == 0) & ~np.isnan(y), np.zeros_like(x), x * np.log(y))


def _largest(eps: float, x: Array, y: Array) -> Array:
    return 2 * eps * np.maximum(np.abs(x), np.abs(y))


BINARY: dict[str, Oracle] = dict(
    [
        _exact("add", np.add, zero_sign=True),
        _exact("sub", np.subtract, zero_sign=True),
        _exact("mul", np.multiply, zero_sign=True),
        _exact("div", np.divide, ulps=1.0, zero_sign=True),
        _exact("maximum", np.maximum),
        _exact("minimum", np.minimum),
        _exact("fmax", np.fmax),
        _exact("fmin", np.fmin),
        _exact("fmod", np.fmod, zero_sign=True),
        _exact("copysign", np.copysign, zero_sign=True),
        _exact("atan2", np.arctan2, ulps=GOOD),
        _exact("hypot", np.hypot, ulps=GOOD),
        ("lerp(0.25)", Oracle(lambda x, y: torch.lerp(x, y, 0.25), lambda x, y: x + (y - x) / 4, GOOD, _largest)),
        _exact("xlogy", _xlogy, ulps=GOOD),
        _exact("logaddexp", _logaddexp, ulps=GOOD, slack=_largest),
        *(_truth(name, getattr(np, numpy)) for name, numpy in {
            "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
            "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}.items()),
    ]
)  # fmt: skip


def _whole_divisor(eps: float, _: Array, y: Array) -> Array:
    return np.asarray(2 * eps * np.abs(np.nan_to_num(y, posinf=0, neginf=0)))


DIVIDING: dict[str, Oracle] = dict(
    [
        _exact("remainder", _remainder, slack=_whole_divisor),
        _exact("floor_divide", _floored, ulps=1.0, slack=_edge),
        (
            "div-trunc",
            Oracle(lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: np.trunc(x / y), 1.0, _edge),
        ),
    ]
)


def _plain(name: str, numpy: str = "", **more: Any) -> tuple[str, Oracle]:
    return name, Oracle(method(name), getattr(np, numpy or name), 0.0, **more)


# NumPy's whole numbers wrap around as two's complement does, and so must torch's.
WHOLE: dict[str, Oracle] = dict(
    [
        _plain("add"), _plain("sub", "subtract"), _plain("mul", "multiply"),
        _plain("maximum"), _plain("minimum"),
        _plain("bitwise_and"), _plain("bitwise_or"), _plain("bitwise_xor"),
        *(_truth(name, getattr(np, numpy)) for name, numpy in {
            "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
            "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}.items()),
    ]
)  # fmt: skip
BIT: dict[str, Oracle] = {name: WHOLE[name] for name in WHOLE if name not in ("sub",)} | {
    "add": Oracle(method("add"), np.logical_or, 0.0),
    "mul": Oracle(method("mul"), np.logical_and, 0.0),
}
"""Of truth values: their sum is 'or', their product 'and'; torch refuses their difference."""


def _divided(name: str, function: Callable[[int, int], int]) -> tuple[str, Oracle]:
    call = {"div-trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
            "div-floor": lambda x, y: torch.div(x, y, rounding_mode="floor")}.get(name, method(name))  # fmt: skip

    def reference(x: Array, y: Array) -> Array:
        pairs = zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
        return np.array([function(a, b) for a, b in pairs], dtype=x.dtype).reshape(x.shape)

    return name, Oracle(call, reference, 0.0)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


# Python's own division, in whole numbers of any size.
WHOLE_DIVIDING: dict[str, Oracle] = dict(
    [
        _divided("floor_divide", lambda a, b: a // b),
        _divided("div-floor", lambda a, b: a // b),
        _divided("div-trunc", _truncated),
        _divided("remainder", lambda a, b: a % b),
        _divided("fmod", lambda a, b: a - b * _truncated(a, b)),
        ("gcd", Oracle(method("gcd"), np.gcd, 0.0)),
    ]
)
WHOLE_UNARY: dict[str, Oracle] = dict(
    [_plain("neg", "negative"), _plain("bitwise_not"), _plain("square"), _plain("abs"), _plain("sign"), *CUT]
)
SHIFTS: dict[str, Oracle] = {
    "bitwise_left_shift": Oracle(method("bitwise_left_shift"), np.left_shift, 0.0),
    "bitwise_right_shift": Oracle(method("bitwise_right_shift"), np.right_shift, 0.0),
}
NAMES = {name for table in (UNARY, BINARY, DIVIDING, WHOLE, WHOLE_DIVIDING, WHOLE_UNARY, SHIFTS) for name in table}
