"""Alone as in company: a row, image, system or sequence gives in a batch what it gives by itself, and so does its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, UnusableError, detached, elements_of, numeric, with_gradients

WHAT = "alone as in company"
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.int64)
SIZES = (2, 3, 5, 16, 17, 64, 65, 128, 257, 513, 4097, 65537)
_MOST = 150_000
"""Numbers in a batch."""
STACKED, ROWS, ALL_ROWS = "batch: new dimension", "batch: rows of the first", "batch: rows of all"


def suits(name: str, _op: Any) -> bool:
    """Whether the table says which dimension is the batch."""
    return any(member(kind, name) for kind in (STACKED, ROWS, ALL_ROWS))


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield drawn samples in batches of drawn sizes."""
    kind = next(kind for kind in (STACKED, ROWS, ALL_ROWS) if member(kind, point.name))
    backward = point.dtype in point.op.supported_backward_dtypes(point.device.type)
    for inputs, options, _ in map(detached, point.samples(3, gradient=backward)):
        sides = next((int(d) + 2 for d in "123" if f"{d}d" in point.name), 2)
        if not isinstance(inputs[0], torch.Tensor) or (kind != STACKED and inputs[0].dim() < sides):
            continue
        if options.get("dropout_p"):
            continue
        size = elements_of(inputs)
        most = _MOST if point.on_host or not member("no batched kernel", point.name) else 64 * size
        fitting = [count for count in SIZES if count * size <= most] or [2]
        for count in {point.draw.choice(fitting), fitting[-1]}:
            yield _of(point, inputs, options, kind, count, backward)


def _of(
    point: OperatorPoint, inputs: tuple[Any, ...], named: dict[str, Any], kind: str, count: int, backward: bool
) -> Relation:
    op = point.op
    shown = sorted({0, count // 2, count - 1, *(point.draw.randrange(count) for _ in range(3))})

    def batched(leaf: Any, place: int) -> bool:
        return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and (place == 0 or kind != ROWS)

    def repeated(leaf: torch.Tensor) -> torch.Tensor:
        """Return all members of the batch; their factors are exact in every dtype."""
        factors = 1 + (torch.arange(count, device=leaf.device) * 7 % 16) / 16
        rows = leaf.expand(count, *leaf.shape)
        rows = rows * factors.to(leaf.dtype).view(-1, *[1] * leaf.dim()) if numeric(leaf) else rows.clone()
        return rows if kind == STACKED else rows.flatten(0, 1)

    def asked(leaf: Any, place: int) -> Any:
        return leaf.requires_grad_() if numeric(leaf) and batched(leaf, place) and backward else leaf

    def tensors(results: Any) -> list[torch.Tensor]:
        return [*filter(torch.is_tensor, tree_leaves(results))]

    def company(*arguments: Any, **options: Any) -> Any:
        grows = [batched(leaf, place) and leaf.dim() + (kind == STACKED) for place, leaf in enumerate(arguments)]
        many = [repeated(leaf) if more else leaf for leaf, more in zip(arguments, grows, strict=True)]
        if kind == STACKED:
            rest, options = _from_the_end(point.name, arguments, options)
            many = [leaf if isinstance(leaf, torch.Tensor) else other for leaf, other in zip(many, rest, strict=True)]
        many = [asked(leaf, place) for place, leaf in enumerate(many)]
        results = tensors(with_gradients(op, backward, count)(*many, **options))
        if any(result.dim() == 0 or result.shape[0] % count for result in results):
            raise UnusableError("no batch in the result")
        return [[result.reshape(count, -1)[n] for n in shown] for result in results]

    def alone(*arguments: Any, **options: Any) -> Any:
        factors = [1 + (n * 7 % 16) / 16 for n in shown]
        rows = [
            [asked(x * share if numeric(x) and batched(x, place) else x, place) for place, x in enumerate(arguments)]
            for share in factors
        ]
        each = [tensors(with_gradients(op, backward)(*row, **options)) for row in rows]
        return [[results[at].reshape(-1) for results in each] for at in range(len(each[0]))]

    join = "torch.stack" if kind == STACKED else "torch.cat"
    only = " and k == 0" if kind == ROWS else ""
    code = f"""numbers = lambda x: torch.is_tensor(x) and (x.is_floating_point() or x.is_complex())
rows = [[x * (1 + (n * 7 % 16) / 16) if numbers(x) else x for x in arguments] for n in range({count})]
first = operator(*({join}([row[k] for row in rows]) if torch.is_tensor(x){only} else x for k, x in enumerate(arguments)), **options)
second = [operator(*row, **options) for row in rows]"""
    sizes = [float(leaf.abs().nan_to_num(0, 0, 0).max()) for leaf in inputs if numeric(leaf) and leaf.numel()]
    # What cancels in a gradient is of its terms' size.
    eps = torch.finfo(point.dtype).eps if point.dtype is not torch.int64 else 0.0
    floor = 64 * eps * min(max(sizes, default=0.0), 1e3)
    how: dict[str, Any] = {"ulps": 2048.0, "floor": floor, "refusable": True}
    return Relation(f"in a batch of {count}", inputs, named, company, alone, code, **how)


def _from_the_end(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the call with dimensions counted from the end, so that one more in front changes nothing.

    Raises:
        UnusableError: it reduces every dimension, also that of the batch.
    """
    sides = arguments[0].dim()

    def turn(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(turn, value))
        return value - sides if type(value) is int and value >= 0 else value

    if options.get("dim", 0) is None or not sides or max(options.get("dim1", -1), options.get("dim2", -1)) >= 0:
        raise UnusableError("reduces the batch too, or counts results' dimensions from the front")
    place = 2 if name in ("kthvalue", "topk", "norm", "linalg.vector_norm", "linalg.matrix_norm") else 1
    if not member("dimensions by position", name):
        place = len(arguments)
    named = {key: turn(value) if key == "dim" else value for key, value in options.items()}
    return (*arguments[:place], *map(turn, arguments[place:])), named
