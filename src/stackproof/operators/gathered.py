"""Classes of operators that make one number of many, or put many in order: sums, choices, scans, softmax, sorting and indexing.

What is added in any order errs by a few units for each doubling of the count where it is added in a tree, and by their square root where
one after the other (Higham and Mary, 2019); rows are added one way by one device and the other way by another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from stackproof.operators import statistics
from stackproof.operators.arrays import WIDE, Array, Expected, stored, tensor
from stackproof.operators.moving import moved, turned
from stackproof.operators.regimes import numbers
from stackproof.operators.trials import Class, Trial, pairs, wide

_ROWS = 8
_LONG = 100_003
_LONGEST = {torch.float64: 1_000_003, torch.float32: 10_000_019}
_BINS = 97


def _given(regime: str, dtype: torch.dtype, long: int = _LONG) -> Array | None:
    """Return a matrix of a regime; of long rows one."""
    count = long if regime == "long" else _ROWS * 509
    values = numbers(regime, dtype, count)
    return None if values is None else values.reshape((1, -1) if regime == "long" else (_ROWS, -1))


def _accumulated(dtype: torch.dtype) -> float:
    """Return epsilon of what a dtype is added up in: halves in float32."""
    return min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def _tree(count: int, dtype: torch.dtype, serial: float = 16.0) -> float:
    """Return the relative error of a sum of so many positive numbers."""
    return _accumulated(dtype) * (4 + math.log2(max(count, 2)) + math.sqrt(count) / serial)


def _trial(name: str, call: Callable[..., Any], given: list[Any], expected: Expected, dtype: torch.dtype) -> Trial:
    return Trial(name, partial(call, *given), expected, dtype)


def sums(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return sums, means, variances and norms: of rows, columns and everything."""
    values = _given(regime, dtype)
    if values is None or (regime == "extreme" and dtype.is_floating_point):
        return  # whether a sum of extremes overflows on the way depends on the order
    for dim in (0, 1, None) if values.shape[0] > 1 else (1, None):
        shaped = values.reshape(-1) if dim is None else values
        given = tensor(shaped, dtype, device)
        yield from _sums(dim, given, wide(shaped), dtype) if dtype.is_floating_point else _counts(dim, given, shaped)
        if dtype.is_floating_point and regime != "subnormal":  # squares of subnormal numbers are zero
            yield from _squares(dim, given, wide(shaped), dtype)
    if regime == "long" and dtype in _LONGEST and (longest := _given(regime, dtype, _LONGEST[dtype])) is not None:
        yield from _sums(1, tensor(longest, dtype, device), wide(longest), dtype)


def _along(dim: int | None) -> list[Any]:
    return [] if dim is None else [dim]


def _counts(dim: int | None, given: torch.Tensor, values: Array) -> Iterator[Trial]:
    with np.errstate(over="ignore"):
        total, product = values.sum(dim, dtype=np.int64), values.astype(np.int64).prod(dim)
    yield _trial("sum", torch.sum, [given, *_along(dim)], Expected(np.asarray(total)), torch.int64)
    yield _trial("Tensor.sum", torch.Tensor.sum, [given, *_along(dim)], Expected(np.asarray(total)), torch.int64)
    yield _trial("prod", torch.prod, [given, *_along(dim)], Expected(np.asarray(product)), torch.int64)


def _sums(dim: int | None, given: torch.Tensor, exact: Array, dtype: torch.dtype) -> Iterator[Trial]:
    count = exact.size if dim is None else exact.shape[dim]
    with np.errstate(all="ignore"):
        room = _tree(count, dtype, 100.0) * np.nan_to_num(np.abs(exact).sum(dim), nan=0, posinf=0)
        total = np.asarray(exact.sum(dim))
    yield _trial("sum", torch.sum, [given, *_along(dim)], Expected(total, 1.0, room), dtype)
    yield _trial("Tensor.sum", torch.Tensor.sum, [given, *_along(dim)], Expected(total, 1.0, room), dtype)
    yield _trial("mean", torch.mean, [given, *_along(dim)], Expected(total / count, 1.0, room / count), dtype)
    held = np.where(np.isnan(exact), WIDE(0), exact)
    with np.errstate(all="ignore"):
        nansum = Expected(
            np.asarray(held.sum(dim)), 1.0, _tree(count, dtype) * np.nan_to_num(np.abs(held).sum(dim), posinf=0)
        )
    yield _trial("nansum", torch.nansum, [given, *_along(dim)], nansum, dtype)


