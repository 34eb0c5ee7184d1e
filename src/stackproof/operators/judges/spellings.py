"""Spellings agree: methods, in place, `out=` that is strided or an argument, other layouts, and without gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from stackproof.operators.points import LAYOUTS, OperatorCall, OperatorPoint, in_place, member
from stackproof.operators.relation import (
    Relation,
    UnusableError,
    detached,
    numeric,
    refuse_on_host,
    tracked,
    with_gradients,
)

WHAT = "spellings agree"
DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bfloat16)
_PLAIN = "second = operator(*arguments, **options)"
_WIDER = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float32,
    torch.complex64: torch.complex128,
    torch.int64: torch.float32,
    torch.bool: torch.int32,
}


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield other ways to write a few of the operator's samples."""
    backward = point.dtype in point.op.supported_backward_dtypes(point.device.type)
    for call in map(detached, point.samples(4, gradient=backward)):
        if isinstance(call.inputs[0], torch.Tensor):
            yield from _methods(point, call)
        if point.op.supports_out:
            yield from _outs(point, call)
        yield from _layouts(point, call)
        if backward:
            yield from _modes(point, call)


def _relation(
    point: OperatorPoint, call: OperatorCall, says: str, first: Callable[..., Any], code: str, **more: Any
) -> Relation:
    return Relation(says, call.inputs, call.options, first, point.op, f"{code}\n{_PLAIN}", **more)


