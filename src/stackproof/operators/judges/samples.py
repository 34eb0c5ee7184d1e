"""As in float64: all samples of torch's database, forward and backward on the device, against the CPU in float64 from the same numbers.

How far a right result may be off is what float64 itself does under rounding: inputs moved by a unit in the last place, and every kernel's
result rounded to the dtype; backward error in the sense of N. Higham, Accuracy and Stability of Numerical Algorithms, chapter 1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves, tree_map

from stackproof import DATA
from stackproof.base.text import error_line
from stackproof.base.toml import Table
from stackproof.device.devices import Operators
from stackproof.device.numerics import rule
from stackproof.operators.compute import NO_MODE, Narrow, compute, cotangent, random_kernel, relocate
from stackproof.operators.database import REFERENCE, SEED, SampleInput, load, samples
from stackproof.operators.judges.elementwise import suits
from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import DrawnError, Relation, Route, UnusableError, elements_of, moved, numeric, word
from stackproof.record.checks import CheckFailed, NotApplicable

WHAT = "as in float64"
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)
_MOST_ELEMENTS = 200_000
"""A sample with more numbers is left out: two such samples of `grid_sampler_3d` take longer than all others together."""
_ULPS, _FEW_ULPS, _ROOM, _OWN_ROOM = 24.0, 6.0, 6.0, 2.0
"""That every result may be off by, those of 16 bits, and times what rounding does; and where each number has a kernel for itself."""


@dataclass(frozen=True)
class Exemption:
    """One row of `data/operators.toml`: operators that are asked otherwise, and why."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    reason: str
    compare: Literal["values", "form", "nothing"] = "values"
    cap: float = 0.0
    returns: tuple[str, ...] = ()
    nonfinite: bool = False
    refuses: str = ""
    factors: bool = False
    private: tuple[str, ...] = ()
    host: tuple[str, ...] = ()


@cache
def exemptions() -> tuple[Exemption, ...]:
    return Table.load(DATA / "operators.toml").rows("operator", Exemption)


