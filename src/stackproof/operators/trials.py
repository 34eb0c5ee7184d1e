"""Classes of operators that compute number by number: what is called, in all of its spellings, and what NumPy expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch

from stackproof.operators import oracles
from stackproof.operators.arrays import WIDE, Array, Expected, stored, tensor
from stackproof.operators.oracles import Oracle
from stackproof.operators.regimes import numbers

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
WHOLES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *WHOLES, torch.bool)


@dataclass(frozen=True)
class Trial:
    """One call: what it is called, how to make it, and what its result and the result's dtype must be."""

    name: str
    run: Callable[[], torch.Tensor]
    expected: Expected
    dtype: torch.dtype
    operator: str = ""
    """The operator of which this is a spelling, where there are several."""


Class: TypeAlias = Callable[[str, torch.dtype, torch.device], Iterator[Trial]]
"""The trials of a regime in a dtype on a device; none where the regime has no numbers for them."""


def wide(values: Array) -> Array:
    """Return floating-point numbers in long double, and others as they are."""
    return values.astype(WIDE) if values.dtype.kind == "f" else values


def spelled(name: str, oracle: Oracle, given: list[torch.Tensor]) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """Return every way to write the call: function, method, into a tensor that is there, in place."""
    yield name, partial(oracle.call, *given)
    if not hasattr(torch, name):
        return
    same = oracle.returns is None
    if hasattr(torch.Tensor, name):
        yield f"Tensor.{name}", partial(_method, name, given)
    if same and hasattr(torch.Tensor, f"{name}_"):
        yield f"Tensor.{name}_", lambda: _method(f"{name}_", [given[0].clone(), *given[1:]])
    if same and name not in ("positive", "relu", "fix"):
        yield f"{name}(out=)", lambda: getattr(torch, name)(*given, out=torch.empty_like(given[0]))


def _method(name: str, given: list[torch.Tensor]) -> torch.Tensor:
    found: torch.Tensor = getattr(given[0], name)(*given[1:])
    return found


def _expect(oracle: Oracle, dtype: torch.dtype, values: list[Array]) -> Expected:
    with np.errstate(all="ignore"):
        found = oracle.reference(*map(wide, values))
        if not dtype.is_floating_point:
            return Expected(np.asarray(found))
        room = oracle.slack(torch.finfo(dtype).eps, *map(wide, values)) if oracle.slack else 0.0
    return Expected(found, oracle.ulps, np.nan_to_num(room, posinf=0), oracle.zero_sign and oracle.returns is None)


