"""Residuals: a factorisation, solution, transform or order satisfies what defines it, at any size and in any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation

WHAT = "what defines a result holds for it"
DTYPES = (torch.float32, torch.float64, torch.complex64)
SIDES = (1, 2, 3, 8, 31, 32, 33, 65, 130)
BATCHES = ((), (1,), (3,), (128,), (512,))
_MOST = 300_000

_Check = Callable[[Any, torch.Tensor], Any]
"""From the operator and a matrix: what has to be equal, in pairs of a rebuilt and a wanted tensor."""


def _eye(like: torch.Tensor) -> Any:
    side = min(like.shape[-2:])
    return torch.eye(side, dtype=like.dtype, device=like.device).expand(*like.shape[:-2], side, side)


def _spd(a: torch.Tensor) -> Any:
    return a @ a.mH / a.shape[-1] + 0.5 * _eye(a)


def _far(a: torch.Tensor) -> Any:
    """Return a matrix far from singular."""
    return a + 3 * a.shape[-1] ** 0.5 * _eye(a)


def _near(a: torch.Tensor) -> Any:
    """Return a matrix near the identity."""
    return _far(a) / 3 / a.shape[-1] ** 0.5


def _right(a: torch.Tensor) -> Any:
    return a[..., :, :3].clone() if a.shape[-1] > 2 else a.clone()


def _qr(op: Any, a: torch.Tensor) -> Any:
    q, r = op(a)
    return (q @ r, a), (q.mH @ q, _eye(q)), (r.triu(), r)


def _svd(op: Any, a: torch.Tensor) -> Any:
    u, s, v = op(a, full_matrices=False)
    return (u * s.to(a.dtype)[..., None, :] @ v, a), (u.mH @ u, _eye(a)), (v @ v.mH, _eye(a))


def _eigh(op: Any, a: torch.Tensor) -> Any:
    a = a + a.mH
    values, vectors = op(a)
    scaled = vectors * values.to(a.dtype)[..., None, :]
    return (a @ vectors, scaled), (vectors.mH @ vectors, _eye(a)), (values.sort(-1)[0], values)


def _eig(op: Any, a: torch.Tensor) -> Any:
    values, vectors = op(a)
    return ((a.to(vectors.dtype) @ vectors, vectors * values[..., None, :]),)


def _lu(op: Any, a: torch.Tensor) -> Any:
    p, low, up = op(a)
    return (p @ low @ up, a), (low.tril(), low), (up.triu(), up)


def _lu_factor(op: Any, a: torch.Tensor) -> Any:
    p, low, up = torch.lu_unpack(*op(a)[:2])
    return ((p @ low @ up, a),)


def _lstsq(op: Any, a: torch.Tensor) -> Any:
    tall = torch.cat([_far(a), a], -2)
    b = torch.cat([_right(a), _right(a)], -2)
    x = op(tall, b)[0]
    return ((tall.mH @ (tall @ x), tall.mH @ b),)


def _pinv(op: Any, a: torch.Tensor) -> Any:
    a = _far(a)
    return ((a @ op(a) @ a, a),)


_MATRIX: dict[str, _Check] = {
    "linalg.qr": _qr,
    "linalg.svd": _svd,
    "linalg.eigh": _eigh,
    "linalg.eig": _eig,
    "linalg.lu": _lu,
    "linalg.lu_factor": _lu_factor,
    "linalg.lu_factor_ex": _lu_factor,
    "lu": _lu_factor,
    "linalg.lstsq": _lstsq,
    "linalg.pinv": _pinv,
    "pinverse": _pinv,
    "linalg.svdvals": lambda op, a: ((op(a).square().sum(-1), a.abs().square().sum((-1, -2))),),
    "linalg.eigvals": lambda op, a: ((op(a).sum(-1), a.diagonal(0, -1, -2).sum(-1).to(a.dtype.to_complex())),),
    "linalg.eigvalsh": lambda op, a: ((op(_spd(a)).sum(-1), _spd(a).diagonal(0, -1, -2).sum(-1).real),),
    "linalg.inv": lambda op, a: ((op(_far(a)) @ _far(a), _eye(a)),),
    "linalg.inv_ex": lambda op, a: ((op(_far(a))[0] @ _far(a), _eye(a)),),
    "linalg.solve": lambda op, a: ((_far(a) @ op(_far(a), _right(a)), _right(a)),),
    "linalg.solve_ex": lambda op, a: ((_far(a) @ op(_far(a), _right(a))[0], _right(a)),),
    "linalg.cholesky": lambda op, a: ((op(_spd(a)) @ op(_spd(a)).mH, _spd(a)),),
    "linalg.cholesky_ex": lambda op, a: ((op(_spd(a))[0] @ op(_spd(a))[0].mH, _spd(a)),),
    "cholesky_inverse": lambda op, a: ((op(torch.linalg.cholesky(_spd(a))) @ _spd(a), _eye(a)),),
    "cholesky_solve": lambda op, a: ((_spd(a) @ op(_right(a), torch.linalg.cholesky(_spd(a))), _right(a)),),
    "linalg.lu_solve": lambda op, a: ((_far(a) @ op(*torch.linalg.lu_factor(_far(a)), _right(a)), _right(a)),),
    "linalg.ldl_solve": lambda op, a: (
        (_spd(a) @ op(*torch.linalg.ldl_factor(_spd(a), hermitian=True), _right(a), hermitian=True), _right(a)),
    ),
    "linalg.solve_triangular": lambda op, a: ((_far(a).triu() @ op(_far(a).triu(), _right(a), upper=True), _right(a)),),
    "triangular_solve": lambda op, a: ((_far(a).triu() @ op(_right(a), _far(a).triu())[0], _right(a)),),
    "linalg.det": lambda op, a: ((op(_near(a)) * op(torch.linalg.inv(_near(a))), torch.ones_like(a[..., 0, 0])),),
    "linalg.slogdet": lambda op, a: ((op(_far(a))[1], -op(torch.linalg.inv(_far(a)))[1]),),
    "matrix_exp": lambda op, a: ((op(a / a.shape[-1]) @ op(-a / a.shape[-1]), _eye(a)),),
    "linalg.householder_product": lambda op, a: ((op(*torch.geqrf(a)).mH @ op(*torch.geqrf(a)), _eye(a)),),
}
_BACK = {"fft": "ifft", "ifft": "fft", "fft2": "ifft2", "ifft2": "fft2", "fftn": "ifftn", "ifftn": "fftn"}
_REAL = {"rfft": "irfft", "rfft2": "irfft2", "rfftn": "irfftn", "ihfft": "hfft", "ihfft2": "hfft2", "ihfftn": "hfftn"}


def suits(name: str, _op: Any) -> bool:
    """Whether something defines its result."""
    return name in _MATRIX or name.removeprefix("fft.") in {**_BACK, **_REAL} or name in _SORTS


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield drawn sides and batches."""
    if point.name in _MATRIX:
        slow = not point.on_host and member("no batched kernel", point.name)
        batches = BATCHES[:3] if slow else BATCHES
        cells = [(side, batch) for side in SIDES for batch in batches if side * side * (batch or (1,))[0] <= _MOST]
        for side, batch in (*point.draw.sample(cells, 4), (2, batches[-1])):
            yield _defined(point, _MATRIX[point.name], (*batch, side, side))
        return
    for length in (*point.draw.sample((1, 2, 7, 32, 127, 1000, 4097, 65_537), 4), 2**16):
        yield _sorted(point, length) if point.name in _SORTS else _transformed(point, length)