def _methods(point: OperatorPoint, call: OperatorCall) -> Iterator[Relation]:
    op, name = point.op, point.op.name.rpartition(".")[2]
    if op.method_variant is not None:
        code = f"first = arguments[0].{name}(*arguments[1:], **options)"
        yield _relation(point, call, "as a method", op.method_variant, code)
    if not (way := in_place(op)) or call.sample.broadcasts_input:
        return

    def written(copy: Callable[..., Any], tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        target = copy(tensor)
        way(target, *arguments, **options)
        return target

    def plain(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        result = op(tensor, *arguments, **options)
        if not isinstance(result, torch.Tensor) or (result.dtype, result.shape) != (tensor.dtype, tensor.shape):
            raise UnusableError("the result is not of the input's form")
        return result

    code = f"first = arguments[0].clone()\nfirst.{name}_(*arguments[1:], **options)\n{_PLAIN}"
    backward = point.dtype in op.supported_backward_dtypes(point.device.type)
    for says, (lay, _) in {"": (torch.clone, ""), **LAYOUTS}.items():
        first, second = (with_gradients(way, backward and not says) for way in (partial(written, lay), plain))
        if not says or lay(call.inputs[0]).stride() != call.inputs[0].stride():
            yield Relation(f"in place {says}".strip(), call.inputs, call.options, first, second, code)


def _outs(point: OperatorPoint, call: OperatorCall) -> Iterator[Relation]:
    op = point.op
    try:
        call = _squared(call, op)
        expected = op(*call.inputs, **call.options)
    except Exception:
        return

    def into(target: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            out = target(arguments)
            op(*arguments, **options, out=out)
            return out

        return run

    for says, (lay, shown) in LAYOUTS.items():
        laid = into(lambda _, lay=lay: tree_map(lambda leaf: lay(torch.full_like(leaf, 7)), expected))
        code = (
            f"{_PLAIN}\nx = torch.full_like(second, 7)\nfirst = {shown}\noperator(*arguments, **options, out=first)\n#"
        )
        yield _relation(point, call, f"out= {says}", laid, code)
    if not isinstance(expected, torch.Tensor):
        return
    if wide := _WIDER.get(expected.dtype):

        def converted(*arguments: Any, **options: Any) -> Any:
            return op(*arguments, **options).to(wide)

        widely = into(lambda _: torch.full_like(expected, 7, dtype=wide))
        code = f"second = operator(*arguments, **options).to({wide})\nfirst = operator(*arguments, **options, out=torch.zeros_like(second))"
        how: dict[str, Any] = {"refusable": True, "dtypes": (expected.dtype,) if numeric(expected) else ()}
        yield Relation("out= of a wider dtype", call.inputs, call.options, widely, converted, code, **how)
    for place, leaf in enumerate(call.inputs):
        alike = isinstance(leaf, torch.Tensor) and (leaf.shape, leaf.dtype) == (expected.shape, expected.dtype)
        if alike and leaf.numel():
            code = f"{_PLAIN}\nfirst = operator(*arguments, **options, out=arguments[{place}])\n#"
            aliased = into(lambda arguments, at=place: arguments[at])
            yield _relation(point, call, f"out= is argument {place}", aliased, code, refusable=True)


def _squared(call: OperatorCall, op: Any) -> OperatorCall:
    """Return the call with square matrices, so that arguments have the result's form, where the operator takes them."""
    leaves = [leaf for leaf in call.inputs if isinstance(leaf, torch.Tensor)]
    if any(leaf.dtype is not leaves[0].dtype for leaf in leaves):
        return call  # pivots and indices fit the shape that they came with (pytorch#177829 reads beyond them)
    side = max((leaf.shape[-1] for leaf in leaves if leaf.dim() > 1), default=0)

    def square(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() < 2 or 0 in leaf.shape:
            return leaf
        rows = leaf.repeat_interleave(-(-side // leaf.shape[-2]), -2)[..., :side, :]
        return rows.repeat_interleave(-(-side // leaf.shape[-1]), -1)[..., :side]

    made = tuple(map(square, call.inputs))
    try:
        refuse_on_host((op,), made, call.options)
        op(*made, **call.options)
    except Exception:
        return call
    return call._replace(inputs=made)


def _layouts(point: OperatorPoint, call: OperatorCall) -> Iterator[Relation]:
    """Each argument in another layout, and its gradient."""
    if member("about layout", point.name):
        return
    op, inputs = point.op, call.inputs
    places = [n for n, leaf in enumerate(inputs) if isinstance(leaf, torch.Tensor) and leaf.numel() > 1]
    for says, (change, code) in LAYOUTS.items():
        for place in places:
            before = inputs[place]
            if before.layout is not torch.strided:
                continue
            if says != "behind an odd offset" and change(before).stride() == before.stride():
                continue

            def laid(*arguments: Any, at: int = place, lay: Any = change, **options: Any) -> Any:
                return op(*(lay(leaf) if n == at else leaf for n, leaf in enumerate(arguments)), **options)

            shown = f"x = arguments[{place}]\nfirst = operator(*arguments[:{place}], {code}, *arguments[{place + 1}:], **options)"
            yield _relation(point, call, f"argument {place} {says}", laid, shown)
    if point.dtype.is_complex and places:

        def lazily(*arguments: Any, **options: Any) -> Any:
            return op(*(leaf.conj_physical().conj() if numeric(leaf) else leaf for leaf in arguments), **options)

        shown = (
            "first = operator(*(x.conj_physical().conj() if torch.is_tensor(x) else x for x in arguments), **options)"
        )
        yield _relation(point, call, "arguments conjugated twice, once lazily", lazily, shown)


def _modes(point: OperatorPoint, call: OperatorCall) -> Iterator[Relation]:
    """With gradients, without, and in inference mode results are the same."""
    op = point.op

    def recorded(*arguments: Any, **options: Any) -> Any:
        inputs, named = tracked((arguments, options))
        with torch.enable_grad():
            return op(*inputs, **named)

    def inferred(*arguments: Any, **options: Any) -> Any:
        with torch.inference_mode():
            result = op(*arguments, **options)
            return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, result)

    code = "with torch.inference_mode():\n    first = operator(*arguments, **options)"
    yield _relation(point, call, "with gradients tracked", recorded, "first = operator(*arguments, **options)")
    yield _relation(point, call, "in inference mode", inferred, code)
