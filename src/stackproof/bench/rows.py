"""What a measurement gives, as rows of a record: samples, their median with its interval, and the share of what a device could do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from stackproof import DATA
from stackproof.base.statistics import Interval, median_interval
from stackproof.base.text import matches
from stackproof.base.toml import OneOf, kept_rows
from stackproof.bench.subjects import Subject
from stackproof.record.checks import require
from stackproof.record.records import Figure, Measurement


@dataclass(frozen=True)
class Sampled:
    """Samples of one subject, in order: none where it computed wrong.

    `samples` are seconds per `unit` (`s/sample`: seconds for one sample); `worth` says how much of each thing one run
    was, such as {"iteration": 1, "sample": 4, "token": 620}, so that other units follow. `arithmetic` is the row of the device's peaks
    that it is held against, empty where none is; `reason` says what was verified, or what was wrong.
    """

    subject: str
    version: str
    preset: str
    dtype: str
    world_size: int
    unit: str
    samples: tuple[float, ...]
    worth: Mapping[str, float]
    reason: str
    arithmetic: str = ""
    peak_memory_bytes: int = 0
    settled: bool = True
    facts: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        return bool(self.samples)

    @property
    def interval(self) -> Interval:
        """The median with its confidence interval, in seconds per unit; NaN without samples."""
        return median_interval(self.samples)

    @property
    def median(self) -> float:
        return self.interval.median

    @property
    def noise(self) -> float:
        return self.interval.relative

    def seconds_per(self, unit: str) -> tuple[float, ...]:
        """Return the samples in another unit: `s/token` from `s/iteration`."""
        factor = 1.0 if unit == self.unit else self._amount(self.unit) / self._amount(unit)
        return tuple(sample * factor for sample in self.samples)

    def _amount(self, unit: str) -> float:
        """Return how much of the unit one run is; plain `s` is one run."""
        return float(self.worth[unit.removeprefix("s/")]) if unit.startswith("s/") else 1.0

    @property
    def per_run(self) -> float:
        return self.median * self._amount(self.unit) if self.samples else math.nan


def result(
    subject: Subject,
    preset: str,
    reason: str,
    seconds: Sequence[float] = (),
    worth: Mapping[str, float] | None = None,
    dtype: str = "",
    world_size: int = 1,
    **rest: Any,
) -> Sampled:
    """Return a measurement from the seconds of single runs and from what one run is worth; of what computed wrong, only why."""
    names = subject.name, subject.version, preset, dtype, world_size, subject.unit
    of_runs = Sampled(*names, tuple(seconds), {"iteration": 1.0, **(worth or {})}, reason, **rest)
    amount = of_runs._amount(subject.unit) if seconds else 1.0
    return replace(of_runs, samples=tuple(second / amount for second in seconds))


FILE = DATA / "peaks.toml"
_ARITHMETIC = ("float64", "float32", "tf32", "bfloat16", "float16")


@dataclass(frozen=True)
class Peak:
    """A device's published rates: TFLOP/s by arithmetic, GB/s of its memory, and who published them."""

    names: tuple[str, ...]
    source: str
    bandwidth: float
    tflops: Mapping[Annotated[str, OneOf(_ARITHMETIC)], float]


peaks = kept_rows(FILE, "device", Peak)


def find(name: str) -> Peak | None:
    """Return the peak of a device by torch's name of it; None where none is known, and then nothing is guessed."""
    return next((row for row in peaks() if matches(name, row.names)), None)


def measurements(sampled: Sampled, metric: str, device_name: str) -> list[Measurement]:
    """Return a row for each unit; the first has the subject's own, its version, by which histories go, and its figures.

    Steps are of interest where they hold samples.
    """
    things = [thing for thing in sampled.worth if thing != "iteration"]
    units = [sampled.unit, *(f"s/{thing}" for thing in things), *(["s/iteration"] if "sample" in things else [])]
    rows = list[Measurement]()
    for unit in dict.fromkeys(units) if sampled.samples else ():
        samples = list(sampled.seconds_per(unit))
        own = (sampled.version, figures(sampled, device_name)) if unit == sampled.unit else ("", {})
        names = sampled.subject, sampled.preset, sampled.dtype, sampled.world_size, metric, unit
        value = sampled.median * samples[0] / sampled.samples[0]
        rows.append(Measurement(*names, value, samples, "; ".join(sampled.notes), *own))
    return rows


