"""Dtypes agree: `dtype=`, promotion, autocast, whole numbers of any width and a lone number, as without each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, detached, elements_of, moved, numeric, refuse_on_host, word

WHAT = "dtypes agree"
_WHOLE = (torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool)
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64, *_WHOLE)
_INTO: Mapping[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float32: (torch.float64, torch.bfloat16),
    torch.bfloat16: (torch.float32,),
    torch.complex64: (torch.complex128,),
    torch.int8: (torch.int64, torch.float64),
    torch.int64: (torch.int32, torch.float32),
    torch.bool: (torch.int16, torch.float32),
}
_BESIDE: Mapping[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float32: (torch.float64, torch.int64, torch.complex64),
    torch.bfloat16: (torch.float32, torch.float16),
    torch.complex64: (torch.float64,),
    torch.int64: (torch.float32, torch.bool),
    torch.int8: (torch.uint8, torch.int32),
    torch.bool: (torch.int32, torch.bfloat16),
}
_Call: TypeAlias = "tuple[tuple[Any, ...], dict[str, Any]]"


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield a few samples in other dtypes, with numbers that rounding from one to the other changes."""
    drawn = point.kinds(12, alike=True)
    for place, (inputs, options, _) in enumerate(sorted(drawn, key=lambda call: -elements_of(call.inputs))):
        call: _Call = detached((inputs, options))
        if place < 2:
            yield from _named(point, *call)
            yield from _mixed(point, call, place)
            yield from _whole(point, call)
            yield from _autocast(point, *call)
        yield from _lone(point, call)


