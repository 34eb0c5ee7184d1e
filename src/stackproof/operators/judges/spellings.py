"""Spellings agree: methods, in place, `out=` that is strided or an argument, other layouts and kinds of arguments, and modes of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from stackproof.operators.database import SampleInput
from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, UnusableError, detached, numeric, refuse_on_host, tracked

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


def suits(_name: str, _op: Any) -> bool:
    """Any operator has several spellings."""
    return True


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield other ways to write a few of the operator's samples."""
    backward = point.dtype in point.op.supported_backward_dtypes(point.device.type)
    for sample in point.samples(4, gradient=backward):
        sample.input, sample.args, sample.kwargs = detached((sample.input, sample.args, sample.kwargs))
        yield from _methods(point, sample)
        if point.op.supports_out:
            yield from _outs(point, sample)
        yield from _layouts(point, sample)
        yield from _kinds(point, sample)
        yield from _offsets(point, sample)
        if backward:
            yield from _modes(point, sample)


def _relation(
    point: OperatorPoint, sample: SampleInput, says: str, first: Callable[..., Any], code: str, **more: Any
) -> Relation:
    inputs = (sample.input, *sample.args)
    return Relation(says, inputs, dict(sample.kwargs), first, point.op, f"{code}\n{_PLAIN}", **more)