def figures(sampled: Sampled, device_name: str) -> dict[str, Figure]:
    """Return what explains a measurement, flat; the share of the device's published peak too, where one is known.

    Raises:
        CheckFailed: it is faster than the peak, so that the runs did not do what they are counted for, or the clock is wrong.
    """
    interval = sampled.interval
    values: dict[str, Figure] = {
        "low": interval.low, "high": interval.high, "noise": interval.relative, "samples": len(sampled.samples),
        "verified": sampled.reason, "settled": sampled.settled, "peak_memory_bytes": sampled.peak_memory_bytes,
    }  # fmt: skip
    values |= {f"one run, {thing}": amount for thing, amount in sampled.worth.items()}
    values |= {"arithmetic": sampled.arithmetic} if sampled.arithmetic else {}
    peak, per_run = find(device_name), sampled.per_run
    if peak is not None and math.isfinite(per_run) and sampled.world_size == 1:
        memory = peak.bandwidth if sampled.facts.get("memory") == "device" else 0.0
        for thing, what, most in (
            ("TFLOP", "peak_tflops", peak.tflops.get(sampled.arithmetic, 0.0)), ("GB", "peak_gb_s", memory),
        ):  # fmt: skip
            if most and (amount := sampled.worth.get(thing, 0.0)):
                share = amount / per_run / most
                values |= {"of_peak": share, what: most, "peak_source": peak.source}
                require(
                    share <= 1,
                    f"it would run at {share:.1%} of the published peak of {device_name}, which cannot be: "
                    "the timed runs did less than they are counted for, or the clock is wrong",
                )
    return {**values, **sampled.facts}


# What no work can beat. Peaks are published of few devices; of every other, and below the peak of those, what the device was seen to do
# at best in the same run bounds the rest.
BOUND_FACTOR = 2.0
"""A median against the best sample of another row: sizes, kernels and neighbours make less, and nothing that computes all makes twice."""
FAR = 1e-3
"""Training of which the host computes a part is below so much of what products do; small steps that only launch are above."""
_LEVELS = {"float64": 0, "float32": 1, "tf32": 2, "bfloat16": 3, "float16": 3}
"""Arithmetics by how coarse they are: what is asked in a coarse one may be computed in a finer one, never the other way round."""


class OwnBounds:
    """The best rates of one process: of products by how coarse they are, in TFLOP/s, and of copies within the device's memory, in GB/s."""

    def __init__(self) -> None:
        self._best: dict[tuple[str, int], tuple[float, str]] = {}

    def note(self, sampled: Sampled, kind: str) -> None:
        fastest = min(sampled.samples, default=0.0) / sampled.median * sampled.per_run
        thing = "TFLOP" if kind == "gemm" else "GB"
        if fastest > 0 and (kind == "gemm" or sampled.facts.get("memory") == "device"):
            what, best = (thing, _LEVELS.get(sampled.arithmetic, 0)), (sampled.worth[thing] / fastest, sampled.subject)
            self._best[what] = max(best, self._best.get(what, best))

    def compared(self, sampled: Sampled) -> Sampled:
        """Return a row with its share of what bounds it, and a note where it is far below; as it was where nothing bounds it.

        Raises:
            CheckFailed: it is above the bound times the factor.
        """
        level = _LEVELS.get(sampled.arithmetic, -1)
        able = [best for (what, own), best in self._best.items() if what == "TFLOP" and own <= level]
        able = able if ("TFLOP", level) in self._best else []
        moved = next((thing for thing in ("GB over a link", "GB") if thing in sampled.worth), "")
        facts, notes = dict(sampled.facts), list(sampled.notes)
        for thing, unit, (best_rate, best) in (
            ("TFLOP", "TFLOP/s", max(able, default=(0.0, ""))), (moved, "GB/s", self._best.get(("GB", 0), (0.0, ""))),
        ):  # fmt: skip
            if not best_rate or thing not in sampled.worth or not sampled.samples:
                continue
            rate = sampled.worth[thing] / sampled.per_run
            share = rate / best_rate
            require(
                share <= BOUND_FACTOR,
                f"it would run at {rate:.3g} {unit}, {share:.1f} times what {best} did at best in the same run "
                f"({best_rate:.3g}); {BOUND_FACTOR:g} times are allowed: it did less than it is counted for, or one of the two is wrong",
            )
            facts[f"of the same run's {best}"] = share
            if thing == "TFLOP" and share < FAR:
                notes.append(
                    f"far below: {share:.2%} of what {best} did at best here; `verify --suite placement` names what the host computes"
                )
        return replace(sampled, facts=facts, notes=tuple(notes))
