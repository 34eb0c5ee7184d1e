"""Elementwise: a number gives the same alone and in a row, in a narrow and a wide dtype, in NumPy, and at infinity as near it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from stackproof.operators.points import COMPLEX, FLOATS, OperatorPoint, member
from stackproof.operators.relation import WIDE_CODE, Relation, numeric

WHAT = "each number by itself"
DTYPES = (*FLOATS, *COMPLEX, torch.int32, torch.uint8)
_LENGTH, _ALONE = 1031, 192
_EDGES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257)
"""Lengths around what a kernel takes at once."""
_CLASSES = ("UnaryUfuncInfo", "BinaryUfuncInfo")


def suits(name: str, op: Any) -> bool:
    """Whether every number of the result depends on one number of each argument."""
    return (type(op).__name__ in _CLASSES or member("elementwise", name)) and not member("not elementwise", name)


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield the relations of two samples' options on special, extreme and ordinary numbers."""
    seen: list[str] = []
    for sample in point.samples(12):
        tensors = [leaf for leaf in (sample.input, *sample.args) if isinstance(leaf, torch.Tensor)]
        plain = [leaf for leaf in (*sample.args, *sample.kwargs.values()) if not isinstance(leaf, torch.Tensor)]
        kind = repr((len(tensors), plain, sorted(sample.kwargs)))
        if kind in seen or not tensors or len(seen) == 2:
            continue
        seen.append(kind)
        count = iter(range(99))
        arguments = tree_map(lambda leaf: _filled(leaf, point, next(count)), (sample.input, *sample.args))  # noqa: B023
        options = tree_map(lambda leaf: _filled(leaf, point, next(count)), dict(sample.kwargs))  # noqa: B023
        if point.dtype.is_complex:
            ordinary = tree_map(_moderate, (arguments, options))
            for relation in _of(point, *ordinary):
                yield replace(relation, says=f"{relation.says}, ordinary numbers")
        yield from _of(point, arguments, options)


def _moderate(leaf: Any) -> Any:
    """Return as many ordinary numbers: none special, large or small."""
    if not numeric(leaf):
        return leaf
    size = torch.linspace(0.1, 3.0, len(leaf), dtype=torch.float64, device=leaf.device).to(leaf.dtype)
    share = 1 + leaf[:1].abs().nan_to_num(1, 1, 1).to(torch.float64) % 1
    turn = torch.arange(len(leaf), device=leaf.device) * share * 0.7
    return size * torch.polar(torch.ones_like(turn), turn).to(leaf.dtype) if leaf.is_complex() else size


