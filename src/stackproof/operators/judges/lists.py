"""`_foreach_` operators over lists give in every signature what single calls give, in place too, on the fast and the slow path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch

from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import Relation, UnusableError, with_gradients

WHAT = "a list as one by one"
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64)
_SHAPES, _MORE = ((7,), (33, 5), (), *[(3,)] * 8), ((70_001,), *[(3,)] * 104)
"""On cards one longer than what a block of a kernel over lists takes (2^16), and more than such a kernel takes at once (110)."""
_OTHERS = ((0,), (33, 5), (), (0, 3), (4, 6), (5,), (0,))
"""Empty ones first, last and between: the second is transposed, the third in float64, the fifth has gaps."""
_ORDERS = (2, 1, math.inf)
"""Of norms; an infinite one of nothing raises."""
_RAISES = {"addcdiv", "Tensor"}
"""Whose derivative raises, of lists with numbers without dimensions and of a number that is a tensor (torch 2.4.1 to 2.15)."""
_SINGLE: Mapping[str, Callable[..., Any]] = {
    "norm": torch.linalg.vector_norm,
    "copy": lambda x, y: y.to(x.dtype),
    "zero": torch.zeros_like,
    "minimum": torch.clamp_max,
    "maximum": torch.clamp_min,
    "addcmul": lambda *inputs: torch.addcmul(*inputs[:3], value=inputs[3]),
    "addcdiv": lambda *inputs: torch.addcdiv(*inputs[:3], value=inputs[3]),
    "powsum": lambda x, power: x.abs().pow(power).sum(),
}
"""Where the single call has another name; a minimum of a number is a clamp."""


_EACH = "[operator(*(a[n] if isinstance(a, list) else a for a in arguments)) for n in range(len(arguments[0]))]"


@cache
def subjects() -> Mapping[str, Callable[..., Any]]:
    """Return the single call of every operator over lists that this torch has, by its name."""
    names = {name.removeprefix("_foreach_").rstrip("_") for name in dir(torch) if name.startswith("_foreach_")}
    return {name: function for name in sorted(names) if (function := _SINGLE.get(name) or getattr(torch, name, None))}


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield each signature, of lists that a fast kernel takes and of lists that none does."""
    for packet in (f"_foreach_{point.name}", f"_foreach_{point.name}_"):
        if not hasattr(torch, packet):
            continue
        operators = getattr(torch.ops.aten, packet)
        for overload in operators.overloads():
            operator = getattr(operators, overload)
            if overload.endswith("out"):
                continue
            alike = _SHAPES if point.on_host else _SHAPES + _MORE
            orders = _ORDERS if any(argument.name == "ord" for argument in operator._schema.arguments) else _ORDERS[:1]
            for kind, shapes in (("of one kind", alike), ("mixed, with empty ones", _OTHERS)):
                for order in orders:
                    more = "" if order == _ORDERS[0] else f", ord={order}"
                    own = tuple(shape for shape in shapes if order == _ORDERS[0] or 0 not in shape)
                    yield _relation(point, operator, f"{packet}.{overload}, {kind}{more}", own, order)


def _relation(
    point: OperatorPoint, operator: Any, says: str, shapes: tuple[tuple[int, ...], ...], order: float
) -> Relation:
    in_place = operator._schema.name.endswith("_")
    shapes = ((4, 4), (33, 33)) if point.name == "mm" else shapes
    arguments = [_argument(point, argument, shapes, order) for argument in operator._schema.arguments]
    inputs = tuple(argument for argument in arguments if argument is not None)

    def listed(*inputs: Any) -> Any:
        kept = [tensor.clone() for tensor in inputs[0]] if in_place else inputs[0]
        results = operator(kept, *inputs[1:])
        return kept if in_place else results

    def singly(*inputs: Any) -> list[torch.Tensor]:
        results = []
        for place in range(len(shapes)):
            tensor, *more = (_item(argument, place) for argument in inputs)
            out = point.op(tensor, *more)
            if in_place and not torch.can_cast(out.dtype, tensor.dtype):
                raise UnusableError("its results do not fit into the list")
            results.append(tensor.clone().copy_(out) if in_place else out)
        return results

    backward = point.dtype is torch.float32 and not in_place and not _RAISES & {point.name, operator._overloadname}
    first, second = (with_gradients(way, backward) for way in (listed, singly))
    code = f"first = torch.ops.aten.{says.partition(',')[0]}(*arguments)\nsecond = {_EACH}"
    return Relation(says, inputs, {}, first, second, code)


def _item(argument: Any, place: int) -> Any:
    several = isinstance(argument, list) or (isinstance(argument, torch.Tensor) and argument.dim())
    return argument[place] if several else argument


def _argument(point: OperatorPoint, argument: Any, shapes: tuple[tuple[int, ...], ...], order: float) -> Any:
    """Return what a signature asks for, or nothing for an option."""
    number: Any = 3 if point.dtype is torch.int64 else 0.75
    if argument.name == "ord":
        return order
    if argument.name == "alpha":
        return None if argument.kwarg_only else argument.default_value
    match str(argument.type):
        case "List[Tensor]":
            made = [point.numbers(shape) for shape in shapes]
            return [_laid(tensor, place) for place, tensor in enumerate(made)] if shapes is _OTHERS else made
        case "List[number]":
            return [number + place % 3 for place in range(len(shapes))]
        case "Tensor" if argument.name == "scalars":
            return torch.arange(1.0, 1 + len(shapes)).to(point.dtype)
        case "Tensor":
            return torch.tensor(number, dtype=point.dtype, device=point.device)
        case "number":
            return number
    return None


def _laid(made: torch.Tensor, place: int) -> torch.Tensor:
    """Return one of a mixed list: transposed, in float64, or with gaps."""
    if place == 2 and made.is_floating_point():
        return made.double()
    return made.mT.contiguous().mT if place == 1 else made.repeat_interleave(2, -1)[..., ::2] if place == 4 else made
