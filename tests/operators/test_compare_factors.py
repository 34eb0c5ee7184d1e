"""Factorisations: another choice of pivots is right, factors of another matrix are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stackproof.operators import compare, compute, database, examine
from stackproof.operators.compare import operator_product
from stackproof.operators.examine import Examination, Outcome

CARD = torch.device("cpu", 0)
MATRIX = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]], dtype=torch.float64)


@pytest.mark.parametrize("factorise", [torch.linalg.lu, torch.linalg.lu_factor, torch.linalg.lu_factor_ex])
def test_factors_make_the_matrix_again(factorise: Callable[[torch.Tensor], Any]) -> None:
    assert torch.allclose(operator_product(factorise(MATRIX)), MATRIX)


class Choosy:
    """`linalg.lu` of `factor` times a square float32 matrix with other pivots: the later of two rows that differ little."""

    def __init__(self, op: Any, factor: float) -> None:
        self.op, self.factor = op, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def __call__(self, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Factorise as a device with another rule of choice would."""
        square = value.dim() == 2 and value.shape[0] == value.shape[1] > 0
        return (
            _factors(value * self.factor)
            if square and value.dtype is torch.float32
            else self.op(value, *args, **kwargs)
        )


def _factors(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return P, L and U by elimination; a row counts for more the further down it stands."""
    rows, order = list(matrix.unbind()), list(range(len(matrix)))
    for column in range(len(rows)):
        best = max(range(column, len(rows)), key=lambda row: (1 + row) * float(rows[row][column].detach().abs()))
        rows[column], rows[best] = rows[best], rows[column]
        order[column], order[best] = order[best], order[column]
        for row in range(column + 1, len(rows)):
            rows[row] = rows[row] - rows[row][column] / rows[column][column] * rows[column]
    permutation = torch.eye(len(rows))[order].T
    upper = torch.stack(rows).triu()
    return permutation, _solved(matrix, permutation, upper), upper


def _solved(matrix: torch.Tensor, permutation: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Return L of P L U."""
    lower: torch.Tensor = torch.linalg.solve_triangular(upper, permutation.T @ matrix, upper=True, left=False)
    return lower.tril()


def examined(monkeypatch: pytest.MonkeyPatch, factor: float, excused: bool = True) -> Examination:
    """Examine that operator on a stand-in beside the CPU, with its row of exemptions or without."""

    def chosen(op: Any, sample: Any, device: torch.device, *args: Any, **kwargs: Any) -> compute.Computed:
        made = op if device.index is None else Choosy(op, factor)
        return compute.compute(made, sample, device, *args, **kwargs)

    monkeypatch.setattr(examine, "compute", chosen)
    with monkeypatch.context() as patch, database.preserved():
        if not excused:
            patch.setattr(examine, "exemptions", dict)
        return examine.examine("linalg.lu", database.load()["linalg.lu"], CARD, torch.float32, None)


@pytest.mark.slow
def test_other_pivots_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(monkeypatch, 1.0, excused=False).outcome is Outcome.FAILED
    found = examined(monkeypatch, 1.0)
    assert (found.outcome, found.reason) == (Outcome.PASSED, "")


def test_factors_of_another_matrix_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examined(monkeypatch, 1.001)
    assert found.outcome is Outcome.FAILED
    assert "exceeds the bound" in found.reason


def test_all_factorisations_with_pivots_have_the_row() -> None:
    rows = {name for (name, _), row in compare.exemptions().items() if row.factors}
    assert rows == {name for name in database.load() if name in ("lu", "linalg.lu") or "lu_factor" in name}
