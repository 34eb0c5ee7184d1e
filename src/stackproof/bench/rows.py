"""What a measurement gives, as rows of a record: samples, their median with its interval, and the share of what a device could do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

from stackproof import DATA
from stackproof.base.statistics import Interval, median_interval
from stackproof.base.text import matches
from stackproof.base.toml import OneOf, Table
from stackproof.bench.subjects import Subject
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure, Measurement


@dataclass(frozen=True)
class Sampled:
    """Samples of one subject, in order.

    `samples` are seconds per `unit` (`s/sample`: seconds for one sample); `worth` says how much of each thing one run
    was, such as {"iteration": 1, "sample": 4, "token": 620}, so that other units follow. Without verification there are no samples.
    """

    subject: str
    version: str
    preset: str
    dtype: str
    world_size: int
    unit: str
    samples: tuple[float, ...]
    worth: Mapping[str, float]
    verified: bool
    reason: str
    """What was verified, or what was wrong, in one sentence."""
    arithmetic: str = ""
    """The row of the device's peaks that this work is held against; empty where none is."""
    peak_memory_bytes: int = 0
    settled: bool = True
    clocks: Mapping[str, Figure] = field(default_factory=dict)
    facts: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def interval(self) -> Interval:
        """The median with its confidence interval, in seconds per unit; NaN without samples."""
        return median_interval(self.samples)

    @property
    def median(self) -> float:
        """Seconds per unit."""
        return self.interval.median

    @property
    def noise(self) -> float:
        """Half the width of the median's interval, relative to the median."""
        return self.interval.relative

    @property
    def units(self) -> tuple[str, ...]:
        """The units that the samples can be told in, the subject's own first."""
        return (self.unit, *(unit for unit in (f"s/{thing}" for thing in self.worth) if unit != self.unit))

    def seconds_per(self, unit: str) -> tuple[float, ...]:
        """Return the samples in another unit: `s/token` from `s/iteration`; plain `s` is one run."""
        if unit == self.unit:
            return self.samples
        factor = self._amount(self.unit) / self._amount(unit)
        return tuple(sample * factor for sample in self.samples)

    def _amount(self, unit: str) -> float:
        """Return how much of the unit one run is."""
        return 1.0 if unit == "s" else float(self.worth[unit.removeprefix("s/")])

    @property
    def per_run(self) -> float:
        """The median seconds of one run."""
        return self.median * self._amount(self.unit) if self.samples else math.nan


def result(
    subject: Subject, preset: str, seconds: tuple[float, ...], worth: Any, *, world_size: int = 1, **rest: Any
) -> Sampled:
    """Make what a measurement returns from the seconds of single runs and from what one run is worth."""
    full = {"iteration": 1.0, **worth}
    plain = subject.unit in ("s", "ratio") or not seconds
    amount = 1.0 if plain else full[subject.unit.removeprefix("s/")]
    samples = tuple(one / amount for one in seconds)
    names = {"subject": subject.name, "version": subject.version, "preset": preset, "world_size": world_size}
    return Sampled(**names, unit=subject.unit, samples=samples, worth=full, **rest)  # type: ignore[arg-type]


FILE = DATA / "peaks.toml"
_ARITHMETIC = ("float64", "float32", "tf32", "bfloat16", "float16")


@dataclass(frozen=True)
class Peak:
    """A device's published rates: TFLOP/s by arithmetic, GB/s of its memory, and who published them."""

    names: tuple[str, ...]
    source: str
    bandwidth: float
    tflops: Mapping[Annotated[str, OneOf(_ARITHMETIC)], float]


@cache
def peaks() -> tuple[Peak, ...]:
    """Return all devices of the file."""
    with Table.load(FILE) as table:
        return table.rows("device", Peak)


def find(name: str) -> Peak | None:
    """Return the peak of a device by torch's name of it; None where none is known, and then nothing is guessed."""
    return next((row for row in peaks() if matches(name, row.names)), None)


def utilisation(name: str, arithmetic: str, tflop_per_s: float) -> float | None:
    """Return the share of the device's peak that a rate in TFLOP/s is; None where the peak is not known."""
    peak = find(name)
    limit = peak.tflops.get(arithmetic) if peak else None
    return tflop_per_s / limit if limit else None


def measurements(sampled: Sampled, metric: str, device_name: str) -> list[Measurement]:
    """Return the rows; the first has the subject's own unit, its version, by which histories go, and its figures."""
    if not sampled.samples:
        return []
    first = _row(sampled, metric, sampled.unit)
    first.version, first.figures = sampled.version, figures(sampled, device_name)
    return [first, *(_row(sampled, metric, unit) for unit in _others(sampled))]


def _others(sampled: Sampled) -> list[str]:
    """Return the other units worth a row: steps are of interest where they hold samples."""
    wanted = [unit for unit in sampled.units[1:] if unit != "s/iteration"]
    return [*wanted, *(["s/iteration"] if "sample" in sampled.worth and sampled.unit != "s/iteration" else [])]


