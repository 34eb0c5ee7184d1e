"""How far apart correct implementations of one operator may be in a narrow dtype, from float64 alone.

An ill-conditioned sample, or an overflow in between, is told from a wrong kernel without asking any kernel in that dtype: on the CPU
stack the anchor is the device itself and would excuse everything.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import count
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.device.devices import Operators
from stackproof.device.numerics import rule
from stackproof.operators.compute import Computed, Feed, compute, cotangent, relocate
from stackproof.operators.database import REFERENCE, OpInfo, SampleInput

_WIDE = (torch.float64, torch.complex128)
_DRAWS = 6  # a number that is next to an edge falls to its other side in half of them


def alternatives(op: OpInfo, sample: SampleInput, dtype: torch.dtype, backward: bool) -> tuple[Computed, ...]:
    """Return the operator's float64 results under rounding: one with narrow intermediates, some with moved inputs.

    Two correct kernels differ by the rounding of their inputs and of what they compute in between. Both are imitated: inputs moved by
    one unit in the last place, and every kernel's result rounded to the dtype. It is backward error in the sense of N. Higham, Accuracy
    and Stability of Numerical Algorithms, chapter 1.

    An alternative that raises (a probability above one, a matrix that is no longer positive) is left out.
    """
    results: list[Computed] = []
    trials: list[tuple[SampleInput, AbstractContextManager[Any], Feed]] = [(sample, _Narrow(dtype), cotangent)]
    normwise = _by_norm(op, sample, dtype)
    for draw in range(_DRAWS):
        trial = _replaced(sample, partial(_moved, dtype=dtype, draw=draw, normwise=normwise))
        trials.append((trial, nullcontext(), partial(_moved_cotangent, draw=draw)))
    for trial, mode, feed in trials:
        with suppress(Exception):
            results.append(compute(op, trial, REFERENCE, dtype, backward, True, mode, feed))
    return tuple(results)


def _by_norm(op: OpInfo, sample: SampleInput, dtype: torch.dtype) -> bool:
    """Tell whether the operator factorises or solves, which promises a small error of the whole matrix and not of each number in it."""
    ran = Operators()
    with suppress(Exception):
        compute(op, sample, REFERENCE, dtype, False, True, ran)
    return any(name in rule().normwise for name in ran.seen)


def _moved_cotangent(root: torch.Tensor, dtype: torch.dtype, draw: int) -> torch.Tensor:
    """Return the gradient that is fed in with each number one unit in its last place up or down."""
    fed = cotangent(root, dtype)
    moves = 1 + _signs(fed.numel(), draw).reshape(fed.shape) * torch.finfo(dtype).eps
    return (fed * moves).to(fed.dtype)


def scaled_down(op: OpInfo, sample: SampleInput, reference: Computed, backward: bool) -> Computed:
    """Return the float64 results with the error that the CPU makes in float32, in units of float64's last place.

    In float64 the CPU is the reference, and shows no error; the same kernels in float32 show what they make.
    """
    cut = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    short = _replaced(sample, lambda leaf: relocate(leaf, REFERENCE, cut.get(leaf.dtype, leaf.dtype)), cut)
    narrow, wide = (compute(op, short, REFERENCE, torch.float32, backward, exact) for exact in (False, True))
    ratio = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    errors = {
        name: torch.nan_to_num((narrow.values[name].to(value.dtype) - value) * ratio, 0.0, 0.0, 0.0)
        for name, value in wide.values.items()
        if value.is_floating_point() or value.is_complex()
    }
    values = {name: value + errors.get(name, 0) for name, value in reference.values.items()}
    return Computed(reference.outputs, values, reference.gradients)


def terms(op: OpInfo, sample: SampleInput, dtype: torch.dtype) -> float:
    """Return how many numbers are added into one number of the result, or into one of its gradient (1: elementwise).

    Counted in float64 by moving the first, middle and last number of each input: a number of the result adds what it depends
    on, and its gradient adds over what depends on an input.
    """
    base = compute(op, sample, REFERENCE, dtype, False, True).values
    into: dict[str, float] = dict.fromkeys(base, 0.0)
    most = 1.0
    for which, leaf in enumerate(_leaves(sample, dtype)):
        length = leaf.untyped_storage().nbytes() // leaf.itemsize
        places = sorted({0, length // 2, length - 1}) if length else []
        counts = [_changed(op, sample, dtype, which, place, base) for place in places]
        for name in base:
            numbers = [each[name] for each in counts if each]
            most = max([most, *numbers])
            into[name] += sum(numbers) / max(1, len(numbers)) * length / max(1, base[name].numel())
    return max([most, *into.values()])


def _leaves(sample: SampleInput, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the tensors that `_replaced` may change, in its order."""
    tree = (sample.input, tuple(sample.args), dict(sample.kwargs))
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and _is_plain(leaf, dtype)]


def _is_plain(leaf: torch.Tensor, dtype: torch.dtype) -> bool:
    return leaf.dtype is dtype and leaf.layout is torch.strided


