"""Elementwise: a number gives the same alone, in a row, mirrored, in a narrow and a wide dtype and in NumPy.

Zeros count by their signs, and every special number meets every other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.operators.judges.namesakes import numpys, reference
from stackproof.operators.points import COMPLEX, FLOATS, OperatorPoint, in_place, member
from stackproof.operators.relation import WIDE_CODE, Relation, UnusableError, least, numeric

WHAT = "each number by itself"
DTYPES = (*FLOATS, *COMPLEX, torch.int32, torch.int8, torch.uint8, torch.bool)
_LENGTH, _ALONE = 1499, 96
_EDGES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257)
"""Lengths around what a kernel takes at once."""
_CLASSES = ("UnaryUfuncInfo", "BinaryUfuncInfo")
_PYTHONS: Mapping[str, str] = {
    **{f"bitwise_{name.strip('_')}": name for name in ("and_", "or_", "xor")},
    "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift",
    "div.no_rounding_mode": "truediv", "floor_divide": "floordiv", "remainder": "mod",
}  # fmt: skip
"""Operators of module `operator` by torch's names where these are others."""
_CUTS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5)
"""Real and imaginary parts on both sides of the cuts of functions."""


def suits(name: str, op: Any) -> bool:
    """Whether every number of the result depends on one number of each argument."""
    return (type(op).__name__ in _CLASSES or member("elementwise", name)) and not member("not elementwise", name)


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield the relations of two samples' options on special, extreme and ordinary numbers."""
    for inputs, named, _ in point.kinds(2, alike=True):
        for fill in (_moderate, _filled) if point.dtype in FLOATS + COMPLEX else (_filled,):
            count = iter(range(99))
            arguments, options = tree_map(lambda leaf: fill(leaf, point, next(count)), (inputs, named))  # noqa: B023
            yield from _of(point, arguments, options, ", ordinary numbers" if fill is _moderate else "")


def _of(point: OperatorPoint, arguments: Any, options: Any, on: str) -> Iterator[Relation]:
    count = _ALONE  # each is a call of its own
    chosen = point.draw.sample(range(_LENGTH), count)

    def op(*inputs: Any, **named: Any) -> Any:
        return tree_map(lambda leaf: _signed(leaf, point), point.op(*inputs, **named))

    def first(count: int, tree: Any) -> Any:
        return tree_map(lambda leaf: leaf[:count] if isinstance(leaf, torch.Tensor) else leaf, tree)

    def alone(*inputs: Any, **named: Any) -> Any:
        results = []
        for place in range(count):
            cut = lambda leaf: leaf[place : place + 1].clone() if isinstance(leaf, torch.Tensor) else leaf  # noqa: B023, E731
            results.append(point.op(*tree_map(cut, inputs), **tree_map(cut, named)))
        return tree_map(lambda *outs: _signed(torch.cat(outs), point), *results)

    def beginnings(*inputs: Any, **named: Any) -> Any:
        return [op(*first(count, inputs), **first(count, named)) for count in _EDGES]

    def begun(*inputs: Any, **named: Any) -> Any:
        whole = op(*inputs, **named)
        return [first(count, whole) for count in _EDGES]

    def relation(says: str, first: Any, second: Any, code: str, ulps: float, **more: Any) -> Relation:
        inputs, named = more.pop("call", (arguments, options))
        return Relation(says + on, inputs, named, first, second, code, ulps, elementwise=True, **more)

    code = f"""first = [operator(*(a[:n] if torch.is_tensor(a) else a for a in arguments), **options) for n in {_EDGES}]
second = [operator(*arguments, **options)[:n] for n in {_EDGES}]"""
    plain = "first = operator(*arguments, **options)\n"
    lean = bool(on) and not point.dtype.is_complex  # how numbers stand in a row has been asked of special ones
    if not lean:
        yield relation("the beginning of a row", beginnings, begun, code, 16.0)
        yield from _spelled(point, relation, arguments, options)
    few = tree_map(lambda leaf: leaf[chosen] if isinstance(leaf, torch.Tensor) else leaf, (arguments, options))
    each = "second = torch.cat([operator(*(a[i:i + 1] if torch.is_tensor(a) else a for a in arguments), **options) for i in range({})])"
    if not lean:
        yield relation("alone as in a row", op, alone, f"{plain}{each.format(count)}", 16.0, call=few)
    if member("about representation", point.name):
        return
    narrow = point.dtype in (torch.float32, torch.bfloat16, torch.float16, torch.complex64)
    ulps = 4.0 if point.dtype.itemsize == 2 else 16.0
    if narrow:
        once = point.dtype is torch.float32 and not options and member("exact of each number", point.name)
        wide = (lambda *inputs: op(*inputs).to(point.dtype)) if once else op
        yield relation("narrow as wide", op, wide, f"{plain}{WIDE_CODE}", ulps, widened=True, exact=once)
    if reference(point.op) and not member("otherwise in NumPy", point.name):
        way = numpys(point.op)

        def numpy_way(*inputs: Any, **named: Any) -> Any:
            return [_signed(leaf, point) for leaf in way(*inputs, **named)]

        code = f"# second is what NumPy gives\n{plain}second = first"
        ulps = 64.0 if point.dtype.itemsize > 2 else ulps
        yield relation(
            "as NumPy has it", lambda *a, **o: tree_leaves(op(*a, **o)), numpy_way, code, ulps, widened=narrow
        )
    if not lean and (point.dtype.is_floating_point or point.dtype.is_complex):
        yield from (relation(*parts, 4.0) for parts in _mirrored(point, op, arguments, options))