def _methods(point: OperatorPoint, sample: SampleInput) -> Iterator[Relation]:
    op = point.op
    if op.method_variant is not None and isinstance(sample.input, torch.Tensor):
        code = f"first = arguments[0].{op.name.rpartition('.')[2]}(*arguments[1:], **options)"
        yield _relation(point, sample, "as a method", op.method_variant, code)
    if op.inplace_variant is None or sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
        return

    def in_place(copy: Callable[..., Any], tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        target = copy(tensor)
        op.inplace_variant(target, *arguments, **options)
        return target

    def plain(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        result = op(tensor, *arguments, **options)
        if not isinstance(result, torch.Tensor) or (result.dtype, result.shape) != (tensor.dtype, tensor.shape):
            raise UnusableError("the result is not of the input's form")
        return result

    name = op.name.rpartition(".")[2]
    code = f"first = arguments[0].clone()\nfirst.{name}_(*arguments[1:], **options)\n{_PLAIN}"
    for says, copy in (("in place", torch.clone), ("in place of a strided tensor", _with_gaps)):
        inputs = (sample.input, *sample.args)
        yield Relation(says, inputs, dict(sample.kwargs), partial(in_place, copy), plain, code)


def _outs(point: OperatorPoint, sample: SampleInput) -> Iterator[Relation]:
    op = point.op

    try:
        sample = _squared(sample, op)
        expected = op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return
    for says, (lay, shown) in _LAYOUTS.items():

        def laid(*arguments: Any, lay: Any = lay, **options: Any) -> Any:
            target = tree_map(lambda leaf: lay(torch.full_like(leaf, 7)), expected)
            op(*arguments, **options, out=target)
            return target

        code = (
            f"{_PLAIN}\nx = torch.full_like(second, 7)\nfirst = {shown}\noperator(*arguments, **options, out=first)\n#"
        )
        yield _relation(point, sample, f"out= {says}", laid, code)
    if not isinstance(expected, torch.Tensor):
        return
    if wide := _WIDER.get(expected.dtype):

        def widely(*arguments: Any, **options: Any) -> Any:
            target = torch.full_like(expected, 7, dtype=wide)
            op(*arguments, **options, out=target)
            return target

        def converted(*arguments: Any, **options: Any) -> Any:
            return op(*arguments, **options).to(wide)

        code = f"second = operator(*arguments, **options).to({wide})\nfirst = operator(*arguments, **options, out=torch.zeros_like(second))"
        how: dict[str, Any] = {"refusable": True, "dtypes": (expected.dtype,) if numeric(expected) else ()}
        yield Relation(
            "out= of a wider dtype", (sample.input, *sample.args), dict(sample.kwargs), widely, converted, code, **how
        )
    for place, leaf in enumerate((sample.input, *sample.args)):

        def aliased(*arguments: Any, at: int = place, **options: Any) -> Any:
            op(*arguments, **options, out=arguments[at])
            return arguments[at]

        alike = isinstance(leaf, torch.Tensor) and (leaf.shape, leaf.dtype) == (expected.shape, expected.dtype)
        if alike and leaf.numel():
            code = f"{_PLAIN}\nfirst = operator(*arguments, **options, out=arguments[{place}])\n#"
            yield _relation(point, sample, f"out= is argument {place}", aliased, code, refusable=True)
    if expected.dim() and expected.shape[0] > 1:

        def overlapping(*arguments: Any, **options: Any) -> Any:
            # as large as what may be written, whoever ignores strides
            room = torch.zeros_like(expected, device=arguments[0].device).contiguous()
            target = room.as_strided(expected.shape, (0, *room.stride()[1:]))
            op(*arguments, **options, out=target)
            return target

        code = "first = operator(*arguments, **options, out=second[:1].clone().expand_as(second))"
        yield _relation(point, sample, "out= whose numbers share memory", overlapping, code, refusable=True)


def _squared(sample: SampleInput, op: Any) -> SampleInput:
    """Return the sample with square matrices, so that arguments have the result's form, where the operator takes them."""
    leaves = [leaf for leaf in (sample.input, *sample.args) if isinstance(leaf, torch.Tensor)]
    if any(leaf.dtype is not leaves[0].dtype for leaf in leaves):
        return sample  # pivots and indices fit the shape that they came with (pytorch#177829 reads beyond them)
    side = max((leaf.shape[-1] for leaf in leaves if leaf.dim() > 1), default=0)

    def square(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() < 2 or 0 in leaf.shape:
            return leaf
        rows = leaf.repeat_interleave(-(-side // leaf.shape[-2]), -2)[..., :side, :]
        return rows.repeat_interleave(-(-side // leaf.shape[-1]), -1)[..., :side]

    made = type(sample)(square(sample.input), args=tuple(map(square, sample.args)), kwargs=dict(sample.kwargs))
    try:
        refuse_on_host((op,), (made.input, *made.args), made.kwargs)
        op(made.input, *made.args, **made.kwargs)
    except Exception:
        return sample
    return made


def _with_gaps(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.dim() == 0:
        return leaf
    wide = leaf.new_full((*leaf.shape[:-1], 2 * leaf.shape[-1] + 1), 3)
    return wide[..., 1::2].copy_(leaf)


def _turned(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.mT.contiguous().mT if leaf.dim() > 1 else leaf


def _last(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.contiguous(memory_format=torch.channels_last) if leaf.dim() == 4 else leaf


def _shifted(leaf: torch.Tensor) -> torch.Tensor:
    return torch.cat([leaf.new_ones(1), leaf.reshape(-1)])[1:].view(leaf.shape)


_LAYOUTS = {
    "strided": (_with_gaps, "x.repeat_interleave(2, -1)[..., ::2]"),
    "transposed": (_turned, "x.mT.contiguous().mT"),
    "channels-last": (_last, "x.contiguous(memory_format=torch.channels_last)"),
    "behind an odd offset": (_shifted, "torch.cat([x.new_ones(1), x.reshape(-1)])[1:].view(x.shape)"),
}


def _layouts(point: OperatorPoint, sample: SampleInput) -> Iterator[Relation]:
    """Each argument in another layout, and its gradient."""
    if member("about layout", point.name):
        return
    op = point.op
    inputs = (sample.input, *sample.args)
    places = [n for n, leaf in enumerate(inputs) if isinstance(leaf, torch.Tensor) and leaf.numel() > 1]
    for says, (change, code) in _LAYOUTS.items():
        for place in places:
            before = inputs[place]
            if before.layout is not torch.strided:
                continue
            if says != "behind an odd offset" and change(before).stride() == before.stride():
                continue

            def laid(*arguments: Any, at: int = place, lay: Any = change, **options: Any) -> Any:
                return op(*(lay(leaf) if n == at else leaf for n, leaf in enumerate(arguments)), **options)

            shown = f"x = arguments[{place}]\nfirst = operator(*arguments[:{place}], {code}, *arguments[{place + 1}:], **options)"
            yield _relation(point, sample, f"argument {place} {says}", laid, shown)
    if point.dtype.is_complex and places:

        def lazily(*arguments: Any, **options: Any) -> Any:
            return op(*(leaf.conj_physical().conj() if numeric(leaf) else leaf for leaf in arguments), **options)

        shown = (
            "first = operator(*(x.conj_physical().conj() if torch.is_tensor(x) else x for x in arguments), **options)"
        )
        yield _relation(point, sample, "arguments conjugated twice, once lazily", lazily, shown)


def _kinds(point: OperatorPoint, sample: SampleInput) -> Iterator[Relation]:
    """Arguments of another kind that mean the same: truth values as masks of floats, whole numbers as floats."""
    op = point.op
    masks = [key for key, leaf in sample.kwargs.items() if "mask" in key and getattr(leaf, "dtype", None) is torch.bool]
    if masks and point.dtype.is_floating_point and member("masked by floats", point.name):

        def floats(*inputs: Any, **options: Any) -> Any:
            added = {
                k: torch.zeros_like(options[k], dtype=point.dtype).masked_fill(~options[k], -torch.inf) for k in masks
            }
            return op(*inputs, **{**options, **added})

        shown = """masks = {k: torch.zeros(v.shape).masked_fill(~v, -inf) for k, v in options.items() if 'mask' in k}
first = operator(*arguments, **{**options, **masks})"""
        yield _relation(point, sample, "a mask of floats as one of truth values", floats, shown)
    wide = point.dtype.is_floating_point and torch.float64 in op.supported_dtypes(point.device.type)
    if type(op).__name__ == "BinaryUfuncInfo" and wide:
        whole = torch.arange(-140, 141, 5, device=point.device)
        left = torch.ones(len(whole), dtype=torch.float64, device=point.device) * 1.5

        def as_floats(x: Any, y: Any, **options: Any) -> Any:
            return op(x, y.double(), **options)

        code = (
            "first = operator(*arguments, **options)\nsecond = operator(arguments[0], arguments[1].double(), **options)"
        )
        how: dict[str, Any] = {"elementwise": True, "refusable": True}
        yield Relation("whole numbers as floats", (left, whole), dict(sample.kwargs), op, as_floats, code, **how)


def _offsets(point: OperatorPoint, sample: SampleInput) -> Iterator[Relation]:
    """Compare bags that end at a last offset with bags of only the indices before it."""
    offsets, more = sample.kwargs.get("offsets"), sample.kwargs
    if not all(isinstance(tensor, torch.Tensor) for tensor in (offsets, *sample.args[:1])):
        return
    if more.get("include_last_offset") or more.get("per_sample_weights") is not None:
        return
    end = sample.args[0].numel() - 1
    if offsets.numel() < 2 or int(offsets.max()) >= end:
        return

    def last(weight: Any, index: Any, **options: Any) -> Any:
        ends = torch.cat([options.pop("offsets"), index.new_tensor([end])])
        return point.op(weight, index, **options, offsets=ends, include_last_offset=True)

    def cut(weight: Any, index: Any, **options: Any) -> Any:
        return point.op(weight, index[:end], **options)

    code = f"""ends = torch.cat([options['offsets'], torch.tensor([{end}])])
first = operator(*arguments, **{{**options, 'offsets': ends}}, include_last_offset=True)
second = operator(arguments[0], arguments[1][:{end}], **options)"""
    says = "bags up to a last offset as the bags before it"
    yield Relation(says, (sample.input, *sample.args), dict(more), last, cut, code)


def _modes(point: OperatorPoint, sample: SampleInput) -> Iterator[Relation]:
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
    yield _relation(point, sample, "with gradients tracked", recorded, "first = operator(*arguments, **options)")
    yield _relation(point, sample, "in inference mode", inferred, code)
