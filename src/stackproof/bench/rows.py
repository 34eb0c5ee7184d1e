"""What a measurement gives, as rows of a record: samples, their median with its interval, and the share of what a device could do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated

from stackproof import DATA
from stackproof.base.statistics import Interval, median_interval
from stackproof.base.text import matches
from stackproof.base.toml import OneOf, Table
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
