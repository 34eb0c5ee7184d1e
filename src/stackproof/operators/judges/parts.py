"""Long rows: reductions, scans and orders of any length and dimension are what NumPy has in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from stackproof.operators.forms import softmax
from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import Relation

WHAT = "long rows as in NumPy"
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.complex64)
LENGTHS = (1, 2, 7, 31, 32, 33, 127, 129, 1023, 1025, 4097)
LONG = (3000, 16_385, 65_539, 2**20 + 1)
LONGEST = 2**24 + 2**12 + 1
"""More than float32 counts."""
_LONGEST = ("sum", "mean", "nansum", "count_nonzero", "argmax", "argmin")
_COUNTS = ("histc", "bincount", "count_nonzero")

_Definition = Callable[..., Any]


def _rising(x: Any, axis: int) -> Any:
    return np.sort(x, axis)


def _nth(x: Any, axis: int, k: int) -> Any:
    return np.take(np.sort(x, axis), k - 1, axis)


def _middle(x: Any, axis: int) -> Any:
    return _nth(x, axis, (x.shape[axis] + 1) // 2)


_FULLY: dict[str, _Definition] = {
    name: getattr(np, name)
    for name in ("sum", "nansum", "mean", "nanmean", "prod", "amax", "amin", "any", "all", "count_nonzero")
} | {
    "std": partial(np.std, ddof=1),
    "var": partial(np.var, ddof=1),
    "argmax": np.argmax,
    "argmin": np.argmin,
    "linalg.vector_norm": lambda x, axis: np.linalg.norm(x, axis=axis),
    "norm": lambda x, axis: np.linalg.norm(x, axis=axis),
    "median": _middle,
    "nanmedian": _middle,
    "logsumexp": np.logaddexp.reduce,
}
"""What comes out of all numbers, or of those along a dimension; of equal numbers the first place."""
_ALONG: dict[str, _Definition] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
    "softmax": softmax,
    "log_softmax": lambda x, axis: np.log(softmax(x, axis)),
    "sort": _rising,
    "argsort": partial(np.argsort, kind="stable"),
    "quantile": lambda x, axis: np.quantile(x, 0.3, axis),
    "kthvalue": _nth,
    "topk": lambda x, axis, k: np.flip(np.take(np.sort(x, axis), range(x.shape[axis] - k, x.shape[axis]), axis), axis),
}
_ALONG |= {f"fft.{name}": getattr(np.fft, name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")}
_FLAT: dict[str, tuple[_Definition, tuple[Any, ...]]] = {
    "max.reduction_no_dim": (np.max, ()),
    "min.reduction_no_dim": (np.min, ()),
    "msort": (np.sort, ()),
    "unique": (np.unique, ()),
    "histc": (lambda x: np.histogram(x, 8, (-4, 4))[0].astype(float), (8, -4, 4)),
    "bincount": (np.bincount, ()),
}
_BEFORE: dict[str, tuple[Any, ...]] = {"linalg.vector_norm": (2,), "norm": (2,), "quantile": (0.3,)}
"""What stands before the dimension."""
_TURNED = {"sort": {"descending": True}, "argsort": {"descending": True}, "topk": {"largest": False}}


def suits(name: str, _op: Any) -> bool:
    """Whether a table of this module has the operator."""
    return name in _FULLY or name in _ALONG or name in _FLAT


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield reductions, scans and orders at lengths that are drawn and long ones."""
    name = point.name
    flat = name in _FLAT or (name in _FULLY and name != "logsumexp")
    lengths = (*point.draw.sample(LENGTHS, 2), *(LONG if flat else LONG[:3]))
    for place, length in enumerate(lengths):
        shapes: list[tuple[int, ...]] = [(length,)] if flat else []
        if name not in _FLAT:
            shapes.append(((3, length), (length, 3), (length,))[place % (2 if flat else 3)])
        for shape in shapes:
            yield from _long(point, shape) if math.prod(shape) < 2**21 else ()
    if point.dtype is torch.float32 and name in _LONGEST:
        yield from _long(point, (LONGEST,))