def _defined(point: OperatorPoint, check: _Check, shape: tuple[int, ...]) -> Relation:
    left = lambda a: [pair[0] for pair in check(point.op, a)]  # noqa: E731
    right = lambda a: [pair[1].expand(pair[0].shape).clone() for pair in check(point.op, a)]  # noqa: E731
    code = "# rebuilt from the result, and what it is the result of\nresult = operator(*arguments)\nfirst, second = result, arguments[0]"
    # Factors rebuild a matrix to sqrt(n) roundings of what elimination lets grow, n^(2/3) on average (Trefethen and Schreiber, 1990);
    # what is solved or inverted has the matrix' condition too, and one of 512 drawn ones is near a singular one.
    factors, side = check in (_qr, _svd, _eigh, _lu, _lu_factor), max(shape[-1], 8)
    tolerance = (16 * side ** (7 / 6) if factors else 1e3 * side) * torch.finfo(point.dtype).eps
    says, inputs = f"rebuilds a matrix of {list(shape)}", (point.numbers(shape),)
    return Relation(says, inputs, {}, left, right, code, tolerance=tolerance)


def _transformed(point: OperatorPoint, length: int) -> Relation:
    name = point.name.removeprefix("fft.")
    real = name in _REAL
    back = getattr(torch.fft, _REAL[name] if real else _BACK[name])
    shape = (3, length) if "2" not in name and "n" != name[-1] else (3, min(length, 129), 5)
    numbers = point.numbers(shape)

    def around(x: torch.Tensor) -> Any:
        result = point.op(x)
        if not real:
            return back(result)
        several = {"s": x.shape[-2:] if "2" in name else x.shape}
        return back(result, **(several if name[-1] in "2n" else {"n": x.shape[-1]}))

    def itself(x: torch.Tensor) -> torch.Tensor:
        return x if real or x.is_complex() else torch.complex(x, torch.zeros_like(x))

    code = f"first = torch.fft.{back.__name__}(operator(*arguments))\nsecond = arguments[0]"
    return Relation(f"back and forth over {list(shape)}", (numbers,), {}, around, itself, code, ulps=256.0)


_SORTS: dict[str, _Check] = {
    "sort": lambda op, x: op(x, -1),
    "argsort": lambda op, x: (x.gather(-1, places := op(x, -1)), places),
    "topk": lambda op, x: [part.flip(-1) for part in op(x, x.shape[-1])],
    "msort": lambda op, x: (op(x.T.contiguous()).T,),
    "unique": lambda op, x: (op(x), op(x, return_inverse=True)[1]),
}
"""Numbers in rising order, and their places."""


def _sorted(point: OperatorPoint, length: int) -> Relation:
    """A sort holds each number once, in order, and its places lead to it."""
    numbers = point.numbers((2, length))
    numbers = torch.where(numbers.abs() < 0.5, torch.zeros_like(numbers), numbers)
    unique = point.name == "unique"

    def checks(x: torch.Tensor) -> Any:
        values, *places = _SORTS[point.name](point.op, x)
        led = [values[place] if unique else x.gather(-1, place) for place in places]
        return [values, *led, *([] if unique else [place.sort(-1)[0] for place in places])]

    def expected(x: torch.Tensor) -> Any:
        rows = x.cpu().numpy()
        values = torch.from_numpy(np.unique(rows) if unique else np.sort(rows, -1))
        if point.name == "msort":
            return [values]
        return [values, x] if unique else [values, values, torch.arange(length).expand(x.shape)]

    code = "first = operator(*arguments)\nsecond = [sorted(row.tolist()) for row in arguments[0]]"
    return Relation(f"orders {length} numbers", (numbers,), {}, checks, expected, code)