def _with_one_moved(sample: SampleInput, dtype: torch.dtype, which: int, place: int) -> SampleInput:
    """Return the sample in float64 with one stored number of one tensor changed by a hundredth."""
    numbers = count()

    def change(leaf: torch.Tensor) -> torch.Tensor:
        if not _is_plain(leaf, dtype) or next(numbers) != which:
            return leaf
        wide = relocate(leaf, REFERENCE, _WIDE[leaf.is_complex()])
        stored = wide.detach().as_strided((wide.untyped_storage().nbytes() // wide.itemsize,), (1,), 0)
        stored[place] = stored[place] * 1.01 + 0.01
        return wide

    return _replaced(sample, change)


def _changed(
    op: OpInfo, sample: SampleInput, dtype: torch.dtype, which: int, place: int, base: dict[str, torch.Tensor]
) -> dict[str, int]:
    """Return how many numbers of each output one moved input changes; nothing if the sample left the operator's domain."""
    try:
        moved = _with_one_moved(sample, dtype, which, place)
        values = compute(op, moved, REFERENCE, dtype, False, True).values
        return {name: int((_strided(values[name]) != _strided(value)).sum()) for name, value in base.items()}
    except Exception:
        return {}


def _strided(value: torch.Tensor) -> torch.Tensor:
    return value if value.layout is torch.strided else value.to_dense()


class _Narrow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds what each float64 kernel returns to the dtype: the operator as composed of exact kernels in that dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.narrow = {torch.float64: dtype.to_real()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(value.alias_info and not value.alias_info.is_write for value in func._schema.returns):  # views
            for leaf in tree_leaves(result):
                self._round(leaf)
        return result

    def _round(self, leaf: Any) -> None:
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            part = torch.view_as_real(leaf) if leaf.dtype is torch.complex128 else leaf
            if part.dtype in self.narrow:
                part.copy_(part.to(self.narrow[part.dtype]).to(part.dtype))


def _moved(leaf: torch.Tensor, dtype: torch.dtype, draw: int, normwise: bool) -> torch.Tensor:
    """Return the tensor in float64 with each number one unit in its last place up or down; if `normwise`, in that of the largest."""
    if leaf.dtype is not dtype or leaf.layout is not torch.strided or leaf.numel() == 0:
        return leaf
    wide = relocate(leaf, REFERENCE, _WIDE[leaf.is_complex()])
    stored = wide.untyped_storage().nbytes() // wide.itemsize
    numbers = wide.detach().as_strided((stored,), (1,), 0)  # what views share moves as one
    sizes = torch.nan_to_num(numbers.abs(), 0.0, 0.0).max() if normwise else numbers
    numbers.add_(_signs(stored, draw) * torch.finfo(dtype).eps * sizes)
    return wide


def _signs(length: int, draw: int) -> torch.Tensor:
    """Draw ones of both signs."""
    drawn = torch.randint(0, 2, (length,), generator=torch.Generator().manual_seed(draw), dtype=torch.float64)
    return drawn * 2 - 1


def untied(sample: SampleInput, dtype: torch.dtype) -> SampleInput:
    """Return the sample with equal numbers made different, in the order in which they stand.

    Which of equal numbers a sort, a top-k or a maximum takes is the device's choice; of different ones it is not.
    """
    return _replaced(sample, lambda leaf: _spread_out(leaf) if leaf.dtype is dtype else leaf)


_BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
}


def _spread_out(leaf: torch.Tensor) -> torch.Tensor:
    """Lift each number just above its predecessor in sorted order, counted in representable numbers.

    Where they would run out of finite ones at the top, they are pushed down again.
    """
    if leaf.dtype not in _BITS or not bool(torch.isfinite(leaf).all()):
        return leaf
    flat = leaf.detach().flatten()
    bits = flat.view(_BITS[leaf.dtype]).to(torch.int64)
    keys = torch.where(bits < 0, -(bits & torch.iinfo(_BITS[leaf.dtype]).max), bits)
    ordered, places = torch.sort(keys, stable=True)
    steps = torch.arange(len(keys))
    largest = torch.tensor(torch.finfo(leaf.dtype).max, dtype=leaf.dtype).view(_BITS[leaf.dtype]).to(torch.int64)
    raised = torch.cummax(ordered - steps, 0).values + steps
    lifted = torch.empty_like(keys).scatter_(0, places, torch.minimum(raised, largest - steps.flip(0)))
    back = torch.where(lifted < 0, -lifted | torch.iinfo(_BITS[leaf.dtype]).min, lifted).to(_BITS[leaf.dtype])
    made = torch.empty_like(leaf.detach()).copy_(back.view(leaf.dtype).view(leaf.shape))
    return made.requires_grad_(leaf.requires_grad)


def _replaced(
    sample: SampleInput,
    change: Callable[[torch.Tensor], torch.Tensor],
    dtypes: Mapping[torch.dtype, torch.dtype] | None = None,
) -> SampleInput:
    """Return a copy of the sample whose tensors went through `change`, and whose arguments that are dtypes through `dtypes`."""

    def each(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return (dtypes or {}).get(leaf, leaf)
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    made = copy.copy(sample)
    made.input, made.args, made.kwargs = tree_map(each, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    return made
