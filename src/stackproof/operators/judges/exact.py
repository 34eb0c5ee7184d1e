"""Results that need no rounding are exact: products of small whole numbers, moved bits, and large numbers that are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import torch
from torch.utils._pytree import tree_map

from stackproof.operators.judges.references import grown
from stackproof.operators.points import LAYOUTS, OperatorPoint, member
from stackproof.operators.relation import Relation, numeric

WHAT = "what needs no rounding is exact"
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64)
_BIT = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_OFFSET = 2**60 + 1

_ARITHMETIC: Mapping[str, tuple[int, tuple[int, ...], Callable[[list[int]], Any]]] = {
    "sum": (2**56, (0,), sum),
    "cumsum": (2**56, (0,), lambda x: [*accumulate(x)]),
    "add": (_OFFSET, (_OFFSET,), lambda x: [n + _OFFSET for n in x]),
    "sub": (_OFFSET, (7,), lambda x: [n - 7 for n in x]),
    "mul": (2**30, (2**30 + 1,), lambda x: [n * (2**30 + 1) for n in x]),
    "square": (2**30, (), lambda x: [n * n for n in x]),
    "pow": (2**19, (3,), lambda x: [n**3 for n in x]),
    "clamp": (_OFFSET, (_OFFSET + 6, _OFFSET + 10), lambda x: [min(max(n, _OFFSET + 6), _OFFSET + 10) for n in x]),
    "clamp_min": (_OFFSET, (_OFFSET + 6,), lambda x: [max(n, _OFFSET + 6) for n in x]),
    "clamp_max": (_OFFSET, (_OFFSET + 10,), lambda x: [min(n, _OFFSET + 10) for n in x]),
}
"""What is added to numbers, what comes after them, and what Python has: whole numbers that no double holds."""


def suits(name: str, _op: Any) -> bool:
    """Whether it multiplies and adds, moves, or chooses."""
    return name in _ARITHMETIC or any(member(group, name) for group in ("multiplies and adds", "moves", "chooses"))


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield what is exact of an operator in this dtype."""
    name = point.name
    if member("moves", name):
        yield from _moved(point)
    if point.dtype is torch.int64 and (member("chooses", name) or name in _ARITHMETIC):
        yield from _shifted(point)
    if member("multiplies and adds", name) and point.dtype is not torch.int64:
        calls = [("", inputs, options) for inputs, options, _ in point.samples(6)]
        for says, arguments, options in (*calls, *grown(point, calls, 20, 129)):
            yield _same(point, f"small whole numbers, {says}", tree_map(_whole, arguments), tree_map(_whole, options))
            if "beta" in options:
                yield _ignored(point, says, tree_map(_whole, arguments), {**options, "beta": 0})


def _same(point: OperatorPoint, says: str, arguments: Any, options: Any) -> Relation:
    def wide(*inputs: Any, **named: Any) -> Any:
        inputs, named = tree_map(lambda leaf: leaf.double() if numeric(leaf) else leaf, (inputs, named))
        return tree_map(lambda leaf: leaf.to(point.dtype) if numeric(leaf) else leaf, point.op(*inputs, **named))

    code = """first = operator(*arguments, **options)
second = operator(*(x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in arguments), **options)"""
    exact = not point.name.startswith("nn.functional.conv")  # fast ways to convolve divide in between
    return Relation(says, arguments, options, point.op, wide, code, exact=exact)


def _ignored(point: OperatorPoint, says: str, arguments: Any, options: Any) -> Relation:
    """What a factor of zero takes away is not read: https://docs.pytorch.org/docs/stable/generated/torch.addmm.html."""
    code = "first = operator(arguments[0] * nan, *arguments[1:], **options)\nsecond = operator(*arguments, **options)"
    first = lambda x, *more, **named: point.op(x * torch.nan, *more, **named)  # noqa: E731
    return Relation(f"NaN that beta=0 takes away, {says}", arguments, options, first, point.op, code, exact=True)


