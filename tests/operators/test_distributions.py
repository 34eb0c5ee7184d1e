"""Random operators: a right draw fits, and each way of drawing wrongly is caught with the right words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from stackproof.operators.distributions import DRAWN, DRAWS, SEED, Draw, Fit, judge

BY_NAME = {draw.name: draw for draw in DRAWS}
Change = Callable[[torch.Tensor], torch.Tensor]


def drawn(name: str, dtype: torch.dtype, change: Change = torch.clone) -> Fit:
    """Judge a seeded draw on the CPU that went through `change`."""
    torch.manual_seed(SEED)
    draw: Draw = BY_NAME[name]
    return judge(change(draw.make(torch.device("cpu"), dtype, DRAWN)), draw, dtype, DRAWN)


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.name)
def test_the_cpu_draws_rightly(draw: Draw) -> None:
    """Every operator in the narrowest dtype that it has."""
    fit = drawn(draw.name, getattr(torch, draw.dtypes[-1]))
    assert fit.ok, fit.sentence
    assert "allowed" in fit.sentence


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("rand", lambda x: x * 0.95, "from its distribution"),
        ("rand", lambda x: x * 1.001, "leave the range from 0 to 1"),
        ("rand", lambda x: torch.full_like(x, 0.999), "from its distribution"),
        ("rand", lambda x: x.sort().values, "neighbours correlate by 1,"),
        ("rand", lambda x: x[: len(x) // 2].repeat_interleave(2), "neighbours correlate by 0.5"),
        ("rand", lambda x: torch.where(x > 0.9, float("nan"), x), "numbers are NaN"),
        ("rand", lambda x: x.double(), "returns torch.float64 (50000,) instead of torch.float32 (50000,)"),
        ("rand", lambda x: x[1:], "returns torch.float32 (49999,)"),
        ("randn", lambda x: x * 1.1, "from its distribution"),
        ("randn", lambda x: x + 0.05, "from its distribution"),
        ("randn", torch.abs, "from its distribution"),
        ("exponential_", lambda x: x * 1.1, "from its distribution"),
        ("bernoulli", lambda x: 1 - x, "from its distribution"),
        ("geometric_", lambda x: x - 1, "leave the range from 1 to inf"),
        ("dropout", lambda x: torch.ones_like(x), "from its distribution"),
        ("feature_dropout", lambda x: x + 9, "leave the range from 0 to 1"),
    ],
)
def test_a_wrong_draw_is_caught(name: str, change: Change, said: str) -> None:
    """Range, mean, variance, constants, repetitions and dependence."""
    fit = drawn(name, torch.float32, change)
    assert not fit.ok
    assert said in fit.sentence


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("randint", lambda x: x.clamp(max=5)),
        ("randperm", lambda x: x // 2),
        ("multinomial", lambda x: torch.where(x == 0, 1, x)),  # draws what has no weight
    ],
)
def test_wrong_whole_numbers_are_caught(name: str, change: Change) -> None:
    """A value that never comes, a half that never comes, a category of weight zero."""
    assert not drawn(name, torch.int64, change).ok
