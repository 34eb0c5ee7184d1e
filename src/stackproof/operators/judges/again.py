"""Again is again: the second call, another thread, other numbers of threads, after a failure, and nested modes give the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from stackproof.device.threads import default
from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, detached, numeric, tracked

WHAT = "again is again"
DTYPES = (torch.float32, torch.complex64, torch.int64)
_ENOUGH, _MOST_ROWS = 40_000, 1024
"""Numbers from which on kernels share their work among threads."""


def suits(_name: str, _op: Any) -> bool:
    """Any operator that is not random."""
    return True


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
    plain = "second = operator(*arguments, **options)"
    for place, sample in enumerate(drawn):
        other = drawn[place - 1]

        def relation(says: str, first: Callable[..., Any], code: str, sample: Any = sample, **more: Any) -> Relation:
            arguments, options = detached(((sample.input, *sample.args), dict(sample.kwargs)))
            return Relation(says, arguments, options, first, run, f"{code}\n{plain}", **more)

        def after_others(*arguments: Any, beside: Any = other, **options: Any) -> Any:
            with suppress(Exception):
                run(beside.input, *beside.args, **beside.kwargs)
            with suppress(Exception):
                torch.empty(1 << 60, dtype=torch.float64, device=point.device)
            run(*arguments, **options)
            return run(*arguments, **options)

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
        yield relation(
            "after other calls and one that failed", after_others, f"operator(*arguments, **options)\n{first}"
        )
        if place == 0:
            yield relation("in another thread", elsewhere, f"# in threading.Thread\n{first}")
            code = f"torch.use_deterministic_algorithms(True)\n{first}"
            yield relation("with deterministic algorithms", strictly, code, refusable=True)
        if backward and point.dtype is torch.float32 and point.op.supports_autograd:
            yield _nested(point, relation)
    tensors = [sample for sample in drawn if numeric(sample.input) and sample.input.dim() and _alike(point, sample)]
    if tensors and point.dtype is torch.float32 and point.on_host and _by_rows(point):
        sample = max(tensors, key=lambda sample: (sample.input.dim(), sample.input.numel()))
        yield _threaded(point, (sample.input, *sample.args), dict(sample.kwargs), run)


def _by_rows(point: OperatorPoint) -> bool:
    kinds = ("batch: rows of the first", "batch: rows of all", "elementwise")
    return type(point.op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo") or any(member(k, point.name) for k in kinds)


def _alike(point: OperatorPoint, sample: Any) -> bool:
    """Whether more rows of the arguments are only more rows of the result."""
    shapes = {leaf.shape for leaf in (sample.input, *sample.args) if isinstance(leaf, torch.Tensor) and leaf.dim()}
    return member("batch: rows of the first", point.name) or len({(shape[0], len(shape)) for shape in shapes}) == 1


def _threaded(point: OperatorPoint, arguments: Any, options: Any, run: Callable[..., Any]) -> Relation:
    """Compare many rows on as many threads as the user gets with the same on one thread."""
    count = min(_ENOUGH // max(arguments[0].numel(), 1) + 1, _MOST_ROWS)
    every = not member("batch: rows of the first", point.name)

    def many(place: int, leaf: Any) -> Any:
        rows = isinstance(leaf, torch.Tensor) and leaf.dim() and (every or place == 0)
        return leaf.detach().repeat(count, *[1] * (leaf.dim() - 1)) if rows else detached(leaf)

    def shared(*inputs: Any, **named: Any) -> Any:
        with threads(default()):
            return run(*inputs, **named)

    code = f"""arguments = tuple(x.repeat({count}, *[1] * (x.dim() - 1)) if torch.is_tensor(x) else x for x in arguments)
first = operator(*arguments, **options)
torch.set_num_threads(1)
second = operator(*arguments, **options)"""
    inputs = tuple(many(place, leaf) for place, leaf in enumerate(arguments))
    says = "with as many threads as the user gets, as with one"
    return Relation(says, inputs, detached(options), shared, run, code, ulps=4096.0)


def with_gradients(op: Callable[..., Any], backward: bool = True) -> Callable[..., Any]:
    """Return a function with its gradients."""

    def run(*arguments: Any, **options: Any) -> Any:
        if not backward:
            return op(*arguments, **options)
        inputs = tracked((arguments, options))
        with torch.enable_grad():
            out = [leaf for leaf in tree_leaves(op(*inputs[0], **inputs[1])) if isinstance(leaf, torch.Tensor)]
        roots = [leaf for leaf in out if leaf.requires_grad]
        leaves = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not roots or not leaves:
            return out
        return [
            *out,
            *filter(torch.is_tensor, torch.autograd.grad(roots, leaves, list(map(_fed, roots)), allow_unused=True)),
        ]

    return run


def _fed(root: torch.Tensor) -> torch.Tensor:
    """Return an uneven gradient that every dtype holds exactly."""
    line = (torch.arange(root.numel(), device=root.device) * 37 % 97 - 40) / 32
    return (torch.complex(line, line.flip(0)) if root.is_complex() else line).reshape(root.shape).to(root.dtype)


def _nested(point: OperatorPoint, relation: Callable[..., Relation]) -> Relation:
    """Within one autocast, a call without gradients must not take them from the next call."""
    half = torch.bfloat16

    def run(before: bool, *arguments: Any, **options: Any) -> Any:
        inputs = tracked((arguments, options))
        with torch.autocast(point.device.type, half):
            if before:
                with torch.no_grad():
                    point.op(*inputs[0], **inputs[1])
            with torch.enable_grad():
                out = [leaf for leaf in tree_leaves(point.op(*inputs[0], **inputs[1])) if numeric(leaf)]
        leaves = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        roots = [leaf for leaf in out if leaf.requires_grad]
        if not roots:
            return [*out, *map(torch.zeros_like, leaves)]
        gradients = torch.autograd.grad(roots, leaves, [torch.ones_like(root) for root in roots], allow_unused=True)
        pairs = zip(gradients, leaves, strict=True)
        return [*out, *(torch.zeros_like(leaf) if gradient is None else gradient for gradient, leaf in pairs)]

    code = """with torch.autocast("cpu", torch.bfloat16):
    with torch.no_grad():
        operator(*arguments, **options)
    first = operator(*arguments, **options)"""
    made = relation("with gradients after without, within one autocast", lambda *a, **o: run(True, *a, **o), code)
    return Relation(made.says, made.arguments, made.options, made.first, lambda *a, **o: run(False, *a, **o), made.code)
