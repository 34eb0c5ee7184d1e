"""What a kernel computes, without that kernel: torch's own decompositions down to primitive ones, and NumPy for those.

A reference that runs the same kernel in float64 sees nothing that is wrong in every dtype. torch's decompositions are what its compilers
compute instead of a kernel (https://docs.pytorch.org/docs/stable/torch.compiler_ir.html), forward and backward ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from stackproof.operators.database import REFERENCE

Array = Any


@cache
def _table() -> Mapping[Any, Callable[..., Any]]:
    """Return torch's decompositions by kernel, with those that its references register (takes a second)."""
    import torch._decomp.decompositions
    import torch._refs.fft
    import torch._refs.linalg
    import torch._refs.nn.functional
    import torch._refs.special

    return torch._decomp.decomposition_table


class Decomposed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Replaces each kernel by what torch says that it is made of, and what is made of nothing else by NumPy's on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._within: set[Any] = set()
        self.replaced: set[str] = set()
        """The kernels that were not run."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, leaf, made = _substitute(func)
        if leaf:
            result = _in_numpy(leaf, args, kwargs)
            if result is not None:
                self.replaced.add(name)
                return result
        if made is not None and func not in self._within:
            self._within.add(func)
            try:
                with self:
                    result = made(*args, **kwargs)
            finally:
                self._within.discard(func)
            if result is not NotImplemented:
                self.replaced.add(name)
                return result
        return func(*args, **kwargs)


@cache
def _substitute(func: Any) -> tuple[str, Callable[..., Any] | None, Callable[..., Any] | None]:
    """Return a kernel's name, NumPy's function for it, and what torch makes it of."""
    name = str(func)
    return name, _LEAVES.get(name.rpartition(".")[0]), None if name in _KEPT else _table().get(func)


def _in_numpy(leaf: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return what a function of arrays gives as tensors; nothing if a tensor is not dense, on the CPU, and of a dtype that NumPy has."""
    able = True

    def array(leaf: Any) -> Any:
        nonlocal able
        if not isinstance(leaf, torch.Tensor):
            return leaf
        able &= leaf.layout is torch.strided and leaf.device == REFERENCE and leaf.dtype is not torch.bfloat16
        return leaf.detach().resolve_conj().resolve_neg().numpy() if able else leaf

    arrays, named = tree_map(array, (tuple(args), dict(kwargs)))
    if not able:
        return None
    with np.errstate(all="ignore"):
        result = leaf(*arrays, **named)

    def tensor(leaf: Any) -> Any:
        return torch.from_numpy(np.array(leaf)) if isinstance(leaf, np.ndarray | np.generic) else leaf

    return None if result is None else tree_map(tensor, result)


def _axes(x: Array, dims: Any) -> Any:
    return tuple(range(x.ndim)) if dims is None else tuple(dims)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Array, dims: Any = None, *, output_dtype: Any = None) -> Array:
        result = function(x, axis=_axes(x, dims))
        kind = output_dtype or torch.from_numpy(np.empty(0, x.dtype)).dtype
        return result.astype(torch.empty(0, dtype=kind).numpy().dtype)

    return reduce


def _variance(x: Array, dims: Any, correction: float | None = 1, *, output_dtype: Any = None) -> Array:
    del output_dtype
    axes = _axes(x, dims)
    if not x.size:
        return None
    freedom = max(0.0, math.prod(x.shape[axis] for axis in axes) - (1.0 if correction is None else correction))
    square = np.abs(x - x.mean(axes, keepdims=True)) ** 2
    return np.asarray(square.sum(axes) / np.float64(freedom)).astype(square.dtype)


def _order(x: Array, dim: int, descending: bool = False) -> Array:
    """Return places in a stable order in which NaN is the largest."""
    if not descending:
        return np.argsort(x, dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - np.argsort(np.flip(x, dim), dim, kind="stable"), dim)


