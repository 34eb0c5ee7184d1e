"""Products whose exact result NumPy knows: of small whole numbers to the bit, of others to what adding so many numbers may lose.

Small whole numbers leave no room: every partial sum is exact in float32, in tf32 and in halves, in whatever order it is formed and on
whatever unit, so that a factor of 1 + 64 ulp, or of 1.01 in bfloat16, is seen in a single number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from stackproof.operators.arrays import WIDE, Array, Expected, tensor
from stackproof.operators.regimes import numbers
from stackproof.operators.trials import Trial

_ROWS, _COLUMNS = 17, 13
_INNER = {"long": 10_007}
_USUAL = 512
_THIN = ((1, 13), (17, 1), (17, 13), (1, 1))
_INNERS = (1, 7, 31, 33, 129, 511, 1025)
_SHORT = 32
"""In halves, whose whole numbers end at 256."""


def _factor(regime: str, dtype: torch.dtype, shape: tuple[int, ...], salt: str) -> Array | None:
    found = numbers(regime, dtype, math.prod(shape), salt=salt)
    if found is None:
        return None
    if regime == "ties" and dtype in (torch.bfloat16, torch.float16):
        found = found % 3  # NumPy's float32 holds bfloat16 here too
    return found.reshape(shape)


def _exactly(left: Array, right: Array) -> Array:
    """Multiply in long double, or in whole numbers that wrap around; NumPy has no library behind either."""
    kind = WIDE if left.dtype.kind == "f" else left.dtype
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(left.astype(kind), right.astype(kind)))


def _room(left: Array, right: Array, dtype: torch.dtype, regime: str, vector: bool = False) -> Any:
    if regime == "ties" or not dtype.is_floating_point:
        return 0.0
    eps = torch.finfo(dtype).eps
    if not vector:  # torch 2.4 adds the products of vectors of halves up in halves
        eps = min(eps, torch.finfo(torch.float32).eps)
    size = _exactly(np.nan_to_num(np.abs(left), posinf=0), np.nan_to_num(np.abs(right), posinf=0))
    return eps * (4 + math.sqrt(left.shape[-1]) / 2) * size


def products(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return products of matrices in all their spellings, their gradients, and convolutions."""
    if regime not in ("ordinary", "long", "ties", "special", "large whole") or dtype is torch.bool:
        return
    halves = dtype in (torch.bfloat16, torch.float16)
    inner = _INNER.get(regime, _SHORT if halves and regime == "ties" else _USUAL)
    left, right = (
        _factor(regime, dtype, shape, salt) for shape, salt in (((_ROWS, inner), "a"), ((inner, _COLUMNS), "b"))
    )
    if left is None or right is None:
        return
    yield from _multiplied(left, right, regime, dtype, device)
    if regime in ("ordinary", "ties"):
        yield from _larger(inner, regime, dtype, device)
    if regime == "ties":
        yield from _thin(dtype, device)
    if dtype.is_floating_point and regime in ("ordinary", "ties"):
        yield from _backward(left[:, :_SHORT], right[:_SHORT], regime, dtype, device)
        yield from _convolved(regime, dtype, device)


def _expected(left: Array, right: Array, dtype: torch.dtype, regime: str) -> Expected:
    ulps = 0.0 if regime == "ties" else 2.0
    return Expected(_exactly(left, right), ulps, _room(left, right, dtype, regime))


