"""Random operators: shape, dtype, range, parameters and distribution of a seeded draw.

Parameters are told by means (`traits`), from as many numbers as it takes to see one per cent. The shape is compared with the cumulative
distribution function by the Dvoretzky-Kiefer-Wolfowitz inequality, with Massart's constant: P(sup |F_n - F| > d) <= 2 exp(-2 n d^2),
for continuous and discrete distributions alike and for every n. So each bound has a stated probability of a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from stackproof.operators.traits import Trait

DRAWN = 50_000
"""So many numbers are compared with the distribution function, and with their neighbours."""

FALSE_ALARM = 1e-9
"""The probability that a correct device fails one comparison, for the one seed that is used."""

_BEHIND = 25.0
"""An end of a range is missed by more than so many n-ths of its width with a probability of e^-25, 1.4e-11."""

SEED = 20240229

Make = Callable[[torch.device, torch.dtype, int], torch.Tensor]
_APART = tuple(1 << power for power in range(1, 15))
"""Blocks, rows and vectors of kernels have such lengths."""
_RUN = 256
"""Numbers in a row that no draw has twice: of coins of 3/4 with a probability of 10^-52, at each place."""
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
    traits: tuple[Trait, ...] = ()
    ends: bool = False
    """Whether numbers come near both ends of their range."""
    half_open: bool = False
    """Whether the upper end itself is none of the numbers."""
    distinct: bool = False
    least: int = DRAWN

    def count(self, dtype: torch.dtype) -> int:
        """Return how many numbers it takes to see one per cent of any parameter."""
        return max([self.least, *(trait.needed(dtype) for trait in self.traits)])

    def seen(self, dtype: torch.dtype) -> dict[str, float]:
        """Return the smallest relative error of each parameter that is seen in 999 of 1000 seeds."""
        return {trait.parameter: trait.seen(dtype, self.count(dtype)) for trait in self.traits}


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
        neighbours = f"neighbours correlate by {self.correlation:.2g}, {self.correlation_bound:.2g} allowed"
        told = (self.fault, fit, neighbours) if math.isfinite(self.distance) else (self.fault,)
        return "; ".join(filter(None, told))

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
    fault = _ends(wide, draw, dtype) or _tails(wide, draw, dtype) or _parameters(wide, draw, dtype)
    drawn, wide, n = wide, wide[:DRAWN], min(n, DRAWN)
    rounding = torch.finfo(dtype).eps if dtype.is_floating_point and not draw.whole else 0.0
    bound = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n)) + rounding
    ranks = draw.cdf(wide)  # a distribution with infinite variance has ranks without
    ranks = ranks - ranks.mean()
    # sqrt(n) r is normal; 6.2 standard deviations are exceeded with a probability of 6e-10
    return Fit(
        _distance(wide, draw),
        bound,
        _correlation(ranks, 1),
        6.2 / math.sqrt(n),
        fault or _again(ranks) or _twice(drawn),
    )


def _again(ranks: torch.Tensor) -> str:
    """Say that numbers come again in the next row or block, whose lengths are powers of two (6.6: a probability of 4e-11 each)."""
    for apart in _APART:
        if (count := len(ranks) - apart) > apart:
            found = _correlation(ranks, apart)
            if abs(found) > 6.6 / math.sqrt(count):
                return f"numbers that are {apart} apart correlate by {found:.2g}, {6.6 / math.sqrt(count):.2g} allowed"
    return ""


def _twice(values: torch.Tensor) -> str:
    """Say that a stretch of the numbers comes again, however far away: four or five are looked for, evenly spread."""
    last = values.numel() - _RUN
    for start in range(0, last, max(last // 4, 1)):
        places = (values[: last + 1] == values[start]).nonzero().flatten()
        for step in range(1, _RUN):
            if len(places) == 1:
                break
            places = places[values[places + step] == values[start + step]]
        if len(places) > 1:
            return f"{_RUN} numbers from {start} on come again at {next(int(x) for x in places if int(x) != start)}"
    return ""


def _correlation(ranks: torch.Tensor, apart: int) -> float:
    return float((ranks[apart:] * ranks[:-apart]).mean() / ranks.square().mean().clamp_min(1e-12))


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
    if draw.half_open and high == draw.high:
        return f"{int((values == high).sum())} of {values.numel()} numbers are {high:g}, which the range leaves out"
    return ""


def _ends(values: torch.Tensor, draw: Draw, dtype: torch.dtype) -> str:
    """Say which end of a range is never reached: to a step of the coarsest generator (eps / 2), half a last place, and luck."""
    if not draw.ends:
        return ""
    width, eps = draw.high - draw.low, torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    room = width * (eps / 2 + _BEHIND / values.numel()) + max(abs(draw.low), abs(draw.high)) * eps / 4
    low, high = float(values.min()), float(values.max())
    if low <= draw.low + room and high >= draw.high - room:
        return ""
    return f"numbers from {low:.6g} to {high:.6g} do not reach the ends of the range from {draw.low:g} to {draw.high:g}"


def _tails(values: torch.Tensor, draw: Draw, dtype: torch.dtype) -> str:
    """Say which tail is cut: the outermost numbers have ranks below 25 / n, twice that for rounding; halves come from 8 bits."""
    if draw.whole or draw.ends or not dtype.is_floating_point or dtype.itemsize < 4:
        return ""
    low, high = values.min(), values.max()
    left, right = float(draw.cdf(low)), 1 - float(draw.cdf(high))
    if max(left, right) <= 2 * _BEHIND / values.numel():
        return ""
    span = f"{values.numel()} numbers from {float(low):.6g} to {float(high):.6g}"
    return f"a tail is cut: {span} leave out {max(left, right):.2g} of them at one end"


def _parameters(values: torch.Tensor, draw: Draw, dtype: torch.dtype) -> str:
    """Say which parameter is off, or that numbers come twice that may not."""
    if draw.distinct and (twice := values.numel() - len(torch.unique(values))):
        return f"{twice} of {values.numel()} numbers come twice"
    return next(filter(None, (trait.fault(values, dtype) for trait in draw.traits)), "")


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


def geometric(x: torch.Tensor) -> torch.Tensor:
    """Return that of the number of tries until the first success, whose chance is 0.3."""
    return -torch.expm1(math.log(0.7) * x.floor().clamp_min(0))


def poisson(mean: float) -> Distribution:
    """Return that of Poisson."""
    return lambda x: torch.where(
        x < 0, 0.0, torch.special.gammaincc(x.floor().clamp_min(0) + 1, torch.full_like(x, mean))
    )


def binomial(trials: int, chance: float) -> Distribution:
    """Return that of how many of so many trials succeed."""
    return counted([math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)])


def gamma(shape: float) -> Distribution:
    """Return that of waiting times of this shape."""
    return lambda x: torch.special.gammainc(torch.full_like(x, shape), x)