def _row(sampled: Sampled, metric: str, unit: str) -> Measurement:
    samples = list(sampled.seconds_per(unit))
    value = sampled.median * samples[0] / sampled.samples[0]
    return Measurement(
        workload=sampled.subject, preset=sampled.preset, dtype=sampled.dtype, world_size=sampled.world_size, metric=metric,
        unit=unit, value=value, samples=samples, note="; ".join(sampled.notes),
    )  # fmt: skip


def figures(sampled: Sampled, device_name: str) -> dict[str, Figure]:
    """Return what explains a measurement, flat."""
    interval = sampled.interval
    found: dict[str, Figure] = {
        "low": interval.low, "high": interval.high, "noise": interval.relative, "samples": len(sampled.samples),
        "verified": sampled.reason, "settled": sampled.settled, "peak_memory_bytes": sampled.peak_memory_bytes,
    }  # fmt: skip
    found |= {f"one run, {thing}": amount for thing, amount in sampled.worth.items()}
    return {**found, **_of_peak(sampled, device_name), **sampled.clocks, **sampled.facts}


def _of_peak(sampled: Sampled, device_name: str) -> dict[str, Figure]:
    """Return the share of the device's published peak, with the peak and its source; nothing where it is not known."""
    found: dict[str, Figure] = {"arithmetic": sampled.arithmetic} if sampled.arithmetic else {}
    peak, per_run = find(device_name), sampled.per_run
    if peak is None or not math.isfinite(per_run) or sampled.world_size > 1:
        return found
    if share := utilisation(device_name, sampled.arithmetic, sampled.worth.get("TFLOP", 0.0) / per_run):
        found |= {"of_peak": share, "peak_tflops": peak.tflops[sampled.arithmetic], "peak_source": peak.source}
    if sampled.facts.get("memory") == "device":
        found |= {
            "of_peak": sampled.worth["GB"] / per_run / peak.bandwidth,
            "peak_gb_s": peak.bandwidth,
            "peak_source": peak.source,
        }
    return found


# What no work can beat. Peaks are published of few devices; of every other, and below the peak of those, what the device was seen to do
# at best in the same run bounds the rest.
BOUND_FACTOR = 2.0
"""A median against the best sample of another row: sizes, kernels and neighbours make less, and nothing that computes all makes twice."""
_LEVELS = {"float64": 0, "float32": 1, "tf32": 2, "bfloat16": 3, "float16": 3}
"""Arithmetics by how coarse they are: what is asked in a coarse one may be computed in a finer one, never the other way round."""


@dataclass(frozen=True)
class _Best:
    rate: float
    subject: str


@dataclass
class OwnBounds:
    """The best rates of one process: of products by arithmetic, in TFLOP/s, and of copies within the device's memory, in GB/s."""

    products: dict[str, _Best] = field(default_factory=dict)
    copies: list[_Best] = field(default_factory=list)

    def note(self, sampled: Sampled, kind: str) -> None:
        """Remember a row that bounds others."""
        fastest = min(sampled.samples, default=0.0) / sampled.median * sampled.per_run if sampled.samples else 0.0
        if fastest <= 0:
            return
        if kind == "gemm":
            best = _Best(sampled.worth["TFLOP"] / fastest, sampled.subject)
            self.products[sampled.arithmetic] = max(
                best, self.products.get(sampled.arithmetic, best), key=lambda one: one.rate
            )
        elif sampled.facts.get("memory") == "device":
            self.copies.append(_Best(sampled.worth["GB"] / fastest, sampled.subject))

    def share_of_bound(self, sampled: Sampled) -> dict[str, Figure]:
        """Return the share of its own bound that a row's median is; nothing where no row bounds it.

        Raises:
            CheckFailed: it is above the bound times the factor.
        """
        found: dict[str, Figure] = {}
        for thing, unit, best in self._bounding(sampled):
            rate = sampled.worth[thing] / sampled.per_run
            share = rate / best.rate
            found |= {f"of the same run's {best.subject}": share}
            if share > BOUND_FACTOR:
                raise CheckFailed(
                    f"it would run at {rate:.3g} {unit}, {share:.1f} times what {best.subject} did at best in the same run "
                    f"({best.rate:.3g}); {BOUND_FACTOR:g} times are allowed: it did less than it is counted for, or one of the two is wrong"
                )
        return found

    def _bounding(self, sampled: Sampled) -> list[tuple[str, str, _Best]]:
        found, own = [], _LEVELS.get(sampled.arithmetic, -1)
        levels = {_LEVELS[name] for name in self.products}
        if "TFLOP" in sampled.worth and own in levels:
            able = [best for name, best in self.products.items() if _LEVELS[name] <= own]
            found.append(("TFLOP", "TFLOP/s", max(able, key=lambda one: one.rate)))
        moved = next((thing for thing in ("GB over a link", "GB") if thing in sampled.worth), None)
        if moved and self.copies and sampled.per_run > 0:
            found.append((moved, "GB/s", max(self.copies, key=lambda one: one.rate)))
        return found
