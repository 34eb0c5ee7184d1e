"""What a measurement gives: raw samples in seconds per unit of work, their median with its interval, and what explains them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..records import Figure
from .statistics import Interval, median_interval


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
