"""Sums under random signs: right products pass in every dtype, and one number, one tile or a little throughout shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from stackproof.operators.projection import MEAN, WORST, Deviation, fold, product, signs, unit
from stackproof.record.checks import CheckFailed

WIDTH = 300  # a whole stretch and a part of one
Spoil = Callable[[torch.Tensor], object]


def factors(dtype: torch.dtype, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is multiplied."""
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(*shape, generator=generator).to(dtype) for shape in ((rows, 128), (128, WIDTH)))
    return left, right


def judged(dtype: torch.dtype, spoil: Spoil = lambda _: None, rows: int = 40) -> Deviation:
    """Multiply, spoil and judge."""
    left, right = factors(dtype, rows)
    actual = (left.double() @ right.double()).to(dtype)
    spoil(actual)
    flips = signs(WIDTH, 2)
    return product(left, right, flips).judge(fold(actual, flips), unit(dtype, 128), "the product")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_what_is_rounded_once_passes(dtype: torch.dtype) -> None:
    seen = judged(dtype)
    assert seen.count == 80
    assert seen.worst <= WORST / 2
    assert seen.mean <= MEAN / 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x[17, 299].add_(float(x.float().std())),
        lambda x: x[8:].zero_(),
        lambda x: x[:, 256:].copy_(x[:, :44].clone()),
        lambda x: x.mul_(1.02),
        lambda x: x[39, 0].fill_(float("nan")),
    ],
    ids=["one number", "rows", "last columns", "throughout", "not written"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_wrong_anywhere_is_caught(spoil: Spoil, dtype: torch.dtype) -> None:
    with pytest.raises(CheckFailed, match="the product: "):
        judged(dtype, spoil)


@pytest.mark.parametrize(
    "spoil",
    [lambda x: x.copy_(larger(x, 1.004)), lambda x: x.copy_(cut(x))],
    ids=["a factor", "cut"],
)
def test_less_than_a_rounding_throughout_is_caught(spoil: Spoil) -> None:
    judged(torch.bfloat16, rows=800)
    with pytest.raises(CheckFailed, match=r"too (large|small) throughout, by [01]\.\d+ units of rounding"):
        judged(torch.bfloat16, spoil, rows=800)


def cut(x: torch.Tensor) -> torch.Tensor:
    """Return the product once more, of which the bits that bfloat16 has no room for are dropped."""
    return (larger(x, 1.0).view(torch.int32) & -65536).view(torch.float32)


def larger(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Return the product once more in float32, too large by a factor."""
    left, right = factors(x.dtype, len(x))
    return left.float() @ right.float() * factor


def test_folding_adds_up_under_the_signs() -> None:
    values, flips = np.arange(2 * WIDTH, dtype=np.float64).reshape(2, WIDTH), signs(WIDTH, 3)
    sums = fold(torch.from_numpy(values), flips)
    expected = [[(row * flips)[:256].sum(), (row * flips)[256:].sum()] for row in values]
    assert np.allclose(sums, expected, rtol=1e-13)
    assert set(flips) == {-1.0, 1.0}