def _spelled(
    point: OperatorPoint, relation: Callable[..., Relation], arguments: Any, options: Any
) -> Iterator[Relation]:
    """Yield special numbers in place, and with Python's numbers for the other arguments."""
    op, (first, *rest) = point.op, arguments

    def written(x: torch.Tensor, *more: Any, **named: Any) -> Any:
        way(target := x.clone(), *more, **named)
        return target

    def plain(x: torch.Tensor, *more: Any, **named: Any) -> Any:
        if (result := op(x, *more, **named)).dtype is not x.dtype:
            raise UnusableError("the result is of another dtype")
        return result

    way: Any = in_place(op)
    if way:
        code = "operator is written in place here\nfirst = second = operator(*arguments, **options)"
        yield relation("in place", written, plain, f"# {code}", 16.0)
    python = _PYTHONS.get(point.name, point.name) if len(rest) == 1 and not point.dtype.is_complex else ""
    sign, write = (getattr(operator, name, None) for name in (python, f"i{python.strip('_')}"))
    numbers = (-0.75,) if point.dtype.is_complex else (3, -7, 2.5) if point.dtype.is_signed else (3, 2.5)
    for number in numbers if any(map(torch.is_tensor, rest)) else ():

        def mixed(x: torch.Tensor, number: Any = number, **named: Any) -> Any:
            more = [number + place if torch.is_tensor(y) else y for place, y in enumerate(rest)]
            results = [op(x, *more, **named)]
            if sign and not named:
                results += [sign(x, *more), sign(*more, x)]
                results += [write(x.clone(), *more)] if write and results[0].dtype is x.dtype else []
            return [_signed(result, point) for result in results]

        def filled(x: torch.Tensor, number: Any = number, **named: Any) -> Any:
            each = [(number + place, y) for place, y in enumerate(rest)]
            kind = torch.result_type(x, number)
            more = [torch.full_like(x, n, dtype=kind) if torch.is_tensor(y) else y for n, y in each]
            results = [op(x, *more, **named)]
            if sign and not named:
                results += [results[0], op(*more, x)]
                results += [results[0]] if write and results[0].dtype is x.dtype else []
            return [_signed(result, point) for result in results]

        code = f"first = operator(arguments[0], {number}, **options)\nsecond = None  # of tensors that are full of this number"
        says = f"with Python's {number}"
        yield relation(says, mixed, filled, code, 16.0, call=((first,), options), refusable=True)


def _signed(leaf: Any, point: OperatorPoint) -> Any:
    """Return zeros moved by their signs: so little that no other number is apart from them by that, but they are.

    Of those that an order chooses from, as activations do, IEEE takes either; so do some others.
    """
    either = any(member(group, point.name) for group in ("chooses", "zeros of either sign")) or point.name.startswith(
        "nn."
    )
    if either or not numeric(leaf) or leaf.is_complex() or not point.dtype.is_floating_point:
        return leaf
    zero = torch.full_like(leaf, 40 * least(point.dtype)).copysign(leaf)
    return torch.where(leaf.to(point.dtype) == 0, zero, leaf)


def _negated(tree: Any) -> Any:
    """Return other signs, also of zeros, which negation of complex numbers loses in a row."""

    def negated(leaf: Any) -> Any:
        if not numeric(leaf):
            return leaf
        return torch.complex(-leaf.real, -leaf.imag) if leaf.is_complex() else -leaf

    return tree_map(negated, tree)


def _conjugate(tree: Any) -> Any:
    return tree_map(lambda leaf: torch.conj(leaf).resolve_conj() if numeric(leaf) else leaf, tree)


