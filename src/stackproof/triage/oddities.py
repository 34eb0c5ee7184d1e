"""What is odd about a training run, from its own figures: what cannot be right, and what deserves a look."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from .training import Progress, Training

_SAG = 1.25
_SETTLED = 1.1
_FEWEST = 8
_CLOSE = 0.02
_ROUNDED = 0.0006


@dataclass(frozen=True)
class Oddity:
    """One sentence; `wrong` if the run cannot be right, else it only deserves a look."""

    id: str
    wrong: bool
    sentence: str


def oddities(training: Training) -> list[Oddity]:
    """Return what is odd, what is wrong first."""
    found = [oddity for check in _CHECKS for oddity in check(training)]
    return sorted(found, key=lambda oddity: not oddity.wrong)


def _losses(training: Training) -> Iterator[Oddity]:
    losses = training.series.get("loss", [])
    bad = [n for n, loss in enumerate(losses) if not math.isfinite(loss)]
    zeros = [n for n, loss in enumerate(losses) if loss == 0]
    if bad:
        yield Oddity(
            "loss-nan", True, f"the loss is {losses[bad[0]]} from logged step {bad[0] + 1} of {len(losses)} on"
        )
    if len(zeros) > 1:
        remedy = "train in bfloat16 instead of float16, or look at the labels: all of them may be masked"
        yield Oddity(
            "loss-zero", True, f"the loss is exactly 0 in {len(zeros)} of {len(losses)} logged steps; {remedy}"
        )
    finite = [loss for loss in losses if math.isfinite(loss)]
    third = len(finite) // 3
    if third >= _FEWEST // 2 and median(finite[-third:]) > 1.5 * median(finite[:third]) > 0:
        yield Oddity("loss-rises", False, f"the loss rises, from {finite[0]:g} to {finite[-1]:g}")


def _learning_rates(training: Training) -> Iterator[Oddity]:
    rates = training.series.get("learning_rate", [])
    if len(rates) > 1 and not any(rates):
        yield Oddity(
            "rate-zero", True, f"the learning rate is 0 in all {len(rates)} logged steps: the optimiser never steps"
        )
    elif len(rates) >= _FEWEST and all(before < after for before, after in pairwise(rates)):
        yield Oddity(
            "warm-up-unending",
            False,
            f"the learning rate still rises at the last of {len(rates)} logged steps: warm-up never ends",
        )


def _skipped(training: Training) -> Iterator[Oddity]:
    skipped, steps = training.series.get("skipped", []), training.series.get("global_step", [])
    if skipped and steps and skipped[-1] >= steps[-1] > 1:
        yield Oddity(
            "all-steps-skipped", True, f"all {steps[-1]:.0f} steps were skipped: gradients overflow at every loss scale"
        )


def _rate(training: Training) -> Iterator[Oddity]:
    speeds = _seconds_per_step(training.progress) or [
        1 / rate for rate in training.series.get("samples_per_second", []) if rate
    ]
    size = len(speeds) // 4
    if size < _FEWEST // 2:
        return
    first, second, third, last = (median(speeds[n * size : (n + 1) * size]) for n in range(4))
    if last > _SAG * second:
        yield Oddity(
            "rate-sags", False, f"the rate sags: the last quarter is {last / second:.2f} times slower than the second"
        )
    if first > _SAG * last and first >= second >= third > _SETTLED * last:
        yield Oddity(
            "never-settles",
            False,
            f"the rate never settles: in its last quarter the run is still {third / last:.2f} times faster than before",
        )


def _seconds_per_step(progress: list[Progress]) -> list[float]:
    """Return seconds per step between the states of a progress bar, which shows whole seconds only: over several seconds each."""
    found: list[float] = []
    last = progress[0] if progress else None
    for state in progress[1:]:
        if last and state.elapsed - last.elapsed >= 10 and state.step > last.step:
            found.append((state.elapsed - last.elapsed) / (state.step - last.step))
            last = state
    return found


def _parameters(training: Training) -> Iterator[Oddity]:
    trainable, whole, percent = (training.get(name) for name in ("trainable", "parameters", "trainable_percent"))
    if (
        trainable
        and whole
        and percent is not None
        and abs(100 * trainable / whole - percent) > max(_ROUNDED, 0.001 * percent)
    ):
        share = 100 * trainable / whole
        yield Oddity(
            "parameters",
            False,
            f"parameters do not add up: {trainable:,.0f} of {whole:,.0f} is {share:.4f} %, the log says {percent:g} %",
        )
    started = training.get("trainable_at_start")
    if trainable and started and started != trainable:
        yield Oddity(
            "parameters-differ",
            False,
            f"{trainable:,.0f} parameters were made trainable, and {started:,.0f} are trained",
        )


def _batches(training: Training) -> Iterator[Oddity]:
    whole, device, world = training.get("global_batch"), training.get("device_batch"), training.get("world_size")
    each = (device or 0) * (training.get("accumulation") or 1)
    if whole and each and world and whole != each * world:
        sentence = f"the batch of all ranks is {whole:.0f}, and {world:.0f} ranks of {each:.0f} make {each * world:.0f}"
        yield Oddity("batch", True, f"{sentence}: the ranks do not train together")


def _counts(training: Training) -> Iterator[Oddity]:
    examples, epochs, whole, steps = (
        training.get(name) for name in ("examples", "epochs", "global_batch", "total_steps")
    )
    if examples and epochs and whole and steps:
        least, most = math.floor(examples / whole) * epochs, math.ceil(examples / whole) * epochs
        if not max(1, least - epochs) <= steps <= most + epochs:
            yield Oddity(
                "steps",
                False,
                f"{examples:.0f} examples in batches of {whole:.0f} for {epochs:.0f} epochs are {most:.0f} steps, the log says {steps:.0f}",
            )
    rate, seconds = training.get("train_samples_per_second"), training.get("train_runtime")
    done = training.steps
    if (
        examples
        and epochs
        and rate
        and seconds
        and done
        and done == steps
        and abs(rate * seconds / (examples * epochs) - 1) > _CLOSE
    ):
        sentence = f"{rate:g} samples/s for {seconds:.0f} s are {rate * seconds:.0f} samples, the data have {examples * epochs:.0f}"
        yield Oddity("rate-differs", False, f"the rate does not add up: {sentence}")


_CHECKS: tuple[Callable[[Training], Iterator[Oddity]], ...] = (
    _losses,
    _learning_rates,
    _skipped,
    _batches,
    _rate,
    _parameters,
    _counts,
)
