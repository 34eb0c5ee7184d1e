"""Parts add up: a reduction, scan, count or scatter over a whole is what its parts give, at every length and with many repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import Relation

WHAT = "parts add up"
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.complex64)
LENGTHS = (1, 2, 7, 31, 32, 33, 127, 129, 1023, 1025, 4097, 65_537, 2**20 + 1)
LONG = 2**24 + 2**12 + 1
"""More than float32 counts."""
REPEATS = (3, 300, 513, 4096, 100_000)

_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": torch.add,
    "nansum": torch.add,
    "count_nonzero": torch.add,
    "prod": torch.mul,
    "amax": torch.maximum,
    "amin": torch.minimum,
    "max.reduction_no_dim": torch.maximum,
    "min.reduction_no_dim": torch.minimum,
    "any": torch.logical_or,
    "all": torch.logical_and,
    "logsumexp": torch.logaddexp,
    "linalg.vector_norm": lambda x, y: torch.hypot(x.abs(), y.abs()),
    "norm": lambda x, y: torch.hypot(x.abs(), y.abs()),
    "histc": torch.add,
    "bincount": torch.add,
}
_OPTIONS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "histc": ((8,), {"min": -4, "max": 4}),
    "bincount": ((), {"minlength": 8}),
    "logsumexp": ((0,), {}),
}
_SCANS: dict[str, Callable[[Any, Any], Any]] = {
    "cumsum": torch.add,
    "cumprod": torch.mul,
    "cummax": torch.maximum,
    "cummin": torch.minimum,
    "logcumsumexp": torch.logaddexp,
}
_ORDERED = [
    "sort",
    "msort",
    "median",
    "kthvalue",
    "topk",
    "mode",
    "unique",
    "nanmedian",
    "std",
    "var",
    "mean",
    "quantile",
]


def suits(name: str, _op: Any) -> bool:
    """Whether a table of this module has the operator."""
    return name in _JOINS or name in _SCANS or name in _ORDERED or name in _INTO


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield reductions and scans cut in two, orders of permuted numbers, and what is added into one place many times."""
    if join := _JOINS.get(point.name):
        for length in (*point.draw.sample(LENGTHS, 5), LONG if point.dtype is torch.float32 else LENGTHS[-1]):
            yield _cut(point, join, length)
        if point.name not in ("histc", "bincount"):
            yield _of_nothing(point, join)
    if join := _SCANS.get(point.name):
        for length in point.draw.sample(LENGTHS, 5):
            yield _scan(point, join, length)
    if point.name in _ORDERED:
        for length in point.draw.sample(LENGTHS[:-1], 4):
            yield _permuted(point, length)
    if point.name in _INTO:
        for count in REPEATS:
            yield from _repeated(point, count)


