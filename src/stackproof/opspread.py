"""How far apart correct implementations of one operator may be in a narrow dtype, from float64 alone.

Two correct kernels differ by the rounding of the inputs that they were given and of what they compute in between.
Both are imitated in float64: inputs moved by one unit in the last place, and every kernel's result rounded to the dtype. So
an ill-conditioned sample (a coordinate on a cell's edge, a loss near zero) and an overflow in between are told from a
wrong kernel without asking any kernel in that dtype: on the CPU stack the anchor is the device itself and would excuse
everything. It is backward error in the sense of N. Higham, Accuracy and Stability of Numerical Algorithms, chapter 1.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from .opdatabase import REFERENCE, Computed, OpInfo, SampleInput, compute, relocate

_DRAWS = 6  # a number that is next to an edge falls to its other side in half of them


def alternatives(op: OpInfo, sample: SampleInput, dtype: torch.dtype, backward: bool) -> tuple[Computed, ...]:
    """Return the operator's float64 results under rounding: one with narrow intermediates, some with moved inputs.

    An alternative that raises (a probability above one, a matrix that is no longer positive) is left out.
    """
    found: list[Computed] = []
    trials: list[tuple[SampleInput, AbstractContextManager[Any]]] = [(sample, _Narrow(dtype))]
    for draw in range(_DRAWS):
        trials.append((_replaced(sample, partial(_moved, dtype=dtype, draw=draw)), nullcontext()))
    for trial, mode in trials:
        with suppress(Exception):
            found.append(compute(op, trial, REFERENCE, dtype, backward, True, mode))
    return tuple(found)


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


def _moved(leaf: torch.Tensor, dtype: torch.dtype, draw: int) -> torch.Tensor:
    """Return the tensor in float64 with each number one unit in its last place up or down."""
    if leaf.dtype is not dtype or leaf.layout is not torch.strided or leaf.numel() == 0:
        return leaf
    wide = relocate(leaf, REFERENCE, torch.complex128 if leaf.is_complex() else torch.float64)
    stored = wide.untyped_storage().nbytes() // wide.itemsize
    signs = torch.randint(0, 2, (stored,), generator=torch.Generator().manual_seed(draw), dtype=torch.float64) * 2 - 1
    wide.detach().as_strided((stored,), (1,), 0).mul_(
        1 + signs * torch.finfo(dtype).eps
    )  # what views share moves as one
    return wide


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
    """Lift each number just above its predecessor in sorted order, counted in representable numbers."""
    if leaf.dtype not in _BITS or not bool(torch.isfinite(leaf).all()):
        return leaf
    flat = leaf.detach().flatten()
    bits = flat.view(_BITS[leaf.dtype]).to(torch.int64)
    keys = torch.where(bits < 0, -(bits & torch.iinfo(_BITS[leaf.dtype]).max), bits)
    ordered, places = torch.sort(keys, stable=True)
    steps = torch.arange(len(keys))
    lifted = torch.empty_like(keys).scatter_(0, places, torch.cummax(ordered - steps, 0).values + steps)
    back = torch.where(lifted < 0, -lifted | torch.iinfo(_BITS[leaf.dtype]).min, lifted).to(_BITS[leaf.dtype])
    made = torch.empty_like(leaf.detach()).copy_(back.view(leaf.dtype).view(leaf.shape))
    return made.requires_grad_(leaf.requires_grad)


def _replaced(sample: SampleInput, change: Callable[[torch.Tensor], torch.Tensor]) -> SampleInput:
    """Return a copy of the sample whose tensors went through `change`."""

    def each(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    made = copy.copy(sample)
    made.input, made.args, made.kwargs = tree_map(each, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    return made
