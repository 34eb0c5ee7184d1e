"""Random operators: a right draw fits, and each way of drawing wrongly is caught with the right words."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from stackproof.operators.distributions import FALSE_ALARM, FLOATS, SEED, Draw, Fit, judge
from stackproof.operators.draws import DRAWS
from stackproof.operators.traits import ALARM

BY_NAME = {draw.name: draw for draw in DRAWS}
Change = Callable[[torch.Tensor], torch.Tensor]


def drawn(name: str, dtype: torch.dtype, change: Change = torch.clone) -> Fit:
    """Judge a seeded draw on the CPU that went through `change`."""
    torch.manual_seed(SEED)
    draw: Draw = BY_NAME[name]
    count = draw.count(dtype)
    return judge(change(draw.make(torch.device("cpu"), dtype, count)), draw, dtype, count)


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.name)
def test_the_cpu_draws_rightly(draw: Draw) -> None:
    fit = drawn(draw.name, getattr(torch, draw.dtypes[-1]))
    assert fit.ok, fit.sentence
    assert "allowed" in fit.sentence


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("rand", lambda x: x * 0.95, "from its distribution"),
        ("rand", lambda x: x * 1.001, "leave the range from 0 to 1"),
        ("uniform_", lambda x: 4 + (x - 4) * 0.99, "do not reach the ends of the range from 4 to 8"),
        ("randn", lambda x: x * 0.99, "its deviation is off by about"),
        ("cauchy_", lambda x: 1 + (x - 1) * 1.01, "its scale is off by about"),
        ("log_normal_", lambda x: x**1.01, "its mean is off by about"),
        ("poisson", lambda x: torch.poisson(torch.full_like(x, 4.04)), "its mean is off by about"),
        ("dropout", lambda x: torch.bernoulli(torch.full_like(x, 1 - 0.2525)), "its chance is off by about"),
        ("rand", lambda x: torch.full_like(x, 0.999), "from its distribution"),
        ("rand", lambda x: x.sort().values, "neighbours correlate by 1,"),
        ("rand", lambda x: x[: len(x) // 2].repeat_interleave(2), "neighbours correlate by 0.5"),
        ("rand", lambda x: torch.where(x > 0.9999, 1.0, x), "numbers are 1, which the range leaves out"),
        ("randn", lambda x: torch.cat([x[:4096], x[:4096], x[8192:]]), "numbers that are 4096 apart correlate by 0.0"),
        ("rand", lambda x: torch.cat([x[: len(x) // 2], x[: len(x) // 2]]), "come again at 144152"),
        ("bernoulli", lambda x: torch.cat([x[:-100_000], x[600_000:700_000]]), "come again at"),
        ("randn", lambda x: x.clamp(-3.6, 3.6), "a tail is cut: 864900 numbers from -3.6 to 3.6 leave out 0.00016"),
        ("exponential_", lambda x: x.clamp(min=1e-3), "a tail is cut"),
        ("randn, few at a time", lambda x: x * 1.01, "its deviation is off by about"),
        ("poisson of many", lambda x: torch.poisson(torch.full_like(x, 101)), "its mean is off by about"),
        ("poisson of many", lambda x: (100 + (x - 100) * 1.2).round(), "from its distribution"),
        (
            "binomial of many",
            lambda x: torch.binomial(torch.full_like(x, 200), torch.full_like(x, 0.7575)),
            "its chance is off",
        ),
        (
            "_standard_gamma below one",
            lambda x: torch._standard_gamma(torch.full_like(x, 0.505)),
            "its shape is off by about",
        ),
        (
            "_sample_dirichlet",
            lambda x: torch._sample_dirichlet(torch.full((len(x), 2), 2.02))[:, 0],
            "its concentration is off by",
        ),
        (
            "init.trunc_normal_",
            lambda x: torch.nn.init.trunc_normal_(x.clone(), 0.0, 1.01),
            "its deviation is off by about",
        ),
        ("init.xavier_uniform_", lambda x: x * 0.99, "do not reach the ends of the range"),
        ("native_dropout", lambda x: x[::4].repeat_interleave(4), "correlate by"),
        ("rand", lambda x: torch.where(x > 0.9, float("nan"), x), "numbers are NaN"),
        ("rand", lambda x: x.double(), "returns torch.float64 (288304,) instead of torch.float32 (288304,)"),
        ("rand", lambda x: x[1:], "returns torch.float32 (288303,)"),
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
    fit = drawn(name, torch.float32, change)
    assert not fit.ok
    assert said in fit.sentence


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("randint", lambda x: x.clamp(max=5)),
        ("randperm", lambda x: x // 2),
        ("randperm", lambda x: torch.where(torch.arange(len(x)) < len(x) // 100, torch.arange(len(x)), x)),
        ("randperm of 40", lambda x: torch.where(torch.arange(len(x)) < len(x) // 40, 0, x)),  # the first stays
        ("randint of a wide range", lambda x: (x.double() * 0.98).long()),
        ("randint of a wide range, modulo 1000", lambda x: x // 8 * 8),
        ("multinomial, the second of two", lambda x: torch.where(torch.rand(len(x)) < 0.03, 2, x)),
        ("multinomial", lambda x: torch.where(x == 0, 1, x)),  # draws what has no weight
    ],
)
def test_wrong_whole_numbers_are_caught(name: str, change: Change) -> None:
    assert not drawn(name, torch.int64, change).ok


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("draw", [draw for draw in DRAWS if len(draw.dtypes) > 3], ids=lambda draw: draw.name)
def test_one_per_cent_is_seen_in_every_dtype(draw: Draw, name: str) -> None:
    seen = draw.seen(getattr(torch, name))
    assert seen and all(0.001 < error <= 0.01 for error in seen.values())


def test_a_run_alarms_once_in_a_million() -> None:
    cases = [(draw, name) for draw in DRAWS for name in draw.dtypes]
    told = sum(len(draw.traits) * math.erfc(ALARM / 2**0.5) for draw, _ in cases)
    ends = sum(2 * math.exp(-25) for draw, _ in cases if draw.ends or not draw.whole)
    assert told + ends + len(cases) * (FALSE_ALARM + math.erfc(6.2 / 2**0.5)) < 1e-6