def _of(table: dict[str, Oracle], values: list[Array], dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    given = [tensor(value, dtype, device) for value in values]
    for name, oracle in table.items():
        expected = _expect(oracle, dtype, values)
        for spelling, run in spelled(name, oracle, given):
            yield Trial(spelling, run, expected, oracle.returns or dtype, name)


def unary(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return functions of one number."""
    values = numbers(regime, dtype)
    if values is None or dtype is torch.bool:
        return
    table = oracles.UNARY if dtype.is_floating_point else oracles.WHOLE_UNARY
    chosen = {name: one for name, one in table.items() if not (dtype is torch.uint8 and name in ("abs", "sign"))}
    yield from _of(chosen, [values], dtype, device)
    if dtype.is_floating_point:
        yield from _by_dtype(values, dtype, device)


def _by_dtype(values: Array, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return what puts the dtype's own ends in, and what real numbers have as complex ones do: zeros have no angle, of either sign."""
    given, exact, info = tensor(values, dtype, device), wide(values), torch.finfo(dtype)
    whole = np.nan_to_num(exact, nan=0, posinf=info.max, neginf=info.min)
    yield Trial("nan_to_num", partial(torch.nan_to_num, given), Expected(whole, oracles.EXACT, 0.0), dtype)
    if dtype in (torch.float32, torch.float64):
        turned = np.where(np.isnan(exact), exact, np.where(exact < 0, WIDE(np.pi), WIDE(0)))
        yield Trial("angle", partial(torch.angle, given), Expected(turned, 1.0, 0.0), dtype)


def pairs(regime: str, dtype: torch.dtype, salt: str = "right") -> list[Array] | None:
    """Return two rows of numbers of a regime."""
    left, right = numbers(regime, dtype), numbers(regime, dtype, salt=salt)
    plain = numbers("ordinary", dtype, salt=salt)
    if regime == "subnormal" and right is not None and plain is not None:
        right[::2] = plain[::2]  # the product of two is zero
    return None if left is None or right is None else [left, right]


def binary(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return functions of two numbers, with each other and with themselves (inf - inf, comparisons of equals)."""
    values = pairs(regime, dtype)
    if values is None:
        return
    kinds = {torch.bool: oracles.BIT} | dict.fromkeys(FLOATS, oracles.BINARY)
    table = kinds.get(dtype, oracles.WHOLE)
    yield from _of(table, values, dtype, device)
    near = values[0].copy()
    if dtype is not torch.bool and not dtype.is_floating_point:
        near[::2] += 1  # neighbours that a float takes for equal
    yield from _of(table, [values[0], near], dtype, device)
    if dtype in (torch.float32, torch.float64):
        given = [tensor(value, dtype, device) for value in values]
        with np.errstate(all="ignore"):
            beside = np.nextafter(*values).astype(WIDE)
        yield Trial("nextafter", partial(torch.nextafter, *given), Expected(beside, oracles.EXACT, 0.0), dtype)


def division(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return quotients and remainders, whose signs languages disagree on."""
    values = pairs(regime, dtype)
    if values is None or dtype is torch.bool:
        return
    left, right = values
    if not dtype.is_floating_point:  # the smallest number by -1, and anything by 0, end a process on CPUs
        right = np.where((right == 0) | (right == -1), 3, right).astype(right.dtype)
        yield from _of(oracles.WHOLE_DIVIDING, [left, right], dtype, device)
    else:
        right = np.where(right == 0, 3, right).astype(right.dtype)
        yield from _of(oracles.DIVIDING, [left, right], dtype, device)


def shifts(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return shifts by 0 to all bits but one."""
    values = numbers(regime, dtype)
    if values is None or dtype.is_floating_point or dtype is torch.bool:
        return
    most = torch.iinfo(dtype).bits - (dtype is not torch.uint8)
    yield from _of(oracles.SHIFTS, [values, (np.arange(len(values)) % most).astype(values.dtype)], dtype, device)


def casting(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return the numbers in every other dtype: rounded to nearest, cut towards zero, true unless zero."""
    values = numbers(regime, dtype)
    if values is None:
        return
    for target in DTYPES:
        chosen = values if target.is_floating_point or target is torch.bool else _fitting(values, target)
        if target is dtype or not len(chosen):
            continue
        given = tensor(chosen, dtype, device)
        yield Trial(f"to {target}", partial(given.to, target), _cast(chosen, target), target)


def _fitting(values: Array, target: torch.dtype) -> Array:
    """Return the numbers that a whole-number dtype can hold; what becomes of others is nobody's promise."""
    info = torch.iinfo(target)
    if values.dtype.kind == "f":
        real = values.astype(np.float64)
        kept = np.isfinite(real) & (real > float(info.min)) & (real < float(info.max))
        return values[kept] if info.min < 0 else values[kept & (real >= 0)]
    if values.dtype.kind == "b":
        return values
    return values[[info.min <= value <= info.max for value in values.tolist()]]


def _cast(values: Array, target: torch.dtype) -> Expected:
    if target.is_floating_point:
        return Expected(values.astype(WIDE), oracles.EXACT, 0.0, values.dtype.kind == "f")
    if target is torch.bool:
        return Expected(values != 0)
    whole = np.trunc(values) if values.dtype.kind == "f" else values
    return Expected(whole.astype(stored(target)))


def _slope(name: str, call: Any, slope: Callable[[Array], Array], ulps: float = oracles.FAIR) -> tuple[str, Oracle]:
    return name, Oracle(call, slope, ulps)


def _bell(x: Array) -> Array:
    return np.asarray(np.exp(-x * x / 2) / np.sqrt(2 * WIDE(np.pi)))


SLOPES: dict[str, Oracle] = dict(
    [
        _slope("exp", torch.exp, np.exp),
        _slope("log1p", torch.log1p, lambda x: 1 / (1 + x)),
        _slope("log", torch.log, lambda x: 1 / x),
        _slope("sqrt", torch.sqrt, lambda x: 1 / (2 * np.sqrt(x))),
        _slope("reciprocal", torch.reciprocal, lambda x: -1 / (x * x)),
        _slope("sin", torch.sin, np.cos),
        _slope("cos", torch.cos, lambda x: -np.sin(x)),
        _slope("abs", torch.abs, lambda x: np.nan_to_num(np.sign(x))),
        _slope("relu", oracles.method("relu"), lambda x: (~(x <= 0)).astype(WIDE)),
        _slope("clamp", lambda x: torch.clamp(x, -1, 2), lambda x: ((x >= -1) & (x <= 2)).astype(WIDE)),
        _slope("leaky_relu", oracles.layer("leaky_relu", negative_slope=0.125), lambda x: np.where(x > 0, WIDE(1), WIDE(0.125))),
        _slope("square", torch.square, lambda x: 2 * x),
        _slope("softplus", oracles.layer("softplus"), lambda x: np.where(x > 20, 1, oracles.sigmoid(x))),
        _slope("logsigmoid", oracles.layer("logsigmoid"), lambda x: oracles.sigmoid(-x)),
    ]
)  # fmt: skip
# Slopes that vanish as differences of numbers near one: so much of one is lost, in units of epsilon.
VANISHING: dict[str, tuple[Any, Callable[[Array], Array], float]] = {
    "expm1": (torch.expm1, np.exp, 2.0),
    "tanh": (torch.tanh, lambda x: 1 / np.cosh(x) ** 2, 4.0),
    "sigmoid": (torch.sigmoid, lambda x: oracles.sigmoid(x) * oracles.sigmoid(-x), 4.0),
    "silu": (oracles.layer("silu"), lambda x: oracles.sigmoid(x) * (1 + x * oracles.sigmoid(-x)), 16.0),
    "gelu": (oracles.layer("gelu"), lambda x: oracles.tail(x) + x * _bell(x), 16.0),
    "erf": (torch.erf, lambda x: 2 / np.sqrt(WIDE(np.pi)) * np.exp(-x * x), 4.0),
}  # fmt: skip


def gradients(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return the slopes of functions of one number, in closed form."""
    values = numbers(regime, dtype)
    if values is None or not dtype.is_floating_point:
        return
    exact, eps = wide(values), torch.finfo(dtype).eps
    rows = {name: (one.call, one.reference, 0.0) for name, one in SLOPES.items()} | VANISHING
    for name, (call, slope, lost) in rows.items():
        inside = _inside(name, exact)
        with np.errstate(all="ignore"):
            wanted = Expected(slope(exact[inside]), oracles.FAIR if dtype in FLOATS[:2] else 2.0, WIDE(lost) * eps)
        yield Trial(f"{name}, backward", partial(_gradient, call, tensor(values[inside], dtype, device)), wanted, dtype)


def _inside(name: str, values: Array) -> Array:
    """Return where a function has a slope that its closed form tells to every digit."""
    edge = {"log": values > 0, "sqrt": values > 0, "log1p": values > -0.9, "reciprocal": values != 0}
    edge["clamp"] = ~np.isin(values, (-1, 2)) & ~np.isnan(values)
    return np.asarray(edge.get(name, np.ones(values.shape, dtype=bool)))


def _gradient(call: Any, given: torch.Tensor) -> torch.Tensor:
    leaf = given.detach().clone().requires_grad_()
    call(leaf).backward(torch.ones_like(leaf))
    assert leaf.grad is not None
    return leaf.grad


POINTWISE: dict[str, Class] = {
    "unary": unary,
    "binary": binary,
    "division": division,
    "shifts": shifts,
    "casting": casting,
    "gradients": gradients,
}
