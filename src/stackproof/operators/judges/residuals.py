"""Residuals: a factorisation or solution satisfies what defines it, at any size and in any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

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


def _wide_eye(like: torch.Tensor) -> Any:
    return _eye(like[..., :1, :].expand(*like.shape[:-2], like.shape[-1], like.shape[-1]))


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


def _half(a: torch.Tensor, upper: bool, unit: bool = False) -> Any:
    """Return the matrix with one triangle that is to be read, and nonsense in the other."""
    ones = torch.ones_like(a)
    return torch.where((ones.triu(int(unit)) if upper else ones.tril(-int(unit))) == 1, a, 7.0 * ones)


def _qr(op: Any, a: torch.Tensor) -> Any:
    shapes = a, torch.cat([a, a], -2), a[..., : a.shape[-1] // 2 + 1, :]
    made = [(x, *op(x, mode=mode)) for x in shapes for mode in ("reduced", "complete")]
    return [pair for x, q, r in made for pair in ((q @ r, x), (q.mH @ q, _wide_eye(q)), (r.triu(), r))]


def _svd(op: Any, a: torch.Tensor) -> Any:
    made = [(x, *op(x, full_matrices=full)) for x in (a, torch.cat([a, a], -2)) for full in (False, True)]
    rebuilt = [
        (u[..., : s.shape[-1]] * s.to(a.dtype)[..., None, :] @ v[..., : s.shape[-1], :], x) for x, u, s, v in made
    ]
    return rebuilt + [(factor.mH @ factor, _wide_eye(factor)) for _, u, _, v in made for factor in (u, v.mH)]


def _eigh(op: Any, a: torch.Tensor) -> Any:
    a = a + a.mH
    made = [op(_half(a, upper), UPLO="LU"[upper]) for upper in (False, True)]
    scaled = [(a @ vectors, vectors * values.to(a.dtype)[..., None, :]) for values, vectors in made]
    return scaled + [(vectors.mH @ vectors, _eye(a)) for _, vectors in made] + [(x.sort(-1)[0], x) for x, _ in made]


def _triangular(op: Any, a: torch.Tensor) -> Any:
    pairs = []
    for upper, left, unit in product((False, True), repeat=3):
        part = torch.triu if upper else torch.tril
        near = part(_near(a), int(unit) if upper else -int(unit)) + unit * _eye(a)
        b = _right(a) if left else _right(a).mT
        x = op(_half(_near(a), upper, unit), b, upper=upper, left=left, unitriangular=unit)
        pairs.append((near @ x if left else x @ near, b))
    return pairs


def _cholesky(op: Any, a: torch.Tensor) -> Any:
    factors = [(op(_spd(a), upper=upper), upper) for upper in (False, True)]
    each = [(made[0] if isinstance(made, tuple) else made, upper) for made, upper in factors]
    return [(factor.mH @ factor if upper else factor @ factor.mH, _spd(a)) for factor, upper in each]


def _solved(op: Any, a: torch.Tensor) -> Any:
    made = op(_far(a), _right(a)), op(_far(a), _right(a).mT, left=False)
    x, y = (part[0] if isinstance(part, tuple) else part for part in made)
    return (_far(a) @ x, _right(a)), (y @ _far(a), _right(a).mT)


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
    "linalg.eigvalsh": lambda op, a: [
        (op(_half(_spd(a), up), UPLO="LU"[up]).square().sum(-1), _spd(a).abs().square().sum((-1, -2)))
        for up in (False, True)
    ],
    "linalg.inv": lambda op, a: ((op(_far(a)) @ _far(a), _eye(a)),),
    "linalg.inv_ex": lambda op, a: ((op(_far(a))[0] @ _far(a), _eye(a)),),
    "linalg.solve": _solved,
    "linalg.solve_ex": _solved,
    "linalg.cholesky": _cholesky,
    "linalg.cholesky_ex": _cholesky,
    "cholesky_inverse": lambda op, a: [
        (op(torch.linalg.cholesky(_spd(a), upper=up), upper=up) @ _spd(a), _eye(a)) for up in (False, True)
    ],
    "cholesky_solve": lambda op, a: [
        (_spd(a) @ op(_right(a), torch.linalg.cholesky(_spd(a), upper=up), upper=up), _right(a)) for up in (False, True)
    ],
    "linalg.lu_solve": lambda op, a: ((_far(a) @ op(*torch.linalg.lu_factor(_far(a)), _right(a)), _right(a)),),
    "linalg.ldl_solve": lambda op, a: (
        (_spd(a) @ op(*torch.linalg.ldl_factor(_spd(a), hermitian=True), _right(a), hermitian=True), _right(a)),
    ),
    "linalg.solve_triangular": _triangular,
    "triangular_solve": lambda op, a: ((_far(a).triu() @ op(_right(a), _far(a).triu())[0], _right(a)),),
    "linalg.det": lambda op, a: ((op(_near(a)) * op(torch.linalg.inv(_near(a))), torch.ones_like(a[..., 0, 0])),),
    "linalg.slogdet": lambda op, a: ((op(_far(a))[1], -op(torch.linalg.inv(_far(a)))[1]),),
    "matrix_exp": lambda op, a: ((op(a / a.shape[-1]) @ op(-a / a.shape[-1]), _eye(a)),),
    "linalg.householder_product": lambda op, a: ((op(*torch.geqrf(a)).mH @ op(*torch.geqrf(a)), _eye(a)),),
}


def suits(name: str, _op: Any) -> bool:
    """Whether something defines its result."""
    return name in _MATRIX


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield drawn sides and batches."""
    slow = not point.on_host and member("no batched kernel", point.name)
    batches = BATCHES[:3] if slow else BATCHES
    cells = [(side, batch) for side in SIDES for batch in batches if side * side * (batch or (1,))[0] <= _MOST]
    for side, batch in (*point.draw.sample(cells, 4), (2, batches[-1])):
        yield _defined(point, _MATRIX[point.name], (*batch, side, side))


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