_MIRRORS: Sequence[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = (
    ("odd", _negated, _negated),
    ("even", _negated, lambda tree: tree),
    ("conjugate", _conjugate, _conjugate),
    ("swapped", lambda tree: (tree[0][::-1], tree[1]), lambda tree: tree),
)
"""What may be done to the arguments, and then undone in the result."""


def _mirrored(point: OperatorPoint, op: Any, arguments: Any, options: Any) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield the symmetries that ordinary numbers have: special ones have them too."""
    draw = torch.Generator().manual_seed(1)
    ordinary = torch.randn(9, 64, generator=draw, dtype=torch.complex128)
    ordinary = (ordinary if point.dtype.is_complex else ordinary * torch.logspace(-1, 4, 64)).to(
        point.device, point.dtype
    )
    count = iter(range(9))
    call = tree_map(lambda leaf: ordinary[next(count)] if numeric(leaf) else leaf, (arguments, options))
    for says, change, undo in _MIRRORS:
        if len(arguments) != 2 if "swapped" in says else len(arguments) != 1 and says != "conjugate":
            continue
        if says == "conjugate" and not point.dtype.is_complex:
            continue

        def way(*inputs: Any, change: Any = change, undo: Any = undo, **named: Any) -> Any:
            changed, other = change((inputs, named))
            return tree_map(lambda leaf: _signed(leaf, point), undo(point.op(*changed, **other)))

        with suppress(Exception):  # what it refuses has been asked
            sides = (tree_leaves(side(*call[0], **call[1])) for side in (point.op, way))
            if all(numeric(x) and torch.allclose(x, y, 1e-2, equal_nan=True) for x, y in zip(*sides, strict=True)):
                code = f"first = operator(*arguments, **options)\nsecond = None  # it is {says} at ordinary numbers"
                yield says, op, way, code


def _filled(leaf: Any, point: OperatorPoint, which: int) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    span = torch.arange(_LENGTH)
    if leaf.dtype is torch.bool:
        return ((span >> which) % 2 == 0).to(point.device)
    if numeric(leaf):
        return values(leaf.dtype, which).to(point.device)
    if which:  # divisors, shifts and powers
        return (span * 37 % 13 + 1).to(point.device, leaf.dtype)
    info = torch.iinfo(leaf.dtype)
    line = span * 37 % 200 - (100 if info.min else 0)
    line[::99], line[1::99] = info.min + bool(info.min), info.max  # -1 and the lowest may stop the process
    return line.to(point.device, leaf.dtype)


def _moderate(leaf: Any, point: OperatorPoint, which: int) -> Any:
    """Return ordinary numbers, none large or small; the first are on cuts, of real ones infinities too. Of a share it is the end."""
    if type(leaf) is float:
        return 1.0
    if not numeric(leaf):
        return _filled(leaf, point, which)
    if not leaf.is_complex():
        pairs = _column((*_CUTS, torch.inf, -torch.inf), which)
        line = torch.logspace(-2, 1, _LENGTH - len(pairs), dtype=torch.float64)
        line[::2] *= -1
        order = torch.randperm(len(line), generator=torch.Generator().manual_seed(which))
        return torch.cat([pairs, line[order]]).to(point.device, leaf.dtype)
    cuts = torch.complex(_column(_CUTS, 2 * which), _column(_CUTS, 2 * which + 1))
    size = torch.linspace(0.1, 3.0, _LENGTH - len(cuts), dtype=torch.float64)
    turn = torch.arange(len(size), dtype=torch.float64) * (0.7 + which / 3)
    return torch.cat([cuts, torch.polar(size, turn)]).to(point.device, leaf.dtype)


def _column(line: Sequence[float], which: int) -> torch.Tensor:
    """Return numbers of a line of a prime length, in an order in which each meets each of every other column."""
    places = torch.arange(len(line) ** 2)
    return torch.tensor(line, dtype=torch.float64)[(places // len(line) + which * places) % len(line)]


@cache
def values(dtype: torch.dtype, which: int) -> torch.Tensor:
    """Return pairs of specials, numbers of every size, those where exponentials and squares leave the range, and ordinary ones.

    Of arguments after the first all but the pairs come in another order.
    """
    real = dtype.to_real()
    info = torch.finfo(real)
    pairs = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5]
    pairs += [info.max, -info.max, info.tiny, -info.tiny, info.smallest_normal / 4]
    special = [info.eps, -0.5, 1.5, info.max**0.5, -(info.max**0.5)]
    edge = float(np.log(info.max))
    special += [edge * share for share in (0.5, 0.999, 1.0, 1.004, 1.02, 1.5, -0.999, -1.02, -1.2)]
    generator = torch.Generator().manual_seed(7)
    drawn = torch.rand(_LENGTH, generator=generator, dtype=torch.float64)
    low, high = float(np.log10(info.tiny)), float(np.log10(info.max))
    sizes = 10 ** (low + drawn * (high - low) * 0.9999)
    sizes = torch.where(torch.rand(_LENGTH, generator=generator) < 0.5, sizes, -sizes)
    near = torch.linspace(-1.1 * edge, 1.1 * edge, 2 * _LENGTH // 5, dtype=torch.float64)
    ordinary = torch.randn(_LENGTH // 3, generator=generator, dtype=torch.float64) * 2
    line = torch.cat([torch.tensor(special, dtype=torch.float64), ordinary[:300], near[::2], sizes])
    count = _LENGTH - len(pairs) ** 2

    def column(place: int) -> torch.Tensor:
        order = torch.randperm(count, generator=torch.Generator().manual_seed(place)) if place else torch.arange(count)
        return torch.cat([_column(pairs, place), line[:count][order]]).to(real)

    return torch.complex(column(2 * which), column(2 * which + 1)) if dtype.is_complex else column(which)