def _of(point: OperatorPoint, arguments: Any, options: Any) -> Iterator[Relation]:
    op = point.op
    count = _ALONE if point.on_host else 96  # each is a call of its own
    chosen = [*range(count // 2), *point.draw.sample(range(count // 2, _LENGTH), count - count // 2)]

    def row(*inputs: Any, **named: Any) -> Any:
        return tree_map(lambda out: out[chosen], op(*inputs, **named))

    def alone(*inputs: Any, **named: Any) -> Any:
        results = []
        for place in chosen:
            cut = lambda leaf: leaf[place : place + 1].clone() if isinstance(leaf, torch.Tensor) else leaf  # noqa: B023, E731
            results.append(op(*tree_map(cut, inputs), **tree_map(cut, named)))
        return tree_map(lambda *outs: torch.cat(outs), *results)

    def first(count: int, tree: Any) -> Any:
        return tree_map(lambda leaf: leaf[:count] if isinstance(leaf, torch.Tensor) else leaf, tree)

    def beginnings(*inputs: Any, **named: Any) -> Any:
        return [op(*first(count, inputs), **first(count, named)) for count in _EDGES]

    def begun(*inputs: Any, **named: Any) -> Any:
        whole = op(*inputs, **named)
        return [first(count, whole) for count in _EDGES]

    code = f"""first = [operator(*(a[:n] if torch.is_tensor(a) else a for a in arguments), **options) for n in {_EDGES}]
second = [operator(*arguments, **options)[:n] for n in {_EDGES}]"""
    yield Relation("the beginning of a row", arguments, options, beginnings, begun, code, 16.0, elementwise=True)
    few = tree_map(lambda leaf: leaf[chosen] if isinstance(leaf, torch.Tensor) else leaf, (arguments, options))
    each = "second = torch.cat([operator(*(a[i:i + 1] if torch.is_tensor(a) else a for a in arguments), **options) for i in range({})])"
    code = f"first = operator(*arguments, **options)\n{each.format(len(chosen))}"
    chosen = list(range(len(chosen)))
    yield Relation("alone as in a row", few[0], few[1], row, alone, code, 16.0, elementwise=True)
    if not (point.dtype.is_floating_point or point.dtype.is_complex):
        return
    if member("about representation", point.name):
        return
    if point.dtype not in (torch.float64, torch.complex128):
        code = f"first = operator(*arguments, **options)\n{WIDE_CODE}"
        ulps = 4.0 if point.dtype.itemsize == 2 else 16.0
        yield Relation("narrow as wide", arguments, options, op, op, code, ulps, elementwise=True, widened=True)
    elif _has_reference(op) and not options and all(map(numeric, arguments)):

        def numpy_way(*inputs: Any) -> Any:
            with np.errstate(all="ignore"):
                return torch.from_numpy(np.asarray(op.ref(*(tensor.cpu().numpy() for tensor in inputs))))

        code = f"# second is what NumPy gives: {getattr(op.ref, '__name__', op.ref)}\nfirst = second = operator(*arguments)"
        yield Relation("as NumPy has it", arguments, options, op, numpy_way, code, 64.0, elementwise=True)
    if point.dtype.is_floating_point and len(arguments) == 1:
        yield from _limits(point, options)


def _limits(point: OperatorPoint, options: Any) -> Iterator[Relation]:
    """Compare the value at infinity with the limit of ever larger numbers, where there is one."""
    op, top = point.op, torch.finfo(point.dtype).max
    ends = torch.tensor([torch.inf, -torch.inf], dtype=point.dtype, device=point.device)

    def limit(x: Any, **named: Any) -> Any:
        steps = [op(x.clamp(-top, top) * share, **named) for share in (1.0, 2.0**-3, 2.0**-9, 2.0**-20)]
        here = op(x, **named)
        if not numeric(here) or any(step.shape != here.shape for step in steps):
            return here
        settled = torch.stack([step == steps[0] for step in steps]).all(0)
        return torch.where(settled, steps[0], here)

    code = f"first = operator(*arguments, **options)\nsecond = operator(arguments[0].clamp({-top}, {top}), **options)"
    yield Relation("at infinity as on the way there", (ends,), options, op, limit, code, 4.0, elementwise=True)


def _has_reference(op: Any) -> bool:
    return op.ref is not None and not type(op.ref).__name__.startswith("_NotImpl") and "_NOTHING" not in repr(op.ref)


def _filled(leaf: Any, point: OperatorPoint, which: int) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.dtype is torch.bool:
        return torch.arange(_LENGTH, device=point.device) % 3 == 0
    if not numeric(leaf):
        span = torch.arange(_LENGTH, device=point.device) * 37 % (13 if which else 200)
        return (span + bool(which)).to(leaf.dtype)
    return values(leaf.dtype, which).to(point.device)


@cache
def values(dtype: torch.dtype, which: int) -> torch.Tensor:
    """Return specials, numbers of every size, those where exponentials and squares leave the range, and ordinary ones.

    Arguments after the first are the same in another order, so that every special meets many others.
    """
    real = dtype.to_real()
    info = torch.finfo(real)
    special = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.0, -1.0]
    special += [info.max, -info.max, info.tiny, -info.tiny, info.eps]
    special += [info.smallest_normal / 4, 0.5, -0.5, 2.0, -2.0, 1.5, 3.0, info.max**0.5, -(info.max**0.5)]
    edge = float(np.log(info.max))
    special += [edge * share for share in (0.5, 0.999, 1.0, 1.004, 1.02, 1.5, -0.999, -1.02, -1.2)]
    generator = torch.Generator().manual_seed(7)
    drawn = torch.rand(_LENGTH, generator=generator, dtype=torch.float64)
    low, high = float(np.log10(info.tiny)), float(np.log10(info.max))
    sizes = 10 ** (low + drawn * (high - low) * 0.9999)
    sizes = torch.where(torch.rand(_LENGTH, generator=generator) < 0.5, sizes, -sizes)
    near = torch.linspace(-1.1 * edge, 1.1 * edge, 2 * _LENGTH // 5, dtype=torch.float64)
    ordinary = torch.randn(_LENGTH // 3, generator=generator, dtype=torch.float64) * 2
    line = torch.cat([torch.tensor(special, dtype=torch.float64), ordinary, near, sizes])[:_LENGTH].to(real)
    if dtype.is_complex:
        other = line[torch.randperm(_LENGTH, generator=generator)]
        other[: len(special)] = line[: len(special)].roll(which + 3)
        real_parts, others = (
            (0.0, -torch.inf, torch.inf, 1.0, 501.0, -7742.0),
            (0.0, torch.inf, -torch.inf, torch.nan, 1.0),
        )
        pairs = torch.cartesian_prod(torch.tensor(real_parts, dtype=real), torch.tensor(others, dtype=real))
        rest = slice(len(special), _LENGTH - len(pairs) + len(special))
        line = torch.complex(torch.cat([pairs[:, 0], line[rest]]), torch.cat([pairs[:, 1], other[rest]]))
    if which:
        line = line[torch.randperm(_LENGTH, generator=torch.Generator().manual_seed(which))]
    return line