def _squares(dim: int | None, given: torch.Tensor, exact: Array, dtype: torch.dtype) -> Iterator[Trial]:
    """Return variances, by any method but the difference of squares, and norms."""
    count = exact.size if dim is None else exact.shape[dim]
    with np.errstate(all="ignore"):
        mean = exact.mean(dim, keepdims=True)
        variance = np.asarray(((exact - mean) ** 2).sum(dim) / max(count - 1, 1))
        deviation, size = np.sqrt(variance), np.abs(np.asarray(exact.mean(dim)))
        lost = 8 * _accumulated(dtype) * (size * deviation + variance * math.sqrt(count))
        norm = np.asarray(np.sqrt((exact * exact).sum(dim)))
        half = np.nan_to_num(lost / (2 * deviation), posinf=0)
    yield _trial("var", torch.var, [given, *_along(dim)], Expected(variance, 4.0, np.nan_to_num(lost, posinf=0)), dtype)
    yield _trial("std", torch.std, [given, *_along(dim)], Expected(deviation, 4.0, half), dtype)
    room = _tree(count, dtype, 1.0) * np.nan_to_num(norm, posinf=0)
    call = lambda x, *d: torch.linalg.vector_norm(x, 2, *d)  # noqa: E731
    yield _trial("norm", call, [given, *_along(dim)], Expected(norm, 4.0, room), dtype)


_SOUGHT = 16


