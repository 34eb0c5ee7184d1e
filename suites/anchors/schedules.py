"""Every schedule of torch, and those of transformers that the workloads use: how it is made, and its rate by the formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.optim import lr_scheduler, swa_utils

from stackproof.base import places
from stackproof.record.checks import CapabilityMissing

Make = Callable[[Any], Any]
FIRST = 1.0
"""The rate that the optimiser is made with."""


@dataclass(frozen=True)
class Schedule:
    """How it is made of an optimiser whose rate is `FIRST`, the rate of each step, and what a step is told: a loss, or the epoch.

    `second` is the formula of the second group; where that starts at half the rate (`halved`) and has none, it is half of the first's.
    The momentum is Adam's first beta, or SGD's.
    """

    make: Make
    formula: Callable[[int], float]
    loss: Callable[[int], float] | None = None
    momentum: Callable[[int], float] | None = None
    second: Callable[[int], float] | None = None
    halved: bool = False
    betas: bool = False

    def of_second(self, step: int) -> float:
        """Return the rate of the second group."""
        return self.second(step) if self.second else self.formula(step) * (0.5 if self.halved else 1.0)


def _cosine(step: int, first: float = FIRST) -> float:
    return 0.01 + (first - 0.01) * (1 + math.cos(math.pi * step / 7)) / 2


def _between(start: float, end: float, share: float) -> float:
    """Return the point of half a cosine from start to end."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _one_cycle(step: int) -> float:
    """Rise for 0.4 of twelve steps from 2 / 8, then fall to that by 50 (Smith and Topin, 2018)."""
    peak = 0.4 * 12 - 1
    return _between(0.25, 2.0, step / peak) if step <= peak else _between(2.0, 0.25 / 50, (step - peak) / (11 - peak))


def _one_cycle_momentum(step: int) -> float:
    peak = 0.4 * 12 - 1
    return _between(0.9, 0.7, step / peak) if step <= peak else _between(0.7, 0.9, (step - peak) / (11 - peak))


def _one_cycle_straight(step: int) -> float:
    """Rise and fall along straight lines, with a third phase that falls below the first rate."""
    up, down = 0.3 * 10 - 1, 2 * 0.3 * 10 - 2
    if step <= up:
        return 0.5 + 1.5 * step / up
    return 2.0 - 1.5 * (step - up) / (down - up) if step <= down else 0.5 - 0.45 * (step - down) / (9 - down)


def _restarted(step: float, times: int = 2) -> float:
    """Fall over 2, 4 and 8 steps, or so many times as many (Loshchilov and Hutter, 2017)."""
    length = 2
    while step >= length:
        step, length = step - length, length * times
    return 0.1 + (1 - 0.1) * (1 + math.cos(math.pi * step / length)) / 2


def _cyclic(step: int) -> float:
    """Rise over three steps and fall over two, half as high in each cycle (Smith, 2017)."""
    cycle, within = divmod(step, 5)
    share = within / 3 if within <= 3 else 1 - (within - 3) / 2
    return 0.1 + (0.9 - 0.1) * share / math.pow(2, cycle)


def _decaying(step: int) -> float:
    """Rise over three steps and fall over two, less high by a tenth at each step."""
    cycle, within = divmod(step, 5)
    share = within / 3 if within <= 3 else 1 - (within - 3) / 2
    return 0.1 + (0.9 - 0.1) * share * 0.9 ** (5 * cycle + within)


def _sequence(step: int) -> float:
    """A quarter for three steps, halves for three, then from a half back to the whole in two."""
    return 0.25 if step < 3 else math.pow(0.5, step - 3) if step < 6 else 0.5 + 0.25 * min(step - 6, 2)


def _averaging(share: Callable[[float], float]) -> Callable[[int], float]:
    """Fall from the first rate to a tenth over four steps, by such a share of the way."""
    return lambda step: 1 + (0.1 - 1) * share(min(step / 4, 1))


_LOSSES = (5.0, 4.0, 4.0, 4.0, 4.0, 3.9, 3.8, 3.8, 3.8, 3.8, 3.8)
_SCORES = (1.0, 1.05, 1.2, 1.25, 1.3, 1.35, 1.5, 1.55, 1.6, 1.7, 1.7)


def _plateau(step: int) -> float:
    """Halve after two losses in a row that are no better by a tenth, then wait a step."""
    best, bad, wait, rate = math.inf, 0, 0, FIRST
    for loss in _LOSSES[:step]:
        best, bad = (loss, 0) if loss < best * 0.9 else (best, bad + 1)
        wait, bad = (wait - 1, 0) if wait else (wait, bad)
        if bad > 1:
            rate, bad, wait = max(rate / 2, 0.3), 0, 1
    return rate


def _rising_plateau(scores: Sequence[float], bar: Callable[[float], float]) -> Callable[[int], float]:
    """Halve after two scores in a row that are not above what the best asks of them, without a wait."""

    def rate(step: int) -> float:
        best, bad, found = -math.inf, 0, FIRST
        for score in scores[:step]:
            best, bad = (score, 0) if score > bar(best) else (best, bad + 1)
            if bad > 1:
                found, bad = found / 2, 0
        return found

    return rate


