"""What is moved or chosen keeps every bit, and what does not is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stackproof.operators.arrays import fault
from stackproof.operators.moving import moved, turned

FLAT = np.random.default_rng(3).standard_normal(300).astype(np.float32)


@pytest.mark.parametrize("table", [moved, turned])
def test_what_the_cpu_moves_is_what_numpy_moves(table: object) -> None:
    assert callable(table)
    said = {
        one.name: fault(one.run(), one.expected, one.dtype)
        for one in table(FLAT, torch.from_numpy(FLAT), torch.float32)
    }
    assert said
    assert not {name: what for name, what in said.items() if what}


@pytest.mark.parametrize(
    ("name", "row"),
    [("cat", "cat of channels-last"), ("masked_select", "masked_select of turned"), ("roll", "roll of channels-last")],
)
def test_one_number_in_a_wrong_place_is_said(name: str, row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(torch, name)

    def swapped(*given: object) -> torch.Tensor:
        found: torch.Tensor = original(*given).contiguous().clone()
        flat = found.view(-1)
        flat[:2] = flat[[1, 0]]
        return found

    rows = {one.name: one for one in turned(FLAT, torch.from_numpy(FLAT), torch.float32)}
    monkeypatch.setattr(torch, name, swapped)
    found = rows[row]
    assert "instead of" in fault(found.run(), found.expected, found.dtype)
