"""Reductions of large, tiny, far, equal or many numbers give in a narrow dtype what float64 gives, gradients too.

Where a shift of all arguments changes nothing it changes nothing far away, and a NaN comes out where the result depends on its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import WIDE_CODE, Relation, UnusableError, detached, numeric, widened, with_gradients

WHAT = "unusual numbers in a narrow dtype as in a wide one"
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.complex64)
_LONG, _FEW, _MOST = 3000, 39, 100_000
_AWAY = {torch.float32: 4096.0, torch.float16: 64.0, torch.bfloat16: 8.0}
"""By how much eighths of a few ones are shifted without rounding."""


def suits(name: str, op: Any) -> bool:
    """Whether numbers of a row come together, with a division or a root."""
    return (type(op).__name__ == "ReductionOpInfo" or member("comes together", name)) and not member("by places", name)


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield drawn samples with their numbers changed."""
    backward = point.dtype in point.op.supported_backward_dtypes(point.device.type)
    backward &= point.dtype is not torch.float16  # whose gradients divide by squares
    run = with_gradients(point.op, backward)
    code = f"first = operator(*arguments, **options)\n{WIDE_CODE}"
    for place, (inputs, named, _) in enumerate(map(detached, point.kinds(16))):
        if numeric(inputs[0]) and inputs[0].numel():
            hundreds = inputs[0] / inputs[0].abs().max() * 300, *inputs[1:]
            yield Relation("hundreds", hundreds, named, point.op, point.op, code, ulps=256.0, floor=2e-3, widened=True)
            yield from _rows(point, inputs, named) if place < 4 else ()
            yield from _shifted(point, inputs, named, run)
    size = lambda call: call.inputs[0].numel() if isinstance(call.inputs[0], torch.Tensor) else 0  # noqa: E731
    made = sorted(point.samples(24, gradient=backward), key=size)  # rows of one number are where formulas cancel
    for inputs, named, _ in map(detached, [*made[:2], *point.draw.sample(made[2:], min(2, len(made[2:])))]):
        for says, change in _REGIMES.items() if numeric(inputs[0]) and inputs[0].numel() else ():
            for layout in (torch.contiguous_format, torch.channels_last)[: 1 + (inputs[0].dim() == 4)]:
                laid = (change(inputs[0]).contiguous(memory_format=layout), *inputs[1:])
                floor = max(2e-3, 16 * torch.finfo(point.dtype).eps) if says in _CANCEL else 0.0
                yield Relation(says, laid, named, run, run, code, ulps=256.0, floor=floor, widened=True)


def _rows(point: OperatorPoint, arguments: Any, options: Any) -> Iterator[Relation]:
    """Yield the sample with long rows, and with a NaN at one place."""
    op, code, value = point.op, f"first = operator(*arguments, **options)\n{WIDE_CODE}", arguments[0]
    side = value.shape[-1] if value.dim() else 0
    order = torch.arange(_LONG, device=point.device) % max(side, 1)

    def long(x: Any, count: int = _LONG) -> Any:
        return x[..., order[:count]] if numeric(x) and x.dim() and x.shape[-1] == side else x

    if side and value.numel() // side * _LONG < _MOST:
        inputs, named = tree_map(long, (arguments, options))
        yield Relation("long rows", inputs, named, op, op, code, ulps=1024.0, widened=True)
    if point.dtype.is_complex or member("passes over NaN", point.name):
        return

    def at(x: torch.Tensor, number: float, place: int) -> torch.Tensor:
        line = torch.where(x == 0, 0.5, x.detach()).flatten()
        line[place] = number
        return line.reshape(x.shape).contiguous(
            memory_format=torch.channels_last if x.dim() == 4 else torch.contiguous_format
        )

    def results(*inputs: Any, **named: Any) -> list[torch.Tensor]:
        return [leaf for leaf in tree_leaves(op(*inputs, **named)) if numeric(leaf)]

    def depends(x: torch.Tensor, *more: Any, place: int, **named: Any) -> Any:
        low, mid, high = (results(at(x, number, place), *more, **named) for number in (-1e30, 0.3, 1e30))
        found = [(a != b) | (b != c) for a, b, c in zip(low, mid, high, strict=True)]
        if not any(bool(leaf.any()) for leaf in found):
            raise UnusableError("nothing depends on it")
        return found

    def lost(x: torch.Tensor, *more: Any, place: int, **named: Any) -> Any:
        return [leaf.isnan() for leaf in results(at(x, torch.nan, place), *more, **named)]

    calls = [(arguments, options, point.draw.randrange(value.numel()))]
    if side and value.numel() // side * _FEW < _MOST:  # behind what a kernel takes at once
        inputs, named = tree_map(partial(long, count=_FEW), (arguments, options))
        calls.append((inputs, named, inputs[0].numel() - 1))
    for inputs, named, place in calls:
        code = f"arguments[0].view(-1)[{place}] = nan\nfirst = operator(*arguments, **options)\nsecond = None  # where it depends on it"
        ways = partial(lost, place=place), partial(depends, place=place)
        yield Relation("a NaN where it counts", inputs, named, *ways, code, widened=True, refusable=True)


def _shifted(point: OperatorPoint, arguments: Any, options: Any, run: Callable[..., Any]) -> Iterator[Relation]:
    """Yield the sample far away, if it has the same results there: rounded, so that a shift is exact."""
    if point.dtype.is_complex or "use_mm_for_euclid_dist" in tree_leaves(options) + [
        x for x in arguments if isinstance(x, str)
    ]:
        return  # which is for speed
    far = _AWAY[point.dtype]
    inputs, named = tree_map(lambda x: (x * 8).round().clamp(-32, 32) / 8 if numeric(x) else x, (arguments, options))

    def shifted(*near: Any, **more: Any) -> Any:
        moved = tree_map(lambda x: x + far if numeric(x) else x, (near, more))
        return run(*moved[0], **moved[1])

    with suppress(Exception):
        wide = widened((inputs, named))
        pairs = [*zip(tree_leaves(shifted(*wide[0], **wide[1])), tree_leaves(run(*wide[0], **wide[1])), strict=True)]
        if pairs and all(torch.allclose(x, y, 1e-6, 1e-6) for x, y in pairs):
            code = f"first = operator(*(x + {far} if torch.is_tensor(x) else x for x in arguments), **options)\n{WIDE_CODE}"
            yield Relation("shifted far away", inputs, named, shifted, run, code, ulps=256.0, floor=2e-3, widened=True)


def _power(leaf: torch.Tensor, share: float) -> torch.Tensor:
    top = torch.tensor(torch.finfo(leaf.dtype).max, dtype=torch.float64).log2()
    return leaf * float(torch.exp2((top * share).round()))


_CANCEL = ("numbers far from zero", "equal numbers")
"""What is left where these cancel is of no size that anybody promises."""
_REGIMES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "large numbers": lambda x: _power(x, 0.8),
    "tiny numbers": lambda x: _power(x, -0.7),
    "numbers far from zero": lambda x: (x / 8 + (123.45 if x.dtype is torch.float16 else 12_345.678)).to(x.dtype),
    "equal numbers": lambda x: torch.full_like(x, 0.7),
}