def _sorted(x: Array, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    del stable
    if not x.ndim:
        return x, np.int64(0)
    places = _order(x, dim, descending)
    return np.take_along_axis(x, places, dim), places


def _top(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: A002 - its name
    del sorted
    if not x.ndim or x.size != len(np.unique(x)):
        return None  # among equals there are many orders
    values, places = _sorted(x, dim, largest)
    return values.take(range(k), dim), places.take(range(k), dim)


def _gathered(x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    del sparse_grad
    return x[_at(index, dim)] if x.ndim and index.ndim else x.reshape(-1)[index]


def _at(index: Array, dim: int) -> tuple[Array, ...]:
    """Return the places in all dimensions that a gather or scatter along one says."""
    places = list(np.indices(index.shape, sparse=True))
    places[dim] = index
    return tuple(places)


def _scattered(way: str | None) -> Callable[..., Any]:
    def scatter(x: Array, dim: int, index: Array, source: Any, reduce: str | None = None, *, include_self: bool = True) -> Any:  # fmt: skip
        kind = {"add": "sum", "multiply": "prod"}.get(reduce or "", reduce) or way
        if not x.ndim or not index.ndim:
            return None
        out, places = x.copy(), _at(index, dim)
        values = source[tuple(map(slice, index.shape))] if isinstance(source, np.ndarray) and source.ndim else source
        if kind is None:
            out[places] = values
            distinct = np.unique(np.stack([np.ravel(each) for each in np.broadcast_arrays(*places)]), axis=1)
            return out if distinct.shape[1] == index.size else None  # of several for one place any may stay
        return _into(out, places, values, kind, include_self)

    return scatter


def _into(out: Array, places: Any, values: Any, kind: str, include_self: bool) -> Array:
    start = {"sum": 0, "mean": 0, "prod": 1}
    if not include_self:
        low = np.iinfo(out.dtype).min if out.dtype.kind in "iu" else -np.inf
        high = np.iinfo(out.dtype).max if out.dtype.kind in "iu" else np.inf
        out[places] = {**start, "amax": low, "amin": high}[kind]
    ways = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
    ways[kind].at(out, places, values)
    if kind == "mean":
        count = np.full(out.shape, int(include_self))
        np.add.at(count, places, 1)
        whole = out.dtype.kind in "iu"
        out = out // np.maximum(count, 1) if whole else out / np.maximum(count, 1)
    return out


def _slots(places: Any) -> Any:
    return tuple(slice(None) if place is None else place for place in places)


def _plain(places: Any) -> bool:
    """Whether NumPy puts dimensions that are indexed where torch puts them: they stand together, and are no truth values."""
    given = [n for n, place in enumerate(places) if place is not None]
    return given == list(range(given[0], given[-1] + 1)) and all(places[n].dtype.kind != "b" for n in given)


def _put(x: Array, places: Any, values: Array, accumulate: bool = False) -> Any:
    if not _plain(places) or not accumulate:
        return None
    out = x.copy()
    np.add.at(out, _slots(places), values)
    return out


def _searched(
    line: Array, x: Array, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Array:
    rows = line.reshape(-1, line.shape[-1])
    orders = [None] * len(rows) if sorter is None else sorter.reshape(rows.shape)
    asked = x.reshape(len(rows), -1) if line.ndim > 1 else x.reshape(1, -1)
    how: Any = side or ("right" if right else "left")
    found = [np.searchsorted(row, want, how, order) for row, want, order in zip(rows, asked, orders, strict=True)]
    return np.reshape(found, x.shape).astype(np.int32 if out_int32 else np.int64)


def _windows(
    x: Array, sides: int, kernel: Any, stride: Any, padding: Any, ceil: bool, fill: float, gaps: Any = 1
) -> Any:
    """Return (..., places, window) of a pool, of `fill` where there is nothing."""
    sizes, steps, edges, gaps = (_each(value, sides) for value in (kernel, stride, padding, gaps))
    widths, counts = [(0, 0)] * (x.ndim - sides), []
    spans = [gap * (size - 1) + 1 for gap, size in zip(gaps, sizes, strict=True)]
    for length, span, step, edge in zip(x.shape[-sides:], spans, steps, edges, strict=True):
        count = (math.ceil if ceil else math.floor)((length + 2 * edge - span) / step) + 1
        count -= ceil and (count - 1) * step >= length + edge  # the last window starts inside
        widths.append((edge, max(edge, (count - 1) * step + span - length - edge)))
        counts.append(count)
    axes = tuple(range(x.ndim - sides, x.ndim))
    whole = np.lib.stride_tricks.sliding_window_view(np.pad(x, widths, constant_values=fill), spans, axes)
    cut = [slice(0, (n - 1) * step + 1, step) for n, step in zip(counts, steps, strict=True)]
    strides = [slice(None, None, gap) for gap in gaps]
    whole = whole[cast(Any, (..., *cut, *strides))]
    return whole.reshape(*x.shape[:-sides], *counts, math.prod(sizes))


def _each(value: Any, sides: int) -> list[int]:
    """Return a size for each side."""
    return [int(value)] * sides if np.ndim(value) == 0 else (list(value) * sides)[:sides]


def _max_pool(sides: int) -> Callable[..., Any]:
    def pool(
        x: Array, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        how = (sides, kernel, stride if np.size(stride) else kernel, padding, ceil_mode)
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        places = np.broadcast_to(np.arange(math.prod(x.shape[-sides:])).reshape(x.shape[-sides:]), x.shape)
        windows = _windows(x, *how, least, dilation)
        best = windows.argmax(-1)[..., None]
        return tuple(np.take_along_axis(w, best, -1)[..., 0] for w in (windows, _windows(places, *how, -1, dilation)))

    return pool


def _mean_pool(sides: int) -> Callable[..., Any]:
    def pool(
        x: Array, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Array:  # fmt: skip
        step = stride if np.size(stride) else kernel
        total = np.nan_to_num(_windows(x, sides, kernel, step, padding, ceil_mode, np.nan), nan=0.0).sum(-1)
        inside = np.ones_like(x)
        if count_include_pad:  # the padding counts, and what lies behind it does not
            edges = [(0, 0)] * (x.ndim - sides) + [(edge, edge) for edge in _each(padding, sides)]
            inside = np.pad(inside, edges, constant_values=1.0)
            padding = 0
        count = _windows(inside, sides, kernel, step, padding, ceil_mode, 0.0).sum(-1)
        count = count[tuple(map(slice, total.shape))]
        return None if np.isnan(x).any() or count.shape != total.shape else total / (divisor_override or count)

    return pool


def _transformed(x: Array, dims: Any, normalization: int, forward: bool) -> Array:
    norm: Any = ("backward" if forward else "forward", "ortho", "forward" if forward else "backward")[normalization]
    return (np.fft.fftn if forward else np.fft.ifftn)(x, axes=dims, norm=norm).astype(x.dtype)


_KEPT = {"aten._scaled_dot_product_flash_attention_for_cpu.default"}
"""What is decomposed only forward: a kernel's own derivative takes what it left."""
_LEAVES: Mapping[str, Callable[..., Any]] = {
    "prims.sum": _reduced(np.sum), "prims.prod": _reduced(np.prod), "prims.amax": _reduced(np.max), "prims.amin": _reduced(np.min),
    "prims.var": _variance, "aten.mm": np.matmul, "aten.bmm": np.matmul, "aten.sort": _sorted, "aten.topk": _top,
    "aten.gather": _gathered, "aten.scatter": _scattered(None), "aten.scatter_add": _scattered("sum"),
    "aten.scatter_reduce": _scattered(None), "aten.index": lambda x, places: x[_slots(places)] if _plain(places) else None,
    "aten.index_put": _put, "aten.searchsorted": _searched,
    "aten.avg_pool2d": _mean_pool(2), "aten.avg_pool3d": _mean_pool(3), "aten.max_pool2d_with_indices": _max_pool(2),
    "aten.max_pool3d_with_indices": _max_pool(3), "aten._fft_c2c": _transformed,
    "aten.histc": lambda x, bins=100, low=0, high=0: np.histogram(x, bins, (low, high) if low < high else None)[0].astype(x.dtype),
    "aten.nonzero": lambda x: np.stack(np.nonzero(x), 1) if x.ndim else None,
}  # fmt: skip
"""Kernels that nothing decomposes, as functions of arrays; a result of None: this call is not for them."""
