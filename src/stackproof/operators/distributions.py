"""Random operators: shape, dtype, range and distribution of a seeded draw, and that a seed decides every bit.

The distribution is compared with its cumulative distribution function by the Dvoretzky-Kiefer-Wolfowitz inequality, with Massart's
constant: P(sup |F_n - F| > d) <= 2 exp(-2 n d^2), for continuous and discrete distributions alike and for every n. So the
bound has a stated probability of a false alarm and needs no table; a wrong mean, variance, range or proportion all show in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

DRAWN = 50_000
FALSE_ALARM = 1e-9
"""The probability that a correct device fails one comparison, for the one seed that is used."""

SEED = 20240229

Make = Callable[[torch.device, torch.dtype, int], torch.Tensor]
Distribution = Callable[[torch.Tensor], torch.Tensor]
FLOATS = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True)
class Draw:
    """One random operator: how to draw `n` numbers, their distribution function (of float64) and the range they stay in."""

    name: str
    make: Make
    cdf: Distribution
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    dtypes: tuple[str, ...] = FLOATS


@dataclass(frozen=True)
class Fit:
    """How far the numbers are from their distribution, what is allowed, and what else is wrong with them."""

    distance: float
    bound: float
    correlation: float
    correlation_bound: float
    fault: str

    @property
    def sentence(self) -> str:
        """Say what is wrong, or what was found."""
        fit = f"distance {self.distance:.2g} from its distribution, {self.bound:.2g} allowed"
        return (
            self.fault or f"{fit}; neighbours correlate by {self.correlation:.2g}, {self.correlation_bound:.2g} allowed"
        )

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.fault and self.distance <= self.bound and abs(self.correlation) <= self.correlation_bound


def judge(values: torch.Tensor, draw: Draw, dtype: torch.dtype, n: int) -> Fit:
    """Compare drawn numbers with what they should be."""
    fault = _form(values, dtype, n) or _range(values, draw)
    if fault:
        return Fit(math.inf, 0.0, math.inf, 0.0, fault)
    wide = values.detach().cpu().double()
    rounding = torch.finfo(dtype).eps if dtype.is_floating_point and not draw.whole else 0.0
    bound = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n)) + rounding
    ranks = draw.cdf(wide)  # a distribution with infinite variance has ranks without
    ranks = ranks - ranks.mean()
    # sqrt(n) r is normal; 6.2 standard deviations are exceeded with a probability of 6e-10
    correlation = float((ranks[1:] * ranks[:-1]).mean() / ranks.square().mean().clamp_min(1e-12))
    return Fit(_distance(wide, draw), bound, correlation, 6.2 / math.sqrt(n), "")


def _form(values: torch.Tensor, dtype: torch.dtype, n: int) -> str:
    if values.shape != (n,) or values.dtype is not dtype:
        return f"returns {values.dtype} {tuple(values.shape)} instead of {dtype} ({n},)"
    return ""


def _range(values: torch.Tensor, draw: Draw) -> str:
    if bool(torch.isnan(values).any()):
        return f"{int(torch.isnan(values).sum())} of {values.numel()} numbers are NaN"
    low, high = float(values.min()), float(values.max())
    if low < draw.low or high > draw.high:
        return f"numbers from {low:.6g} to {high:.6g} leave the range from {draw.low:g} to {draw.high:g}"
    return ""


def _distance(values: torch.Tensor, draw: Draw) -> float:
    """Return sup |F_n - F|, on both sides of each step of F_n."""
    steps, counts = torch.unique(values, sorted=True, return_counts=True)
    after = counts.cumsum(0).double() / values.numel()
    before = after - counts / values.numel()
    left = draw.cdf(steps - 1) if draw.whole else draw.cdf(steps)
    gaps = torch.stack([(after - draw.cdf(steps)).abs(), (before - left).abs()])
    return float(gaps.max())


def uniform(low: float, high: float) -> Distribution:
    """Return the distribution function of numbers spread evenly between two."""
    return lambda x: ((x - low) / (high - low)).clamp(0, 1)


def normal(mean: float, deviation: float) -> Distribution:
    """Return that of Gauss."""
    return lambda x: torch.special.ndtr((x - mean) / deviation)


def counted(weights: list[float]) -> Distribution:
    """Return that of whole numbers from 0, drawn with these weights."""
    sums = torch.tensor([0.0, *weights], dtype=torch.float64).cumsum(0) / sum(weights)
    return lambda x: sums[(x.floor() + 1).clamp(0, len(weights)).long()]


def _geometric(x: torch.Tensor) -> torch.Tensor:
    return -torch.expm1(math.log(0.7) * x.floor().clamp_min(0))


def _poisson(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x < 0, 0.0, torch.special.gammaincc(x.floor().clamp_min(0) + 1, torch.full_like(x, 4.0)))


def _binomial(trials: int, chance: float) -> Distribution:
    return counted([math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)])


def _gamma(x: torch.Tensor) -> torch.Tensor:
    return 1 - torch.exp(-x) * (1 + x)


def _empty(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
    return torch.empty(n, dtype=dtype, device=device)


def _full(value: float) -> Make:
    return lambda device, dtype, n: torch.full((n,), value, dtype=dtype, device=device)


def _survivors(function: Callable[[torch.Tensor], torch.Tensor]) -> Make:
    """Return which of many ones a dropout of a quarter leaves, as ones; what it leaves must be 4/3."""

    def make(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
        out = function(torch.ones(1, n, 1, dtype=dtype, device=device)).flatten()
        expected = torch.tensor(4 / 3, dtype=dtype, device=device)
        return torch.where(out == expected, torch.ones_like(out), torch.where(out == 0, out, out + 9))

    return make


def _permuted(device: torch.device, _: torch.dtype, n: int) -> torch.Tensor:
    """Return the first half of a permutation; twice the length, so that n numbers are left."""
    return torch.randperm(2 * n, device=device)[:n]


_THREE = [0.2, 0.0, 0.5, 0.3]
_WHOLE = ("int64",)
_WIDE = ("float32", "float64")  # the database lists them for no other dtype on the CPU
_F = torch.nn.functional

DRAWS = (
    Draw("rand", lambda d, t, n: torch.rand(n, dtype=t, device=d), uniform(0, 1), 0, 1),
    Draw("rand_like", lambda d, t, n: torch.rand_like(_empty(d, t, n)), uniform(0, 1), 0, 1),
    Draw("randn", lambda d, t, n: torch.randn(n, dtype=t, device=d), normal(0, 1)),
    Draw("randn_like", lambda d, t, n: torch.randn_like(_empty(d, t, n)), normal(0, 1)),
    Draw("normal", lambda d, t, n: torch.normal(_full(-1.0)(d, t, n), _full(2.0)(d, t, n)), normal(-1, 2)),
    Draw("normal_", lambda d, t, n: _empty(d, t, n).normal_(0.5, 3.0), normal(0.5, 3)),
    Draw("uniform_", lambda d, t, n: _empty(d, t, n).uniform_(-2.0, 6.0), uniform(-2, 6), -2, 6),
    Draw("exponential_", lambda d, t, n: _empty(d, t, n).exponential_(0.5), lambda x: -torch.expm1(-0.5 * x), 0),
    Draw("cauchy_", lambda d, t, n: _empty(d, t, n).cauchy_(), lambda x: 0.5 + torch.atan(x) / math.pi),
    Draw(
        "log_normal_",
        lambda d, t, n: _empty(d, t, n).log_normal_(0.0, 0.5),
        lambda x: torch.special.ndtr(2 * x.log()),
        0,
    ),
    Draw("geometric_", lambda d, t, n: _empty(d, t, n).geometric_(0.3), _geometric, 1, whole=True),
    Draw("bernoulli", lambda d, t, n: torch.bernoulli(_full(0.25)(d, t, n)), counted([0.75, 0.25]), 0, 1, True),
    Draw("bernoulli_", lambda d, t, n: _empty(d, t, n).bernoulli_(0.25), counted([0.75, 0.25]), 0, 1, True),
    Draw("poisson", lambda d, t, n: torch.poisson(_full(4.0)(d, t, n)), _poisson, 0, whole=True),
    Draw(
        "binomial",
        lambda d, t, n: torch.binomial(_full(10.0)(d, t, n), _full(0.25)(d, t, n)),
        _binomial(10, 0.25),
        0,
        10,
        True,
        _WIDE,
    ),
    Draw("_standard_gamma", lambda d, t, n: torch._standard_gamma(_full(2.0)(d, t, n)), _gamma, 0, dtypes=_WIDE),
    Draw("dropout", _survivors(lambda x: _F.dropout(x, 0.25)), counted([0.25, 0.75]), 0, 1, True),
    Draw("feature_dropout", _survivors(lambda x: _F.dropout1d(x, 0.25)), counted([0.25, 0.75]), 0, 1, True),
    Draw(
        "randint",
        lambda d, _, n: torch.randint(-3, 7, (n,), device=d),
        lambda x: uniform(-4, 6)(x.floor()),
        -3,
        6,
        True,
        _WHOLE,
    ),
    Draw(
        "randint_like",
        lambda d, t, n: torch.randint_like(_empty(d, t, n), -3, 7),
        lambda x: uniform(-4, 6)(x.floor()),
        -3,
        6,
        True,
        _WHOLE,
    ),
    Draw(
        "random_", lambda d, t, n: _empty(d, t, n).random_(10), lambda x: uniform(-1, 9)(x.floor()), 0, 9, True, _WHOLE
    ),
    Draw("randperm", _permuted, uniform(0, 2 * DRAWN), 0, 2 * DRAWN - 1, dtypes=_WHOLE),
    Draw(
        "multinomial",
        lambda d, _, n: torch.multinomial(torch.tensor(_THREE, device=d), n, replacement=True),
        counted(_THREE),
        0,
        3,
        True,
        _WHOLE,
    ),
)