def _whole(leaf: Any) -> Any:
    """Return small whole numbers in place of others, that any dtype adds and multiplies without rounding."""
    if type(leaf) is float:  # what multiplies a part
        return 2.0
    if not numeric(leaf):
        return leaf
    drawn = torch.arange(leaf.numel(), device=leaf.device) * 7919 % 8191 % 5 - 2
    return torch.empty_like(leaf).copy_(drawn.reshape(leaf.shape))  # as it lies in memory


def _moved(point: OperatorPoint) -> Iterator[Relation]:
    """Yield samples of bits that arithmetic would lose, subnormal numbers and zeros, and the same bits as whole numbers."""
    bits = _BIT[point.dtype.itemsize]

    def fill(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype is not point.dtype:
            return leaf
        drawn = (torch.arange(leaf.numel(), device=leaf.device) * 40_503 % 65_521 - 2**15).to(bits)
        drawn = torch.where(drawn % 3 == 0, drawn % 64, drawn).reshape(leaf.shape)  # subnormal ones
        if point.dtype is torch.int64:
            return drawn
        values = drawn.view(point.dtype)
        return torch.where(values.isnan(), torch.inf, values)  # what copies a NaN through a wider dtype may quiet it

    calls = [(inputs, options) for inputs, options, _ in point.samples(6)]
    picture = torch.empty(2, 6, 3, 4, dtype=point.dtype, device=point.device)
    if point.name in ("cat", "stack"):
        calls.append((([picture, picture], 1), {}))
    for inputs, named in calls:
        for says, lay in (("bits", lambda leaf: leaf), ("bits of channels-last", LAYOUTS["channels-last"][0])):

            def as_bits(leaf: Any) -> Any:
                own = isinstance(leaf, torch.Tensor) and leaf.dtype is point.dtype
                return leaf.contiguous().view(bits) if own else leaf

            def moved(*arguments: Any, **options: Any) -> Any:
                return tree_map(as_bits, point.op(*arguments, **options))

            def whole(*arguments: Any, **options: Any) -> Any:
                return point.op(*tree_map(as_bits, arguments), **tree_map(as_bits, options))

            arguments = tree_map(lambda leaf: lay(fill(leaf)) if torch.is_tensor(leaf) else leaf, inputs)  # noqa: B023
            code = f"bits = {bits}\nfirst = operator(*arguments, **options).view(bits)\nsecond = None  # of the arguments' bits"
            yield Relation(says, arguments, tree_map(fill, dict(named)), moved, whole, code, exact=True)


def _shifted(point: OperatorPoint) -> Iterator[Relation]:
    """Yield samples of whole numbers that no float holds: an order is the same there, and a sum is so much larger."""
    says, line = "large whole numbers", torch.arange(1, 8, device=point.device)

    def shifted(tree: Any, by: int) -> Any:
        return tree_map(lambda leaf: leaf + by if getattr(leaf, "dtype", None) is torch.int64 else leaf, tree)

    def far(*arguments: Any, **options: Any) -> Any:
        return shifted(point.op(*shifted(arguments, _OFFSET), **shifted(options, _OFFSET)), -_OFFSET)

    if point.name in _ARITHMETIC:
        offset, more, python = _ARITHMETIC[point.name]
        code = f"first = operator(arguments[0], *{more})\nsecond = None  # what Python's whole numbers give"
        expected = lambda x: torch.tensor(python(x.tolist()), device=x.device)  # noqa: E731
        yield Relation(says, (2 * line + 1 + offset,), {}, lambda x: point.op(x, *more), expected, code, exact=True)
        return
    code = f"first = operator(*(x + {_OFFSET} for x in arguments), **options) - {_OFFSET}\nsecond = operator(*arguments, **options)"
    for inputs, options, _ in point.samples(6):
        yield Relation(says, inputs, options, far, point.op, code, exact=True)