def choices(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return the largest, the smallest, where they are (the first of equals, the first NaN), and what is counted."""
    values = _given(regime, dtype)
    if values is None:
        return
    given = tensor(values, dtype, device)
    yield from _of_all(values, given, dtype)
    if dtype not in (torch.bool, torch.bfloat16, torch.float16):
        some = values.reshape(-1)[:_SOUGHT]
        sought = Expected(np.asarray(np.isin(values, some)))
        yield _trial("isin", torch.isin, [given, tensor(some, dtype, device)], sought, torch.bool)
    for dim in (0, 1) if len(values) > 1 else (1,):
        truth = {"any": values.any(dim), "all": values.all(dim)}
        for name, found in truth.items():
            made = torch.uint8 if dtype is torch.uint8 else torch.bool
            yield _trial(name, getattr(torch, name), [given, dim], Expected(found.astype(stored(made))), made)
        counted = Expected(np.count_nonzero(values, axis=dim))
        yield _trial("count_nonzero", torch.count_nonzero, [given, dim], counted, torch.int64)
        if dtype is torch.bool:
            continue
        for name, most, arg in (
            ("max", values.max(dim), values.argmax(dim)),
            ("min", values.min(dim), values.argmin(dim)),
        ):
            yield _trial(f"a{name}", getattr(torch, f"a{name}"), [given, dim], Expected(most), dtype)
            yield _trial(name, lambda x, d, n=name: getattr(torch, n)(x, d)[0], [given, dim], Expected(most), dtype)
            yield _trial(f"arg{name}", getattr(torch, f"arg{name}"), [given, dim], Expected(arg), torch.int64)
            place = lambda x, d, n=name: getattr(torch, n)(x, d)[1]  # noqa: E731
            yield _trial(f"{name}, index", place, [given, dim], Expected(arg), torch.int64)


def _of_all(values: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    """Return the same of a whole tensor, which are kernels of their own."""
    made = torch.uint8 if dtype is torch.uint8 else torch.bool
    for name, found in {"any": values.any(), "all": values.all()}.items():
        yield _trial(f"{name} of all", getattr(torch, name), [given], Expected(np.asarray(found, stored(made))), made)
    if dtype is torch.bool:
        return
    for name, most, arg in (("max", values.max(), values.argmax()), ("min", values.min(), values.argmin())):
        yield _trial(f"{name} of all", getattr(torch, name), [given], Expected(np.asarray(most)), dtype)
        yield _trial(f"arg{name} of all", getattr(torch, f"arg{name}"), [given], Expected(np.asarray(arg)), torch.int64)


def scans(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return running sums, products and extremes."""
    values = _given(regime, dtype)
    if values is None:
        return
    given, exact = tensor(values, dtype, device), wide(values)
    if dtype.is_floating_point:
        with np.errstate(all="ignore"):
            size = np.nan_to_num(np.cumsum(np.abs(exact), 1), nan=0, posinf=0)
            # some devices keep the running sum of halves in halves
            share = _tree(exact.shape[1], dtype) * torch.finfo(dtype).eps / _accumulated(dtype)
            yield _trial("cumsum", torch.cumsum, [given, 1], Expected(np.cumsum(exact, 1), 1.0, share * size), dtype)
    else:
        yield _trial("cumsum", torch.cumsum, [given, 1], Expected(np.cumsum(exact.astype(np.int64), 1)), torch.int64)
        with np.errstate(over="ignore"):
            product = np.cumprod(exact.astype(np.int64), 1)
        yield _trial("cumprod", torch.cumprod, [given, 1], Expected(product), torch.int64)
    if dtype is not torch.bool:
        yield _trial(
            "cummax", lambda x: torch.cummax(x, 1)[0], [given], Expected(np.maximum.accumulate(values, 1)), dtype
        )
        yield _trial(
            "cummin", lambda x: torch.cummin(x, 1)[0], [given], Expected(np.minimum.accumulate(values, 1)), dtype
        )
        yield from statistics.positions(values, given, dtype)
        yield from statistics.running_logs(values, given, dtype)


def softmaxes(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return softmax, its logarithm, logsumexp, cross entropy and layer norm of rows."""
    values = _given(regime, dtype)
    if values is None or not dtype.is_floating_point:
        return
    given, exact, eps = tensor(values, dtype, device), wide(values), torch.finfo(dtype).eps
    with np.errstate(all="ignore"):
        top = exact.max(1, keepdims=True)
        powers = np.exp(exact - top)
        total = powers.sum(1, keepdims=True)
        log = exact - top - np.log(total)
        share = 4 * _tree(exact.shape[1], dtype)
        soft = Expected(powers / total, 4.0, share * np.nan_to_num(powers / total) + torch.finfo(dtype).tiny)
        logs = Expected(
            log, 4.0, np.nan_to_num(share + eps * np.abs(np.where(np.isfinite(exact - top), exact - top, 0)))
        )
        whole = Expected((top + np.log(total))[:, 0], 4.0, share)
    yield _trial("softmax", torch.softmax, [given, 1], soft, dtype)
    yield _trial("functional.softmax", functional.softmax, [given, 1], soft, dtype)
    yield _trial("log_softmax", torch.log_softmax, [given, 1], logs, dtype)
    if not np.isinf(exact).any():
        yield _trial("logsumexp", torch.logsumexp, [given, 1], whole, dtype)
    elif regime == "special":  # rows in which every number is the same infinity, as attention's masks make them
        ends = np.array([-np.inf, np.inf])
        rows = tensor(np.repeat(ends[:, None], 5, 1), dtype, device)
        yield _trial("logsumexp of infinities", torch.logsumexp, [rows, 1], Expected(ends.astype(WIDE)), dtype)
    if regime == "extreme":  # their squares overflow
        return
    classes = np.arange(len(exact)) * 7 % exact.shape[1]
    wanted = -np.take_along_axis(log, classes[:, None], 1)[:, 0]
    label = torch.from_numpy(classes).to(device)
    entropy = lambda x, c: functional.cross_entropy(x, c, reduction="none")  # noqa: E731
    loose = np.nan_to_num(np.take_along_axis(logs.slack, classes[:, None], 1)[:, 0])
    yield _trial("cross_entropy", entropy, [given, label], Expected(wanted, 4.0, loose), dtype)
    with np.errstate(all="ignore"):
        away = exact - exact.mean(1, keepdims=True)
        variance = (away * away).mean(1, keepdims=True)
        normal = away / np.sqrt(variance + WIDE(1e-5))
        lost = 16 * _accumulated(dtype) * (4 + np.abs(exact.mean(1, keepdims=True)) / np.sqrt(variance + WIDE(1e-5)))
        slack = np.nan_to_num(lost * (1 + np.abs(normal)), posinf=0)
    layer = lambda x: functional.layer_norm(x, (x.shape[1],))  # noqa: E731
    yield _trial("layer_norm", layer, [given], Expected(normal, 4.0, slack), dtype)


def _ranks(values: Array) -> Array:
    """Return each number's place among the different ones; NaN is above all, as in torch."""
    if values.dtype.kind != "f":
        return np.unique(values, return_inverse=True)[1].reshape(values.shape)
    lost = np.isnan(values)
    known = np.unique(values[~lost])
    return np.where(lost, len(known), np.searchsorted(known, np.where(lost, 0, values)))


def sorting(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return stable sorts both ways, the largest few, medians, different numbers, and places in a sorted row."""
    values = _given(regime, dtype)
    if values is None:
        return
    values = values[:, :_LONG]
    given, ranks = tensor(values, dtype, device), _ranks(values)
    for falling in (False, True):
        order = np.argsort(-ranks if falling else ranks, axis=1, kind="stable")
        ordered = np.take_along_axis(values, order, 1)
        way = "falling" if falling else "rising"
        sorts: dict[str, Any] = {"torch.sort": torch.sort, "Tensor.sort": torch.Tensor.sort}
        for name, call in sorts.items():
            stable: Any = partial(call, stable=True, dim=1, descending=falling)
            yield _trial(f"{name}, stable, {way}", lambda x, f=stable: f(x)[0], [given], Expected(ordered), dtype)
            yield _trial(f"{name}, places, {way}", lambda x, f=stable: f(x)[1], [given], Expected(order), torch.int64)
        plain = lambda x, f=falling: torch.sort(x, 1, f)[0]  # noqa: E731
        yield _trial(f"sort, {way}", plain, [given], Expected(ordered), dtype)
        argsort = lambda x, f=falling: torch.argsort(x, dim=1, descending=f, stable=True)  # noqa: E731
        yield _trial(f"argsort, {way}", argsort, [given], Expected(order), torch.int64)
        if dtype is not torch.bool:
            few = lambda x, f=falling: torch.topk(x, 9, 1, largest=f)[0]  # noqa: E731
            yield _trial(f"topk, {way}", few, [given], Expected(ordered[:, :9]), dtype)
    if dtype is not torch.bool:
        yield from _middles(values, given, dtype)
        yield from statistics.of_rows(regime, values, given, dtype)
        yield from _different(values, given, dtype)


def _middles(values: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    rising = np.take_along_axis(values, np.argsort(_ranks(values), axis=1, kind="stable"), 1)
    middle = rising[:, (values.shape[1] - 1) // 2]
    if values.dtype.kind == "f":
        middle = np.where(np.isnan(values).any(1), np.nan, middle).astype(values.dtype)
    yield _trial("median", lambda x: torch.median(x, 1)[0], [given], Expected(middle), dtype)
    yield _trial("kthvalue", lambda x: torch.kthvalue(x, 5, 1)[0], [given], Expected(rising[:, 4]), dtype)


def _different(values: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    if values.dtype.kind == "f" and np.isnan(values).any():
        return
    flat, row = values.reshape(-1), given.reshape(-1)
    known, inverse, counts = np.unique(flat, return_inverse=True, return_counts=True)
    for place, (found, kind) in enumerate(((known, dtype), (inverse.reshape(-1), torch.int64), (counts, torch.int64))):
        call = lambda x, p=place: torch.unique(x, return_inverse=True, return_counts=True)[p]  # noqa: E731
        yield _trial(f"unique, {('values', 'places', 'counts')[place]}", call, [row], Expected(found), kind)
    borders = tensor(known[::2], dtype, given.device)
    for right in (False, True):
        places = np.searchsorted(known[::2], flat, side="right" if right else "left")
        for name in ("searchsorted", "bucketize"):
            at = lambda b, x, n=name, r=right: (  # noqa: E731
                torch.searchsorted(b, x, right=r) if n == "searchsorted" else torch.bucketize(x, b, right=r)
            )
            yield _trial(f"{name}, {'right' if right else 'left'}", at, [borders, row], Expected(places), torch.int64)


def indexing(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return what is added, put and taken by indices that come several times."""
    values = pairs(regime, dtype)
    if values is None:
        return
    flat, start = values[0], values[1][:_BINS]
    places = np.random.Generator(np.random.PCG64(5)).integers(0, _BINS, len(flat))
    given, base, index = tensor(flat, dtype, device), tensor(start, dtype, device), torch.from_numpy(places).to(device)
    yield from _taken(flat, given, places, index, dtype)
    yield from moved(flat, given, dtype)
    yield from turned(flat, given, dtype)
    if dtype is not torch.bool:
        if regime != "extreme" or not dtype.is_floating_point:  # sums of extremes overflow on the way, or not
            yield from _added(flat, start, places, (base, index, given), dtype)
        yield from _extremes(flat, start, places, (base, index, given), dtype)
    if dtype in (torch.int64, torch.int32):
        return
    counts = np.bincount(places, minlength=_BINS)
    yield _trial("bincount", torch.bincount, [index], Expected(counts), torch.int64)


def _taken(flat: Array, given: torch.Tensor, places: Array, index: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    wanted, chosen = Expected(flat[places]), flat.astype(bool)
    for name, call in {
        "index_select": lambda x, i: torch.index_select(x, 0, i),
        "gather": lambda x, i: torch.gather(x, 0, i),
        "take": torch.take,
        "getitem": lambda x, i: x[i],
        "embedding": lambda x, i: functional.embedding(i, x[:, None])[:, 0],
    }.items():
        yield _trial(name, call, [given, index], wanted, dtype)
    yield _trial("nonzero", lambda x: torch.nonzero(x)[:, 0], [given], Expected(np.flatnonzero(chosen)), torch.int64)
    mask = torch.from_numpy(chosen).to(given.device)
    yield _trial("masked_select", torch.masked_select, [given, mask], Expected(flat[chosen]), dtype)
    swapped = Expected(np.where(chosen, flat[::-1], flat))
    yield _trial("where", torch.where, [mask, given.flip(0), given], swapped, dtype)


def _added(flat: Array, start: Array, places: Array, given: Any, dtype: torch.dtype) -> Iterator[Trial]:
    total, size = wide(start).copy(), np.abs(wide(start))
    with np.errstate(all="ignore"):
        np.add.at(total, places, wide(flat))
        np.add.at(size, places, np.abs(wide(flat)))
    expected = Expected(total)
    if dtype.is_floating_point:  # halves are added in halves, in any order
        loose = 8 * torch.finfo(dtype).eps * np.nan_to_num(size, posinf=0)
        whole = bool((flat == np.rint(flat)).all()) and float(size.max()) * torch.finfo(dtype).eps <= 2
        expected = Expected(total, 1.0, 0.0 * loose if whole else loose)  # small whole numbers are exact in any order
    for name, call in {
        "index_add": lambda b, i, x: b.index_add(0, i, x),
        "index_add_": lambda b, i, x: b.clone().index_add_(0, i, x),
        "scatter_add": lambda b, i, x: b.scatter_add(0, i, x),
        "index_put_": lambda b, i, x: b.clone().index_put_((i,), x, accumulate=True),
        "put_": lambda b, i, x: b.clone().put_(i, x, accumulate=True),
        "scatter_reduce, sum": lambda b, i, x: b.scatter_reduce(0, i, x, "sum"),
    }.items():
        yield _trial(name, call, list(given), expected, dtype)
    if dtype.is_floating_point:
        rise = Expected(total - wide(start), 1.0, expected.slack)
        yield _trial("embedding, backward", _embedded, list(given), rise, dtype)


def _embedded(base: torch.Tensor, index: torch.Tensor, fed: torch.Tensor) -> torch.Tensor:
    table = base.detach()[:, None].clone().requires_grad_()
    torch.autograd.backward(functional.embedding(index, table), fed[:, None])
    assert table.grad is not None
    return table.grad[:, 0]


def _extremes(flat: Array, start: Array, places: Array, given: Any, dtype: torch.dtype) -> Iterator[Trial]:
    for name, function in {"amax": np.maximum, "amin": np.minimum}.items():
        found = start.copy()
        with np.errstate(all="ignore"):
            function.at(found, places, flat)
        call = lambda b, i, x, n=name: b.scatter_reduce(0, i, x, n)  # noqa: E731
        yield _trial(f"scatter_reduce, {name}", call, list(given), Expected(found), dtype)


GATHERED: dict[str, Class] = {
    "sums": sums,
    "choices": choices,
    "scans": scans,
    "softmax": softmaxes,
    "sorting": sorting,
    "indexing": indexing,
}