def _line(point: OperatorPoint, length: int) -> torch.Tensor:
    """Return numbers whose sums and products are exact in any order: small whole ones, and for products ones and a few twos."""
    whole = torch.arange(length, device=point.device)
    if point.name == "bincount":
        return whole * 37 % 7
    if point.name == "histc":
        return torch.zeros(length, dtype=point.dtype, device=point.device)  # all in one bin
    if "prod" in point.name:
        return torch.where(whole % (length // 4 + 1) == 0, 2, 1).to(point.dtype)
    few = whole * 7 % 5 - 2 if length > 2**20 else whole * 37 % 9 - 4
    return few.to(point.dtype)


def _cut(point: OperatorPoint, join: Any, length: int) -> Relation:
    op, (more, options) = point.op, _OPTIONS.get(point.name, ((), {}))

    def parts(x: Any) -> Any:
        pieces = [op(piece, *more, **options) for piece in x.tensor_split(2 if length < 2**20 else 16)]
        total = pieces[0].to(torch.float64) if pieces[0].is_floating_point() else pieces[0]
        for piece in pieces[1:]:
            total = join(total, piece.to(total.dtype))
        return total.to(pieces[0].dtype)

    code = (
        f"first, second = [[operator(x, *{more}, **{options}) for x in arguments[0].tensor_split(k)] for k in (1, 2)]"
    )
    says, line = f"over {length} numbers as over its parts", (_line(point, length),)
    return Relation(says, line, {}, lambda x: op(x, *more, **options), parts, code, ulps=256.0)


def _of_nothing(point: OperatorPoint, join: Any) -> Relation:
    """Over a dimension without numbers it is what changes nothing when it is joined to anything."""
    x = point.numbers((3, 4))

    def joined(x: Any) -> Any:
        own = point.op(x, dim=1)
        return join(own, point.op(x[:, :0], dim=1).to(own.dtype))

    code = "first, second = (operator(x, dim=1) for x in (arguments[0][:, :0], arguments[0]))  # joined they are the second"
    return Relation("joined to one of no numbers", (x,), {}, joined, lambda x: point.op(x, dim=1), code, refusable=True)


def _scan(point: OperatorPoint, join: Any, length: int) -> Relation:
    op = point.op
    pick: Callable[[Any], Any] = lambda result: result[0] if isinstance(result, tuple) else result  # noqa: E731

    def parts(x: Any) -> Any:
        left, right = x[: length // 3 + 1], x[length // 3 + 1 :]
        start = pick(op(left, 0))
        return torch.cat([start, join(start[-1:], pick(op(right, 0)))]) if right.numel() else start

    code = "first, second = [[operator(x, 0) for x in arguments[0].tensor_split(k)] for k in (1, 2)]"
    says, line = f"a scan of {length} numbers as of its parts", (_line(point, length),)
    return Relation(says, line, {}, lambda x: pick(op(x, 0)), parts, code, ulps=256.0)


def _permuted(point: OperatorPoint, length: int) -> Relation:
    op = point.op
    order = torch.randperm(length, generator=torch.Generator().manual_seed(length)).to(point.device)
    more = {"kthvalue": (length // 2 + 1,), "topk": (length // 2 + 1,), "quantile": (0.5,)}.get(point.name, ())

    def values(x: Any) -> Any:
        result = op(x, *more)
        return result[0] if isinstance(result, tuple) else result

    code = "first = operator(arguments[0][torch.randperm(len(arguments[0]))])\nsecond = operator(arguments[0])"
    says, line = f"of {length} permuted numbers", (_line(point, length),)
    return Relation(says, line, {}, lambda x: values(x[order]), values, code, ulps=256.0)


def _repeated(point: OperatorPoint, count: int) -> Iterator[Relation]:
    """Yield calls that write many numbers to one place, half of them zeros, against the same in float64."""
    if point.dtype is torch.int64:
        return
    call = _INTO[point.name]
    size = 1.0 if "prod" in point.name else 0.25
    source = torch.full((count,), size, dtype=point.dtype, device=point.device)
    source[::2] = 1.0 if "prod" in point.name else 0.0
    index = torch.zeros(count, dtype=torch.int64, device=point.device)
    code = f"# {call.__doc__ or 'adds all of them into one place'}\nfirst = second = None"
    yield Relation(f"{count} repeats of one index", (source, index), {}, call, call, code, tolerance=0.02, widened=True)


def _base(source: torch.Tensor) -> torch.Tensor:
    return source.new_zeros(3)


def _embedded(source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    table = source.new_zeros(3, 1).requires_grad_()
    return torch.autograd.grad(functional.embedding(index, table), table, source[:, None])[0]


def _bagged(mode: str, source: torch.Tensor, index: torch.Tensor) -> Any:
    table = source.new_ones(3, 1).requires_grad_()
    out = functional.embedding_bag(index, table, torch.arange(len(index), device=index.device), mode=mode)
    return torch.autograd.grad(out, table, source[:, None])[0]


def _taken(op: Callable[..., Any], source: torch.Tensor, index: torch.Tensor) -> Any:
    leaf = _base(source).requires_grad_()
    return torch.autograd.grad(op(leaf, index), leaf, source)[0]


def _reduced(kind: str, source: torch.Tensor, index: torch.Tensor) -> Any:
    return [_base(source).index_reduce(0, index, source, kind, include_self=own) for own in (True, False)]


def _scattered(kind: str, source: torch.Tensor, index: torch.Tensor) -> Any:
    leaf = source.clone().requires_grad_()
    out = [_base(source).scatter_reduce(0, index, leaf, kind, include_self=own) for own in (True, False)]
    return [*out, torch.autograd.grad(out[0].sum(), leaf)[0]]


_INTO: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "index_add": lambda x, i: _base(x).index_add(0, i, x),
    "scatter_add": lambda x, i: _base(x).scatter_add(0, i, x),
    "index_put": lambda x, i: _base(x).index_put((i,), x, accumulate=True),
    "put": lambda x, i: _base(x).put(i, x, accumulate=True),
    "nn.functional.embedding": _embedded,
    "nn.functional.embedding_bag": lambda x, i: [_bagged(mode, x, i) for mode in ("sum", "mean")],
    "gather": partial(_taken, lambda x, i: x.gather(0, i)),
    "index_select": partial(_taken, lambda x, i: x.index_select(0, i)),
    "take": partial(_taken, torch.take),
    "__getitem__": partial(_taken, lambda x, i: x[i]),
    **{f"index_reduce.{kind}": partial(_reduced, kind) for kind in ("mean", "prod", "amax", "amin")},
    **{f"scatter_reduce.{kind}": partial(_scattered, kind) for kind in ("sum", "mean", "prod", "amax", "amin")},
}