def _warmed(step: int) -> float:
    """Rise over three of nine steps, then fall to nothing along half a cosine."""
    return step / 3 if step < 3 else 0.5 * (1 + math.cos(math.pi * (step - 3) / 6))


def _of_transformers(name: str, **given: Any) -> Make:
    def make(optimiser: Any) -> Any:
        try:
            import transformers
        except ImportError as error:
            raise CapabilityMissing(
                f"{places.table('workloads.toml')}: transformers is not installed, whose schedules these are"
            ) from error
        return getattr(transformers, name)(optimiser, **given)

    return make


SCHEDULES: Mapping[str, Schedule] = {
    "StepLR": Schedule(lambda one: lr_scheduler.StepLR(one, 3, 0.5), lambda step: 0.5 ** (step // 3), halved=True),
    "MultiStepLR": Schedule(
        lambda one: lr_scheduler.MultiStepLR(one, [2, 5], 0.1), lambda step: 0.1 ** ((step >= 2) + (step >= 5))
    ),
    "MultiStepLR, twice at once": Schedule(
        lambda one: lr_scheduler.MultiStepLR(one, [2, 2, 5], 0.5),
        lambda step: 0.5 ** (2 * (step >= 2) + (step >= 5)),
        halved=True,
    ),
    "ExponentialLR": Schedule(lambda one: lr_scheduler.ExponentialLR(one, 0.9), lambda step: 0.9**step, halved=True),
    "ConstantLR": Schedule(
        lambda one: lr_scheduler.ConstantLR(one, 0.25, 4), lambda step: 0.25 if step < 4 else 1.0, halved=True
    ),
    "LinearLR": Schedule(
        lambda one: lr_scheduler.LinearLR(one, 0.25, 1.0, 4),
        lambda step: 0.25 + 0.75 * min(step, 4) / 4,
        halved=True,
    ),
    "CosineAnnealingLR": Schedule(
        lambda one: lr_scheduler.CosineAnnealingLR(one, 7, 0.01),
        _cosine,
        second=lambda step: _cosine(step, FIRST / 2),
        halved=True,
    ),
    "CosineAnnealingWarmRestarts": Schedule(
        lambda one: lr_scheduler.CosineAnnealingWarmRestarts(one, 2, 2, 0.1), _restarted
    ),
    "CosineAnnealingWarmRestarts, threefold": Schedule(
        lambda one: lr_scheduler.CosineAnnealingWarmRestarts(one, 2, 3, 0.1), lambda step: _restarted(step, 3)
    ),
    "CosineAnnealingWarmRestarts, by fractions": Schedule(
        lambda one: lr_scheduler.CosineAnnealingWarmRestarts(one, 2, 2, 0.1),
        lambda step: _restarted(step * 0.75),
        loss=lambda step: (step + 1) * 0.75,
    ),
    "PolynomialLR": Schedule(
        lambda one: lr_scheduler.PolynomialLR(one, 8, 2.0), lambda step: (1 - min(step, 8) / 8) ** 2, halved=True
    ),
    "LambdaLR": Schedule(
        lambda one: lr_scheduler.LambdaLR(one, lambda step: 1 / (1 + step)), lambda step: 1 / (1 + step), halved=True
    ),
    "LambdaLR, by groups": Schedule(
        lambda one: lr_scheduler.LambdaLR(one, [lambda step: 1 / (1 + step), lambda step: math.pow(0.5, step)]),
        lambda step: 1 / (1 + step),
        second=lambda step: math.pow(0.5, step),
    ),
    "MultiplicativeLR": Schedule(
        lambda one: lr_scheduler.MultiplicativeLR(one, lambda step: step / (1 + step)), lambda step: 1 / (1 + step)
    ),
    "OneCycleLR": Schedule(
        lambda one: lr_scheduler.OneCycleLR(
            one, 2.0, 12, pct_start=0.4, base_momentum=0.7, max_momentum=0.9, div_factor=8.0, final_div_factor=50.0
        ),
        _one_cycle,
        momentum=_one_cycle_momentum,
    ),
    "OneCycleLR, of betas": Schedule(
        lambda one: lr_scheduler.OneCycleLR(
            one, 2.0, 12, pct_start=0.4, base_momentum=0.7, max_momentum=0.9, div_factor=8.0, final_div_factor=50.0
        ),
        _one_cycle,
        momentum=_one_cycle_momentum,
        betas=True,
    ),
    "CyclicLR": Schedule(
        lambda one: lr_scheduler.CyclicLR(one, 0.1, 0.9, 3, 2, mode="triangular2", cycle_momentum=False), _cyclic
    ),
    "OneCycleLR, straight": Schedule(
        lambda one: lr_scheduler.OneCycleLR(
            one,
            2.0,
            10,
            pct_start=0.3,
            anneal_strategy="linear",
            cycle_momentum=False,
            div_factor=4.0,
            final_div_factor=10.0,
            three_phase=True,
        ),
        _one_cycle_straight,
    ),
    "CyclicLR, decaying": Schedule(
        lambda one: lr_scheduler.CyclicLR(one, 0.1, 0.9, 3, 2, mode="exp_range", gamma=0.9, cycle_momentum=False),
        _decaying,
    ),
    "SequentialLR": Schedule(
        lambda one: lr_scheduler.SequentialLR(
            one,
            [
                lr_scheduler.ConstantLR(one, 0.25, 100),
                lr_scheduler.ExponentialLR(one, 0.5),
                lr_scheduler.LinearLR(one, 0.5, 1.0, 2),
            ],
            [3, 6],
        ),
        _sequence,
    ),
    "SWALR": Schedule(
        lambda one: swa_utils.SWALR(one, 0.1, anneal_epochs=4), _averaging(lambda t: (1 - math.cos(math.pi * t)) / 2)
    ),
    "SWALR, straight": Schedule(
        lambda one: swa_utils.SWALR(one, 0.1, anneal_epochs=4, anneal_strategy="linear"), _averaging(lambda t: t)
    ),
    "ChainedScheduler": Schedule(
        lambda one: lr_scheduler.ChainedScheduler(
            [lr_scheduler.ConstantLR(one, 0.25, 4), lr_scheduler.ExponentialLR(one, 0.9)]
        ),
        lambda step: (0.25 if step < 4 else 1.0) * 0.9**step,
    ),
    "ReduceLROnPlateau, rising": Schedule(
        lambda one: lr_scheduler.ReduceLROnPlateau(one, mode="max", factor=0.5, patience=1, threshold=0.1),
        _rising_plateau(_SCORES, lambda best: best * 1.1),
        lambda step: _SCORES[step],
    ),
    "ReduceLROnPlateau, rising by an amount": Schedule(
        lambda one: lr_scheduler.ReduceLROnPlateau(
            one, mode="max", factor=0.5, patience=1, threshold=0.15, threshold_mode="abs"
        ),
        _rising_plateau([-loss for loss in _LOSSES], lambda best: best + 0.15),
        lambda step: -_LOSSES[step],
    ),
    "ReduceLROnPlateau": Schedule(
        lambda one: lr_scheduler.ReduceLROnPlateau(
            one, factor=0.5, patience=1, threshold=0.1, cooldown=1, min_lr=0.3, eps=1e-3
        ),
        _plateau,
        loss=_LOSSES.__getitem__,
    ),
    "ReduceLROnPlateau, by groups": Schedule(
        lambda one: lr_scheduler.ReduceLROnPlateau(one, factor=0.5, patience=0, min_lr=[0.1, 0.4]),
        lambda step: max(0.5 ** max(step - 1, 0), 0.1),
        loss=lambda _: 1.0,
        second=lambda step: max(0.5 ** max(step - 1, 0), 0.4),
    ),
    "cosine with warmup": Schedule(
        _of_transformers("get_cosine_schedule_with_warmup", num_warmup_steps=3, num_training_steps=9),
        _warmed,
        halved=True,
    ),
    "cosine with warmup, more waves": Schedule(
        _of_transformers("get_cosine_schedule_with_warmup", num_warmup_steps=3, num_training_steps=9, num_cycles=1.5),
        lambda step: step / 3 if step < 3 else 0.5 * (1 + math.cos(math.pi * 3 * (step - 3) / 6)),
    ),
    "cosine with warmup, hard restarts": Schedule(
        _of_transformers(
            "get_cosine_with_hard_restarts_schedule_with_warmup",
            num_warmup_steps=3,
            num_training_steps=9,
            num_cycles=2,
        ),
        lambda step: step / 3 if step < 3 else 0.5 * (1 + math.cos(math.pi * ((step - 3) / 3 % 1))) * (step < 9),
    ),
    "polynomial with warmup": Schedule(
        _of_transformers(
            "get_polynomial_decay_schedule_with_warmup",
            num_warmup_steps=3,
            num_training_steps=9,
            lr_end=0.1,
            power=2.0,
        ),
        lambda step: step / 3 if step < 3 else 0.1 + 0.9 * (1 - (step - 3) / 6) ** 2,
        halved=True,
    ),
    "constant with warmup": Schedule(
        _of_transformers("get_constant_schedule_with_warmup", num_warmup_steps=3), lambda step: min(step / 3, 1.0)
    ),
    "inverse root with warmup": Schedule(
        _of_transformers("get_inverse_sqrt_schedule", num_warmup_steps=3, timescale=4),
        lambda step: step / 3 if step < 3 else math.sqrt(4 / (step + 1)),
    ),
    "linear with warmup": Schedule(
        _of_transformers("get_linear_schedule_with_warmup", num_warmup_steps=3, num_training_steps=9),
        lambda step: step / 3 if step < 3 else (9 - step) / 6,
        halved=True,
    ),
}
