"""Again is again: the second call, another thread, other numbers of threads, after a failure, and nested modes give the same."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.device.threads import default
from stackproof.operators.compute import placed
from stackproof.operators.points import OperatorCall, OperatorPoint, member
from stackproof.operators.relation import Relation, elements_of, numeric, with_gradients

WHAT = "again is again"
DTYPES = (torch.float32, torch.complex64, torch.int64)
_ENOUGH, _MOST_ROWS = 33_000, 4096
"""Numbers from which on kernels share their work among threads."""
_EACH = ("UnaryUfuncInfo", "BinaryUfuncInfo")


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run the block with this number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield a few samples in other states of the process."""
    backward = point.dtype in point.op.supported_backward_dtypes(point.device.type)
    drawn = point.samples(3, gradient=backward)
    run = with_gradients(point.op, backward)
    writes = member("writes into its arguments", point.name)
    plain = "second = operator(*arguments, **options)"
    for place, call in enumerate(drawn):
        other = drawn[place - 1]

        def relation(
            says: str, first: Callable[..., Any], code: str, call: OperatorCall = call, **more: Any
        ) -> Relation:
            return Relation(says, call.inputs, call.options, first, run, f"{code}\n{plain}", **more)

        def after_others(*arguments: Any, beside: OperatorCall = other, **options: Any) -> Any:
            with suppress(Exception):
                run(*beside.inputs, **beside.options)
            with suppress(Exception):
                torch.empty(1 << 60, dtype=torch.float64, device=point.device)
            run(*arguments, **options)
            return [run(*arguments, **options), *(() if writes else tree_leaves((arguments, options)))]

        def once(*arguments: Any, **options: Any) -> Any:
            before = placed(tree_map(lambda leaf: leaf.clone() if numeric(leaf) else leaf, (arguments, options)))
            return [run(*arguments, **options), *(() if writes else tree_leaves(before))]

        def elsewhere(*arguments: Any, **options: Any) -> Any:
            results: list[Any] = []
            thread = threading.Thread(target=lambda: results.append(run(*arguments, **options)))
            thread.start()
            thread.join()
            return results[0]

        def strictly(*arguments: Any, **options: Any) -> Any:
            before = torch.are_deterministic_algorithms_enabled()
            torch.use_deterministic_algorithms(True)
            try:
                return run(*arguments, **options)
            finally:
                torch.use_deterministic_algorithms(before)

        first = "first = operator(*arguments, **options)"
        says = "after other calls and one that failed"
        made = relation(says, after_others, f"operator(*arguments, **options)\n{first}")
        yield replace(made, second=once)
        if place == 0:
            yield relation("in another thread", elsewhere, f"# in threading.Thread\n{first}")
            code = f"torch.use_deterministic_algorithms(True)\n{first}"
            yield relation("with deterministic algorithms", strictly, code, refusable=True)
        if backward and point.dtype is torch.float32 and point.op.supports_autograd:
            yield _nested(point, relation)
    whole = point.dtype is torch.int64 and torch.float32 not in point.op.supported_dtypes(point.device.type)
    apart = member("each with each", point.name) or member("no batched kernel", point.name)
    if point.on_host and not apart and (whole or point.dtype is torch.float32):
        largest = sorted(drawn, key=lambda call: -elements_of(call.inputs[0]))
        calls = filter(None, map(partial(_enlarged, point), largest))
        count = point.draw.choice((2, 3, max(default(), 2)))
        several = 1 if type(point.op).__name__ in _EACH else 2
        yield from (_threaded(inputs, options, run, count) for inputs, options in islice(calls, several))


def _enlarged(point: OperatorPoint, call: OperatorCall) -> tuple[Any, Any] | None:
    """Return a call with so many numbers that threads share them, equal ones among them and those that the call names."""
    inputs, options, _ = call
    named = [leaf for leaf in tree_leaves((inputs[1:], options)) if type(leaf) in (int, float)]

    def many(change: Any, grow: Any, count: int) -> tuple[Any, Any]:
        def more(leaf: Any, first: bool = False) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or not leaf.dim():
                return leaf
            return grow(change(leaf.detach(), first), count, first).requires_grad_(leaf.requires_grad)

        return (more(inputs[0], True), *tree_map(more, inputs[1:])), tree_map(more, options)

    for change in (partial(_coarse, named=named), lambda leaf, _: leaf):
        taken: list[tuple[bool, bool, float, int, Any]] = []
        for grow in _GROWTHS:
            with suppress(Exception):
                one, four = (many(change, grow, count) for count in (1, 4))
                before, after = (elements_of(point.op(*call[0], **call[1])) for call in (one, four))
                if (numbers := elements_of(one)) < elements_of(four):
                    power = max(math.log(max(after, 1) / max(before, 1), 4), 1.0)
                    taken.append((power < 1.5, after > before, power, max(numbers, before), grow))
        if taken:
            *_, power, numbers, grow = max(taken, key=lambda way: way[:2])
            return many(change, grow, min(int((_ENOUGH / numbers) ** (1 / power)) + 1, _MOST_ROWS))
    return None


def _coarse(leaf: torch.Tensor, first: bool, named: list[float]) -> torch.Tensor:
    """Return quarters, in the first argument with the call's own numbers between them: edges, bounds and thresholds."""
    made = (leaf * 4).round() / 4 if leaf.is_floating_point() else leaf.clone()
    for place, number in enumerate(named if first else ()):
        made.view(-1)[place :: 2 * len(named) + 1] = number
    return made


def _along(leaf: torch.Tensor, dim: int, count: int) -> torch.Tensor:
    return torch.cat([leaf] * count, dim)


_GROWTHS: tuple[Callable[[torch.Tensor, int, bool], torch.Tensor], ...] = (
    lambda leaf, count, _: _along(leaf, 0, count),
    lambda leaf, count, first: _along(leaf, 0, count) if first else leaf,
    lambda leaf, count, _: torch.stack([leaf] * count),
    lambda leaf, count, first: _along(leaf, -1, count) if first else leaf,
    lambda leaf, count, _: _along(leaf, -1, count),
)
"""More rows of all or of the input, more of the same, or more columns."""


def _threaded(inputs: Any, options: Any, run: Callable[..., Any], count: int) -> Relation:
    """Compare several threads with one."""

    def shared(*arguments: Any, **named: Any) -> Any:
        with threads(count):
            return run(*arguments, **named)

    code = f"""torch.set_num_threads({count})
first = operator(*arguments, **options)
torch.set_num_threads(1)
second = operator(*arguments, **options)"""
    how: dict[str, Any] = {"ulps": 4096.0, "others": lambda _: run}  # numbers at an edge stay there
    return Relation(f"on {count} threads as on one", inputs, options, shared, run, code, **how)


def _nested(point: OperatorPoint, relation: Callable[..., Relation]) -> Relation:
    """Within one autocast, a call without gradients must not take them from the next call."""

    def cast(*arguments: Any, before: bool, **options: Any) -> Any:
        with torch.autocast(point.device.type, torch.bfloat16):
            if before:
                with torch.no_grad():
                    point.op(*arguments, **options)
            return point.op(*arguments, **options)

    code = """with torch.autocast("cpu", torch.bfloat16):
    with torch.no_grad():
        operator(*arguments, **options)
    first = operator(*arguments, **options)"""
    first, second = (with_gradients(partial(cast, before=before)) for before in (True, False))
    return replace(relation("with gradients after without, within one autocast", first, code), second=second)