def _kinds(tree: Any) -> list[torch.dtype]:
    return [leaf.dtype for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _to(tree: Any, before: torch.dtype, after: torch.dtype) -> Any:
    return tree_map(lambda leaf: leaf.to(after) if getattr(leaf, "dtype", None) is before else leaf, tree)


def _named(point: OperatorPoint, inputs: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Relation]:
    """A dtype that is asked for by name, as arguments of it."""
    op, kinds = point.op, list[torch.dtype]()
    options = {name: value for name, value in options.items() if name != "dtype"}
    with suppress(Exception):
        kinds = _kinds(op(*inputs, **options, dtype=torch.float64 if point.dtype is torch.bool else point.dtype))
    if not kinds:
        return
    for dtype in _INTO.get(point.dtype, ()):

        def named(*arguments: Any, dtype: torch.dtype = dtype, **options: Any) -> Any:
            return op(*arguments, **options, dtype=dtype)

        def before(*arguments: Any, dtype: torch.dtype = dtype, **options: Any) -> Any:
            return op(*_to(arguments, point.dtype, dtype), **_to(options, point.dtype, dtype), dtype=dtype)

        code = f"first = operator(*arguments, **options, dtype={dtype})\nsecond = operator(arguments[0].to({dtype}), *arguments[1:])"
        how: dict[str, Any] = {} if dtype.itemsize < point.dtype.itemsize else {"others": lambda _, way=before: way}
        yield Relation(f"dtype={word(dtype)}", inputs, options, named, before, code, refusable=True, **how)


def _mixed(point: OperatorPoint, call: _Call, odd: int) -> Iterator[Relation]:
    """One argument in another dtype, without dimensions, or a number of Python's, as all in the dtype of the result."""
    op = point.op
    leaves, form = tree_flatten(call)
    places = [n for n, leaf in enumerate(leaves) if getattr(leaf, "dtype", None) is point.dtype and leaf.numel()]
    strided = all(leaves[n].layout is torch.strided for n in places)
    if len(places) < 2 or not strided or member("each in its dtype", point.name):
        return
    at = places[-1 - odd % (len(places) - 1)]
    for dtype in _BESIDE.get(point.dtype, ()):
        beside = _between(leaves[at], dtype)
        made = [beside if n == at else leaf for n, leaf in enumerate(leaves)]
        if odd:  # the others are the same numbers, as far as they hold them
            for n in places:
                line = beside.reshape(-1)[torch.arange(leaves[n].numel(), device=point.device) * 7 % beside.numel()]
                made[n] = line.to(point.dtype).reshape(leaves[n].shape) if n != at and not dtype.is_complex else made[n]
        flat = beside.reshape(-1)[0]
        ways = {
            word(dtype): made,
            f"{word(dtype)} without dimensions": [flat if n == at else leaf for n, leaf in enumerate(made)],
        }
        if dtype is not torch.uint8:  # a number that int8 does not hold is no matter of promotion
            ways[f"a number from {word(dtype)}"] = [flat.item() if n == at else leaf for n, leaf in enumerate(made)]
        for says, mixed in ways.items():
            rest = [mixed[n] for n in places if n != at]
            result = torch.result_type(max(rest, key=torch.Tensor.dim), mixed[at])

            own = point.dtype if member("in its first argument's dtype", point.name) else None

            def promoted(*arguments: Any, result: Any = result, own: Any = own, **options: Any) -> Any:
                turned, _ = tree_flatten((arguments, options))
                device = next(turned[n].device for n in places if isinstance(turned[n], torch.Tensor))
                for n in places:
                    turned[n] = torch.as_tensor(turned[n]).to(device, result, non_blocking=True)
                arguments, options = tree_unflatten(turned, form)
                results = op(*arguments, **options)
                return results.to(own) if own else results

            inputs, options = tree_unflatten(mixed, form)
            code = f"""first = operator(*arguments, **options)
second = operator(*(torch.as_tensor(x, dtype={result}) if x is a number or numbers else x for x in arguments), **options)"""
            others = lambda draw, way=promoted: partial(_near, way, draw)  # noqa: E731
            yield Relation(
                f"argument {at} of {says}", inputs, options, op, promoted, code, refusable=True, others=others
            )


def _near(way: Callable[..., Any], draw: int, *arguments: Any, **options: Any) -> Any:
    """Return what moved numbers give, but choices, counts and truth values as they are: those are where a dtype shows."""
    eps = max((torch.finfo(leaf.dtype).eps for leaf in tree_leaves((arguments, options)) if numeric(leaf)), default=0.0)
    inputs, named = moved((arguments, options), eps, draw)
    results = way(*arguments, **options), way(*inputs, **named)
    return tree_map(lambda own, other: other if numeric(other) else own, *results)


def _between(leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers in another dtype next to a tensor's, where it holds them: nearer than its own are to one another."""
    signs = (torch.arange(leaf.numel(), device=leaf.device) % 2 * 2 - 1).reshape(leaf.shape).to(dtype)
    if not _floating(dtype):
        return leaf.to(dtype)
    if not _floating(leaf.dtype):
        return leaf.to(dtype) + signs * 0.25
    real = leaf.real if leaf.is_complex() and not dtype.is_complex else leaf
    return real.to(dtype) * (1 + signs * (torch.finfo(leaf.dtype).eps / 8))


def _whole(point: OperatorPoint, call: _Call) -> Iterator[Relation]:
    """Whole numbers of a few bits, as of 64 that are cut to so many; drawn ones of 32, as floats that are rounded down."""
    if point.dtype not in _WHOLE:
        return
    op, dtype = point.op, point.dtype
    for says in ("drawn", "extreme"):
        if says == "extreme" and member("counts up to a number", point.name):
            return
        count = iter(range(99))
        turn = (lambda leaf: _extreme(leaf, dtype, next(count))) if says == "extreme" else (lambda leaf: leaf)  # noqa: B023
        arguments, options = tree_map(turn, call)
        kinds: list[torch.dtype] = []
        with suppress(Exception):
            refuse_on_host((op,), arguments, options)
            kinds = _kinds(op(*arguments, **options))
        floats = dtype is torch.int32 and says == "drawn" and not any(map(_floating, kinds))
        wider = torch.float64 if floats else torch.int64

        def wide(*inputs: Any, kinds: Any = kinds, wider: torch.dtype = wider, **named: Any) -> Any:
            results = filter(torch.is_tensor, tree_leaves(op(*_to(inputs, dtype, wider), **_to(named, dtype, wider))))
            pairs = zip(results, kinds, strict=True)
            return [(x.floor() if _floating(x.dtype) else x).to(kind) if x.dtype is wider else x for x, kind in pairs]

        def narrow(*inputs: Any, **named: Any) -> Any:
            return [*filter(torch.is_tensor, tree_leaves(op(*inputs, **named)))]

        code = f"first = operator(*arguments, **options)\nsecond = operator(*(x.to({wider}) for x in arguments), **options)"
        if kinds:
            yield Relation(f"{says} numbers as {word(wider)}", arguments, options, narrow, wide, code)


def _floating(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _extreme(leaf: Any, dtype: torch.dtype, which: int) -> Any:
    """Return the ends of the dtype and small numbers; after the first argument none that cannot divide."""
    if getattr(leaf, "dtype", None) is not dtype:
        return leaf
    if dtype is torch.bool:
        return (torch.arange(leaf.numel(), device=leaf.device) * 5 % 7 < 4).reshape(leaf.shape) | (which > 0)
    ends = torch.iinfo(dtype)
    low, high = ends.min + (ends.bits > 16 and ends.min < 0), min(ends.max, 2**63 - 1)  # of 32 bits none is -low
    line = [low, high, 7, 1, -5, 2, -3, high - 1, low + 1, high // 2 + 1, -1, 3, 100]
    line = [number for number in line if number >= ends.min] + [0] * (not which)
    places = (torch.arange(leaf.numel()) * (1 + 2 * which) + which) % len(line)
    return torch.tensor(line)[places].reshape(leaf.shape).to(leaf.device, dtype)


def _autocast(point: OperatorPoint, inputs: tuple[Any, ...], named: dict[str, Any]) -> Iterator[Relation]:
    """Under autocast: as of all numbers in the short dtype if the result is in it, else as of all in float32."""
    op, single, half = point.op, torch.float32, torch.bfloat16
    listed = member("float32 under autocast", point.name)
    if point.dtype not in (single, half) or (point.dtype is half and not listed):
        return

    def cast(*arguments: Any, **options: Any) -> Any:
        with torch.autocast(point.device.type, half):
            return op(*arguments, **options)

    def uncast(*arguments: Any, **options: Any) -> Any:
        short = not listed and any(
            getattr(leaf, "dtype", None) is half for leaf in tree_leaves(cast(*arguments, **options))
        )
        arguments, options = _to((arguments, options), half if listed else single, half if short else single)
        return op(*arguments, **options)

    code = f"""with torch.autocast("{point.device.type}", torch.bfloat16):
    first = operator(*arguments, **options)
second = operator(*arguments, **options)  # in {"float32" if listed else "the dtype of the first"}"""
    yield Relation("under autocast", inputs, named, cast, uncast, code)


def _lone(point: OperatorPoint, call: _Call) -> Iterator[Relation]:
    """Numbers without dimensions, as rows of one."""
    if point.dtype not in (torch.float32, torch.int64, torch.bool) or not isinstance(call[0][0], torch.Tensor):
        return

    def row(leaf: Any) -> Any:
        own = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.numel()
        return leaf.reshape(-1)[:1] if own else leaf

    def flat(tree: Any) -> Any:
        return tree_map(lambda leaf: leaf.reshape(-1) if isinstance(leaf, torch.Tensor) else leaf, tree)

    def alone(*arguments: Any, **options: Any) -> Any:
        lone = tree_map(lambda leaf: leaf.reshape(()) if isinstance(leaf, torch.Tensor) else leaf, (arguments, options))
        return flat(point.op(*lone[0], **lone[1]))

    arguments, options = tree_map(row, call)
    code = "first = operator(*(x.reshape(()) for x in arguments), **options)\nsecond = operator(*arguments, **options)"
    rows: Any = lambda *inputs, **named: flat(point.op(*inputs, **named))  # noqa: E731
    yield Relation("of no dimension as of one", arguments, options, alone, rows, code, refusable=True)