def _line(point: OperatorPoint, shape: tuple[int, ...]) -> torch.Tensor:
    """Return positive numbers, for sums few ones, so that rounding errors lean to one side; for products ones and a few twos."""
    count = math.prod(shape)
    whole = torch.arange(count, device=point.device)
    if point.name == "bincount":
        return whole * 37 % 7
    if point.name == "histc":
        edges = torch.arange(-4, 5, dtype=point.dtype, device=point.device)
        return torch.cat([edges, edges.new_zeros(count)])[:count]  # almost all in one bin
    if "prod" in point.name:
        line = torch.where(whole % (count // 4 + 1) == 0, 2, 1)
    elif not (point.dtype.is_floating_point or point.dtype.is_complex):
        line = whole * 37 % 9 - 4
    elif len(shape) == 1 and point.name in ("sum", "nansum", "mean", "nanmean"):
        line = whole % 3 * 0.3 + 0.1
    else:
        many = 65_521 if point.name in ("sort", "msort", "topk", "kthvalue") else 1021  # so that some are equal
        line = whole * 40_503 % 65_521 % many / many * (3 if "softmax" in point.name else 0.3) + 0.1
        line[-98::2] += 1 - 2 * (point.name == "argmin") if point.name in ("argmax", "argmin") else 0
    return line.to(point.dtype).reshape(shape)


def _long(point: OperatorPoint, shape: tuple[int, ...]) -> Iterator[Relation]:
    op, name, length = point.op, point.name, max(shape)
    dim = shape.index(length)
    k = (
        (point.draw.choice([k for k in (1, 64, 100, length // 2 + 1) if k <= length][-2:]),)
        if name in ("kthvalue", "topk")
        else ()
    )
    definition, more = _FLAT.get(name, (_FULLY.get(name) or _ALONG.get(name), ()))
    assert definition is not None
    if name.startswith("fft."):
        more = (None, dim)
    elif name not in _FLAT and (len(shape) > 1 or name in _ALONG):
        more = (*_BEFORE.get(name, ()), *k, dim)
    turned = {
        **(_TURNED.get(name, {}) if length % 2 else {}),
        **({"stable": True, "dim": dim} if name == "argsort" else {}),
    }
    more = () if name == "argsort" else more

    def led(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        if places.dim() == x.dim():
            return x.gather(dim, places)
        return x.gather(dim, places.unsqueeze(dim)).squeeze(dim)

    def way(x: torch.Tensor) -> Any:
        if name == "unique":
            values, inverse = op(x, return_inverse=True)
            return [values, values[inverse]]
        result = op(x, *more, **turned)
        if not isinstance(result, tuple):
            return result
        return result[0] + (result[0] != led(x, result[1]))  # a place that leads elsewhere spoils it

    def numpys(x: torch.Tensor) -> Any:
        along = {} if name in _FLAT else {"axis": dim}
        other = bool(turned.keys() & {"descending", "largest"})
        numbers = -x.cpu().numpy() if other else x.cpu().numpy()
        made = torch.tensor(np.array(definition(numbers, **along, **dict(zip("k", k, strict=False)))))
        return [made, x] if name == "unique" else -made if other and name != "argsort" else made

    code = f"first = operator(*arguments, *{more}, **{turned})\nsecond = None  # what NumPy has in float64"
    own = point.dtype if point.dtype.is_floating_point or point.dtype.is_complex else torch.float32
    eps = torch.finfo(own).eps
    sums = 8 * max(min(eps, 2**-23), 2**-46) * (4 + math.log2(length) + length**0.5 / 16) * (name not in _COUNTS)
    tolerance = sums + (0.6 if own.itemsize == 2 else 4) * eps  # halves are rounded once
    says = f"over {length} numbers of {list(shape)}{'; '.join(['', *map(str, k)])}"
    line = (_line(point, shape),)
    how: dict[str, Any] = {"exact": name.startswith("arg"), "ulps": 0.0, "room": 0.0, "widened": True}
    yield Relation(says, line, {}, way, numpys, code, tolerance=tolerance, **how)
    if (
        name in _ALONG and name != "log_softmax" and own is torch.float16 and length > 1000
    ):  # what rounds once leans to no side

        def mean(way: _Definition) -> _Definition:
            return lambda x: way(x).double().mean(dim)

        tolerance = sums + 2 * eps / length**0.5
        ways = mean(way), mean(numpys)
        yield Relation(
            f"{says}, on average", line, {}, *ways, code, ulps=0.0, tolerance=tolerance, room=0.0, widened=True
        )
