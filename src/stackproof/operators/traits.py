"""What a parameter of a distribution does to a mean: tests of random operators whose sample sizes follow from their power.

A trait is a function of a drawn number whose mean and deviation are known. The mean over n numbers is normal: it strays by more than
`ALARM` of its deviations with a probability of 5.7e-10, and an error that moves it by `ALARM + POWER` of them is seen in 999 of
1000 seeds. Functions are bounded, or have few large values, so that n is small and what halves round does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

ALARM = 6.2
"""Standard deviations that a correct draw may stray by: two in 1.8e9 do."""

POWER = 3.1
"""So many more, and 999 of 1000 are seen."""

PER_CENT = 0.01

Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Trait:
    """A mean that is known: of what, its value, the deviation of one number, and what one per cent of a parameter moves it by.

    `coarse`: by how much it may be lower, in units of the dtype's epsilon, because numbers of few bits are cut and not rounded.
    """

    parameter: str
    of: Function
    mean: float
    deviation: float
    moved: float
    coarse: float = 0.0

    def needed(self, dtype: torch.dtype) -> int:
        """Return how many numbers it takes to see one per cent."""
        return math.ceil(((ALARM + POWER) * self.deviation / (abs(self.moved) - self._cut(dtype))) ** 2)

    def seen(self, dtype: torch.dtype, count: int) -> float:
        """Return the smallest relative error of the parameter that is seen among so many numbers."""
        return ((ALARM + POWER) * self.deviation / math.sqrt(count) + self._cut(dtype)) / abs(self.moved) * PER_CENT

    def fault(self, values: torch.Tensor, dtype: torch.dtype) -> str:
        """Say by how much the mean (of float64 numbers) strays; empty if it may."""
        gap, room = float(self.of(values).mean()) - self.mean, ALARM * self.deviation / math.sqrt(values.numel())
        if -room - self._cut(dtype) <= gap <= room:
            return ""
        error = gap / self.moved * PER_CENT
        return f"its {self.parameter} is off by about {abs(error):.2%}, {self.seen(dtype, values.numel()):.2%} would be seen"

    def _cut(self, dtype: torch.dtype) -> float:
        return self.coarse * torch.finfo(dtype).eps if dtype.is_floating_point else 0.0


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def share(chance: float, parameter: str = "chance", of: Function = _same) -> tuple[Trait, ...]:
    """Return the trait of what is one with this chance, else zero."""
    return (Trait(parameter, of, chance, math.sqrt(chance * (1 - chance)), PER_CENT * chance),)


def shares(weights: list[float]) -> tuple[Trait, ...]:
    """Return the traits of whole numbers from 0 that are drawn with these weights."""
    return tuple(
        share(weight, f"weight of {place}", lambda x, place=place: (x == place).double())[0]  # type: ignore[misc]
        for place, weight in enumerate(weights)
        if weight
    )


def mean(value: float, deviation: float, parameter: str = "mean") -> tuple[Trait, ...]:
    """Return the trait of numbers whose mean grows with their parameter."""
    return (Trait(parameter, _same, value, deviation, PER_CENT * value),)


def gauss(centre: float, deviation: float, of: Function = _same) -> tuple[Trait, ...]:
    """Return those of Gauss: a mean of zero moves in units of the deviation, and that is told by the bell itself, not by its tails.

    exp(-z^2 / 2) has the mean 1 / sqrt(1 + s^2) for numbers of deviation s, and the mean square 1 / sqrt(3).
    """

    def bell(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(-((of(x) - centre) / deviation).square() / 2)

    wide = Trait("deviation", bell, 0.5**0.5, math.sqrt(3**-0.5 - 0.5), -PER_CENT * 0.5**1.5)
    return (Trait("mean", of, centre, deviation, PER_CENT * (abs(centre) or deviation)), wide)


def cauchy(centre: float, scale: float) -> tuple[Trait, ...]:
    """Return the scores of Cauchy's distribution, which has no mean: bounded, of information 1/2 each."""

    def squared(x: torch.Tensor) -> torch.Tensor:
        return ((x - centre) / scale).square()

    def left(x: torch.Tensor) -> torch.Tensor:
        z = ((x - centre) / scale).clamp(-1e9, 1e9)
        return 2 * z / (1 + z * z)

    width = Trait("scale", lambda x: 1 - 2 / (1 + squared(x)), 0.0, 0.5**0.5, PER_CENT / 2)
    return (width, Trait("median", left, 0.0, 0.5**0.5, PER_CENT * abs(centre) / scale / 2))


def even(low: float, high: float, cut: float = 0.25) -> tuple[Trait, ...]:
    """Return that of numbers spread evenly: one per cent of the width, which its ends tell too; CPUs cut them to the dtype's bits.

    `cut`: by which share of epsilon and width the mean may be lower for that; a half where what rounds to the upper end starts anew.
    """
    width = high - low
    return (Trait("width", _same, (low + high) / 2, width / math.sqrt(12), PER_CENT * width / 2, width * cut),)


def split(concentration: float) -> tuple[Trait, ...]:
    """Return those of the first of two shares by equal concentrations c: one alone moves the mean, both the variance 1 / (8 c + 4)."""
    c = concentration
    variance = 1 / (8 * c + 4)
    fourth = 3 * variance**2 * (2 * c + 1) / (2 * c + 3)
    told = Trait("mean", _same, 0.5, variance**0.5, PER_CENT / 4)
    of = Trait(
        "concentration",
        lambda x: (x - 0.5).square(),
        variance,
        (fourth - variance**2) ** 0.5,
        -PER_CENT * 8 * c * variance**2,
    )
    return (told, of)


def cut_normal(x: torch.Tensor) -> torch.Tensor:
    """Return the distribution function of Gauss's numbers between two deviations on both sides."""
    end = torch.special.ndtr(torch.tensor(-2.0, dtype=x.dtype))
    told: torch.Tensor = (torch.special.ndtr(x) - end) / (1 - 2 * end)
    return told.clamp(0, 1)


def cut() -> tuple[Trait, ...]:
    """Return those of the same: the mean in units of the deviation, and the square, which says the deviation before the ends were cut."""

    def moments(deviation: float) -> tuple[float, float]:
        c = 2 / deviation
        share = math.exp(-c * c / 2) / math.sqrt(2 * math.pi) / math.erf(c / 2**0.5)
        return deviation**2 * (1 - 2 * c * share), deviation**4 * (3 - (2 * c**3 + 6 * c) * share)

    square, fourth = moments(1.0)
    moved = moments(1 + PER_CENT)[0] - square
    wide = Trait("deviation", torch.square, square, math.sqrt(fourth - square**2), moved)
    return (Trait("mean", _same, 0.0, square**0.5, PER_CENT * square), wide)