def subjects() -> Mapping[str, Any]:
    """Return all operators of the database by name."""
    return load()


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield one for each sample.

    Raises:
        NotApplicable: a row says so, or the database has no such dtype for the device, or for the CPU.
        CheckFailed: the database cannot make its samples.
    """
    op, dtype, place = point.op, point.dtype, point.device.type
    rows = (row for row in exemptions() if point.name in row.names and word(dtype) in row.dtypes)
    row = next(rows, Exemption((), (), "", returns=(word(dtype),)))
    if row.compare == "nothing":
        raise NotApplicable(row.reason)
    if dtype not in op.supported_dtypes(place):
        raise NotApplicable(f"the database lists no {word(dtype)} for {place}")
    if not {dtype, torch.complex128 if dtype.is_complex else torch.float64} & set(op.supported_dtypes(REFERENCE.type)):
        raise NotApplicable(f"the database lists no {word(dtype)} for the CPU: nothing to compare with")
    if row.reason:
        point.notes[f"by its row: {row.reason}"] += 1
    backward = dtype in op.supported_backward_dtypes(place)
    made = enumerate(samples(op, dtype, backward))
    while True:
        try:
            index, sample = next(made, (0, None))
        except Exception as error:
            raise CheckFailed(f"{point.name} in {word(dtype)}: making samples raises {error_line(error)}") from error
        if sample is None:
            return
        if elements_of((sample.input, sample.args, sample.kwargs)) > _MOST_ELEMENTS:
            point.notes[f"left out: more than {_MOST_ELEMENTS} numbers"] += 1
        else:
            point.notes["backward"] += backward
            yield _of(point, row, sample, index, backward)


def _of(point: OperatorPoint, row: Exemption, sample: SampleInput, index: int, backward: bool) -> Relation:
    op, dtype = point.op, point.dtype
    inputs, named = (sample.input, *sample.args), dict(sample.kwargs)
    finish = product if row.factors else sample.output_process_fn_grad

    def way(
        place: torch.device, wide: bool, mode: AbstractContextManager[Any] = NO_MODE, feed: Any = cotangent
    ) -> Route:
        def run(*inputs: Any, **named: Any) -> Any:
            made = copy.copy(sample)
            made.input, made.args, made.kwargs, made.output_process_fn_grad = inputs[0], inputs[1:], named, finish
            try:
                return compute(op, made, place, dtype, backward, wide, mode, feed, row.host)
            except Exception as error:
                if row.refuses and row.refuses in str(error):
                    raise UnusableError(row.reason) from error
                raise

        return run

    def under_rounding(draw: int) -> Route:
        if not draw and (kernel := random_kernel(op, sample, dtype)):
            point.notes[f"in form only: {kernel} draws random numbers"] += 1
            raise DrawnError(kernel)
        if not draw:
            return way(REFERENCE, True, Narrow(dtype))
        normwise = _factorises(way(REFERENCE, True, ran := Operators()), ran, inputs, named)

        def run(*inputs: Any, **named: Any) -> Any:
            which = count(draw, 1000)  # each tensor has signs of its own
            inputs, named = tree_map(lambda leaf: _moved(leaf, dtype, next(which), normwise), (inputs, named))
            eps = torch.finfo(dtype).eps
            feed = lambda root, kind: moved(cotangent(root, kind), eps, draw + 100)  # noqa: E731
            return way(REFERENCE, True, feed=feed)(*inputs, **named)

        return run

    asked = [getattr(leaf, "dtype", leaf) for leaf in tree_leaves((inputs, named))]
    returned = [
        *(getattr(torch, word) for word in row.returns),
        *(leaf for leaf in asked if isinstance(leaf, torch.dtype)),
    ]
    return Relation(
        f"sample {index} as in float64", inputs, named, way(point.device, False), way(REFERENCE, True), _CODE,
        _FEW_ULPS if dtype.itemsize == 2 else _ULPS, row.cap, whole=rule().caps[dtype.to_real()],
        room=_OWN_ROOM if suits(point.name, op) else _ROOM, others=under_rounding,
        widened=True, required=True, exact=bool(named.get("stable")), form=row.compare == "form", nonfinite=row.nonfinite,
        private=row.private, dtypes=(dtype, dtype.to_real(), dtype.to_complex(), *returned), writable=_is_identity(finish),
        drawn=_DRAWN.format(name=(op.name, op.variant_test_name), index=index, seed=SEED, backward=backward, dtype=dtype),
    )  # fmt: skip


def product(output: Any) -> torch.Tensor:
    """Return P L U, from these three or from the packed form: which row is the pivot is the device's choice.

    LAPACK compares complex numbers by |Re| + |Im| (izamax), others by their modulus.
    """
    first, second, *rest = output
    packed = not (second.is_floating_point() or second.is_complex())
    permutation, lower, upper = torch.lu_unpack(first, second) if packed else (first, second, *rest)
    whole: torch.Tensor = permutation @ lower @ upper
    return whole


def _factorises(route: Route, ran: Operators, inputs: Any, named: Any) -> bool:
    """Tell whether an operator factorises or solves, which promises a small error of the whole matrix and not of each number in it."""
    with suppress(Exception):
        route(*inputs, **named)
    return any(name in rule().normwise for name in ran.seen)


def _moved(leaf: Any, dtype: torch.dtype, draw: int, normwise: bool) -> Any:
    """Return a tensor of the dtype in float64, moved as it is stored: what views share moves as one."""
    if not numeric(leaf) or leaf.dtype is not dtype or not leaf.numel():
        return leaf
    wide = relocate(leaf, REFERENCE, torch.complex128 if leaf.is_complex() else torch.float64)
    stored = wide.detach().as_strided((wide.untyped_storage().nbytes() // wide.itemsize,), (1,), 0)
    stored.copy_(moved(stored, torch.finfo(dtype).eps, draw, normwise))
    return wide


def _is_identity(function: Any) -> bool:
    try:
        return function(mark := object()) is mark
    except Exception:
        return False


_DRAWN = """import random, numpy
from torch.testing._internal.common_methods_invocations import op_db


def seed(start):
    torch.default_generator.manual_seed(start), random.seed(start), numpy.random.seed(start)


# the sample of the operator database of this very torch
operator = next(op for op in op_db if (op.name, op.variant_test_name) == {name!r})
seed({seed})
with torch.no_grad(), torch.device("cpu"):
    made = iter(operator.sample_inputs_func(operator, "cpu", {dtype}, {backward}))
    for index in range({index} + 1):
        seed({seed} + index)
        sample = next(made)
arguments, options, finish = (sample.input, *sample.args), sample.kwargs, sample.output_process_fn_grad
"""

_CODE = """
from torch.utils._pytree import tree_leaves, tree_map


def run(place, wide):
    def move(x):
        if not torch.is_tensor(x):
            return {torch.float32: torch.float64}.get(x, x) if wide and isinstance(x, torch.dtype) else x
        kinds = [torch.complex128] * x.is_complex() + [torch.float64] * x.is_floating_point()
        return x.detach().to(place, kinds[0] if wide and kinds else x.dtype).requires_grad_(x.requires_grad)

    given, named = tree_map(move, (arguments, options))
    with torch.device(place):
        outputs = globals().get("finish", lambda x: x)(operator(*given, **named))
    found = [x for x in tree_leaves(outputs) if torch.is_tensor(x)]
    leaves = [x for x in tree_leaves((given, named)) if torch.is_tensor(x) and x.requires_grad]
    roots = [x for x in found if x.requires_grad]
    if roots and leaves:
        fed = [(torch.arange(1.0, x.numel() + 1, device=place) * 0.618 % 1 - 0.45).reshape(x.shape).to(x.dtype) for x in roots]
        found += torch.autograd.grad(roots, leaves, fed, allow_unused=True)
    return [x.detach().cpu() for x in found if x is not None]


first, second = run(torch.get_default_device(), False), run("cpu", True)
"""