def _multiplied(left: Array, right: Array, regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    a, b = tensor(left, dtype, device), tensor(right, dtype, device)
    wanted = _expected(left, right, dtype, regime)
    zero = torch.zeros((_ROWS, _COLUMNS), dtype=dtype, device=device)
    calls: dict[str, Any] = {
        "mm": lambda: torch.mm(a, b),
        "Tensor.mm": lambda: a.mm(b),
        "matmul": lambda: torch.matmul(a, b),
        "@": lambda: a @ b,
        "mm(out=)": lambda: torch.mm(a, b, out=torch.empty_like(zero)),
        "bmm": lambda: torch.bmm(a[None].expand(3, -1, -1), b[None].expand(3, -1, -1))[1],
        "addmm": lambda: torch.addmm(zero, a, b),
        "addmm_": lambda: zero.clone().addmm_(a, b),
        "baddbmm": lambda: torch.baddbmm(zero[None], a[None], b[None])[0],
        "mv": lambda: torch.stack([torch.mv(a, column) for column in b.t()], 1),
        "dot": lambda: torch.stack([torch.dot(row, b[:, 0].contiguous()) for row in a]),
        "addmv": lambda: torch.stack([torch.addmv(zero[:, 0], a, column) for column in b.t()], 1),
        "inner": lambda: torch.inner(a, b.t()),
        "tensordot": lambda: torch.tensordot(a, b, 1),
        "einsum": lambda: torch.einsum("ik,kj->ij", a, b),
        "mm of transposed": lambda: torch.mm(b.t(), a.t()).t(),
        "mm of strided": lambda: torch.mm(a.t().contiguous().t(), b.t().contiguous().t()),
    }
    if dtype.is_floating_point:
        calls["linear"] = lambda: functional.linear(a, b.t())
        calls["linear with a bias"] = lambda: functional.linear(a, b.t(), zero[0])
        lost = torch.full_like(zero, torch.nan)  # with a beta of 0 what is added to is not even looked at
        calls["addmm, beta 0"] = lambda: torch.addmm(lost, a, b, beta=0)
        calls["baddbmm, beta 0"] = lambda: torch.baddbmm(lost[None], a[None], b[None], beta=0)[0]
        calls["addmv, beta 0"] = lambda: torch.stack(
            [torch.addmv(lost[:, 0], a, column, beta=0) for column in b.t()], 1
        )
    room = np.broadcast_to(_room(left, right, dtype, regime, vector=True), wanted.values.shape)
    others = {
        **dict.fromkeys(("mv", "addmv", "addmv, beta 0"), Expected(wanted.values, wanted.ulps, room)),
        "dot": Expected(wanted.values[:, 0], wanted.ulps, room[:, 0]),
    }
    for name, call in calls.items():
        yield Trial(name, call, others.get(name, wanted), dtype)


def _larger(inner: int, regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return products of more rows and more matrices than one block of a kernel takes, in every order, and scaled ones."""
    shapes = ((129, inner), (inner, 67), (33, 5, inner), (33, inner, 7), (129, 67))
    drawn = [_factor(regime, dtype, shape, f"larger {place}") for place, shape in enumerate(shapes)]
    left, right, lefts, rights, start = (one for one in drawn if one is not None)
    a, b, many, others, added = (tensor(one, dtype, device) for one in (left, right, lefts, rights, start))
    wanted = _expected(left, right, dtype, regime)
    for order, factors in {
        "larger": (a, b),
        "of a transposed left, larger": (a.t().contiguous().t(), b),
        "of a transposed right, larger": (a, b.t().contiguous().t()),
    }.items():
        yield Trial(f"mm {order}", partial(torch.mm, *factors), wanted, dtype)
    alone = Expected(wanted.values[None], wanted.ulps, np.asarray(wanted.slack)[None])
    yield Trial("bmm of wide", partial(torch.bmm, a[None], b[None]), alone, dtype)
    yield Trial("bmm of many", partial(torch.bmm, many, others), _expected(lefts, rights, dtype, regime), dtype)
    if dtype.is_floating_point:
        yield Trial("addbmm", partial(torch.addbmm, torch.zeros_like(added), a[None], b[None]), wanted, dtype)
        room = wanted.slack + (0.0 if regime == "ties" else torch.finfo(dtype).eps * np.abs(start))
        both = Expected(wanted.values / 2 - 2 * start.astype(WIDE), wanted.ulps, room)
        if regime != "ties" or torch.finfo(dtype).bits > 16:  # halves round half of an odd number
            yield Trial("addmm, scaled", partial(torch.addmm, added, a, b, beta=-2, alpha=0.5), both, dtype)


def _thin(dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return exact products of one row, of one column, and of inner lengths beside those of vectors; and of nothing, to which is added."""
    halves = dtype in (torch.bfloat16, torch.float16)
    for inner, (rows, columns) in itertools.product(_INNERS[:4] if halves else _INNERS, _THIN):
        left, right = (_factor("ties", dtype, shape, f"thin {inner}") for shape in ((rows, inner), (inner, columns)))
        assert left is not None and right is not None
        a, b = tensor(left, dtype, device), tensor(right, dtype, device)
        wanted = _expected(left, right, dtype, "ties")
        said = f"{rows} x {inner} by {columns}"
        yield Trial(f"mm of {said}", partial(torch.mm, a, b), wanted, dtype)
        yield Trial(
            f"mm of turned {said}", partial(torch.mm, a.t().contiguous().t(), b.t().contiguous().t()), wanted, dtype
        )
        alone = Expected(wanted.values[None], 0.0, 0.0)
        yield Trial(f"bmm of {said}", partial(torch.bmm, a[None], b[None]), alone, dtype)
        if dtype.is_floating_point:
            yield Trial(f"linear of {said}", partial(functional.linear, a, b.t().contiguous()), wanted, dtype)
            yield from _added(a, b, dtype)


def _added(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    """Return what is added to a product of nothing: it comes out as it is, or times its factor."""
    rows, columns, nothing = a.shape[0], b.shape[1], torch.zeros_like(a)
    whole = _factor("ties", dtype, (rows, columns), "added")
    assert whole is not None
    start, row = (tensor(one, dtype, a.device) for one in (whole, whole[0]))
    plain, below = (Expected(one.astype(WIDE), 0.0, 0.0) for one in (whole, np.broadcast_to(whole[0], whole.shape)))
    double = Expected(-2 * whole.astype(WIDE), 0.0, 0.0)
    said = f"nothing of {rows} x {a.shape[1]} by {columns}"
    yield Trial(f"linear, a bias to {said}", partial(functional.linear, nothing, b.t().contiguous(), row), below, dtype)
    yield Trial(f"addmm, a row to {said}", partial(torch.addmm, row, nothing, b), below, dtype)
    yield Trial(f"addmm to {said}", partial(torch.addmm, start, nothing, b), plain, dtype)
    yield Trial(f"addmm, beta -2, to {said}", partial(torch.addmm, start, nothing, b, beta=-2), double, dtype)
    alone = Expected(double.values[None], 0.0, 0.0)
    call = partial(torch.baddbmm, start[None], nothing[None], b[None], beta=-2)
    yield Trial(f"baddbmm, beta -2, to {said}", call, alone, dtype)


def _backward(left: Array, right: Array, regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    fed = _factor(regime, dtype, (_ROWS, _COLUMNS), "fed")
    assert fed is not None
    given = [tensor(value, dtype, device) for value in (left, right, fed)]
    wanted = _expected(fed, right.T, dtype, regime), _expected(left.T, fed, dtype, regime)
    for name, call in {"mm": torch.mm, "linear": lambda a, b: functional.linear(a, b.t())}.items():
        for place, expected in enumerate(wanted):
            yield Trial(f"{name}, gradient of factor {place}", partial(_gradient, call, given, place), expected, dtype)


def _gradient(call: Any, given: list[torch.Tensor], place: int, **keywords: Any) -> torch.Tensor:
    leaves = [value.detach().clone().requires_grad_() for value in given[:2]]
    call(*leaves, **keywords).backward(given[2])
    found = leaves[place].grad
    assert found is not None
    return found


def _convolved(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return a convolution of 3 x 3 and its gradients: each is a product of unfolded images."""
    image, kernel = (_factor(regime, dtype, shape, salt) for shape, salt in (((1, 3, 9, 10), "i"), ((5, 3, 3, 3), "k")))
    fed = _factor(regime, dtype, (1, 5, 7, 8), "f")
    assert image is not None and kernel is not None and fed is not None
    patches = np.stack([image[0, :, y : y + 7, x : x + 8] for y in range(3) for x in range(3)], 1).reshape(27, 56)
    flat, rise = kernel.reshape(5, 27), fed.reshape(5, 56)
    given = [tensor(value, dtype, device) for value in (image, kernel, fed)]
    forward, weights = _expected(flat, patches, dtype, regime), _expected(rise, patches.T, dtype, regime)
    slack = 4 * torch.finfo(dtype).eps if regime == "ordinary" or torch.finfo(dtype).bits > 16 else 0.0
    yield Trial("conv2d", partial(functional.conv2d, *given[:2]), _shaped(forward, (1, 5, 7, 8), slack), dtype)
    if dtype in (torch.bfloat16, torch.float16) and regime == "ties":
        return  # sums of 56 products of numbers up to 2 fit; what frameworks add them up in may not
    call = partial(_gradient, functional.conv2d, given, 1)
    yield Trial("conv2d, gradient of the kernel", call, _shaped(weights, (5, 3, 3, 3), slack), dtype)
    columns = _exactly(flat.T, rise).reshape(3, 3, 3, 7, 8)
    sizes = np.broadcast_to(_room(flat.T, rise, dtype, regime), (27, 56)).reshape(3, 3, 3, 7, 8)
    back, room = np.zeros((3, 9, 10), dtype=WIDE), np.zeros((3, 9, 10), dtype=WIDE)
    for y in range(3):
        for x in range(3):
            back[:, y : y + 7, x : x + 8] += columns[:, y, x]
            room[:, y : y + 7, x : x + 8] += sizes[:, y, x]
    images = Expected(back, 0.0 if regime == "ties" else 2.0, room)
    call = partial(_gradient, functional.conv2d, given, 0)
    yield Trial("conv2d, gradient of the image", call, _shaped(images, (1, 3, 9, 10), slack), dtype)


def _shaped(expected: Expected, shape: tuple[int, ...], slack: float) -> Expected:
    """Return the expectation in a shape, with room for a fast algorithm's transforms."""
    values = expected.values.reshape(shape)
    room = np.broadcast_to(expected.slack, expected.values.shape).reshape(shape)
    return Expected(values, expected.ulps, room + slack * np.abs(values).max())
