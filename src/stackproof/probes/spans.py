"""Times runs back to back, as training runs them: spans of several lengths in blocks, of which the slope is the time of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar

from stackproof.device.kinds import Device, HostStopwatch
from stackproof.probes import clock
from stackproof.record.records import Figure

_CYCLE = (1, 2, 4, 8)
"""Spans of so many runs follow one on the other, and one of none: by all together a run is known without what each span costs or lacks."""
_BLOCK_S, _FEW = 0.8, 3
"""Of slow work too a block has several runs, so that what it leaves takes little beside it to compare."""
_MOST_IN_BLOCK = 64
LONG_S = 1.0
"""A run that takes so long hides what filling an empty queue costs."""
_MOST_EMPTY_S = 1e-4
"""What a span of no runs may take: two marks in the device's order of work."""
_COUNTED_S, _COUNTED_IN_ALL_S = 0.2, 1.0
"""Counters of energy move each tenth of a second or less, so that four blocks or more are known to some per cent."""
SPAN_S = 5e-4
"""A sample lasts at least this long, by repeating runs: a card's events tell about a microsecond."""


@dataclass
class Sampler:
    """Takes samples of `number` runs each, in blocks of `most` runs at most, with one wait at the end.

    `begin` is called with the number of runs before each block, outside its time, and with False if nobody will look at what it left.
    `blocks`: the seconds of each by the host's raw counter, those that its spans add up to, how many spans there were, and the seconds in
    which the host may have left the device idle between them. `energy` reads the joules that the device has drawn so far; `drawn`: joules,
    seconds and runs of the blocks that are long enough for that counter.
    """

    least_s: ClassVar[float] = SPAN_S
    device: Device
    run: Callable[[], object]
    number: int = 1
    begin: Callable[..., object] = lambda *_: None
    most: int = 1 << 30
    blocks: list[tuple[float, float, int, float]] = field(default_factory=list)
    energy: Callable[[], float] | None = None
    drawn: tuple[float, float, int] = 0.0, 0.0, 0
    _watches: list[HostStopwatch] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)

    def start_clock(self) -> None:
        self._began = time.perf_counter()

    def pause(self, seconds: float) -> None:
        self._began += seconds

    def spent(self) -> float:
        """Return the seconds since the clock was started, as all who sample together see them."""
        return time.perf_counter() - self._began

    def start(self, runs: int, compared: bool) -> None:
        """Go to where a block of so many runs starts."""
        self.begin(runs, *(() if compared else (False,)))
        self.device.synchronize()

    def spans(self, lengths: Sequence[int], compared: bool = True) -> list[float]:
        """Return the seconds of spans of so many runs each, back to back; `compared`: whether what they leave will be verified."""
        while len(self._watches) < len(lengths):
            self._watches.append(self.device.stopwatch())
        watches = self._watches[: len(lengths)]
        self.start(sum(lengths), compared)
        before = self.energy() if self.energy else 0.0
        began = ended = clock.raw()
        idle = 0.0
        for watch, runs in zip(watches, lengths, strict=True):
            watch.start()
            idle += clock.raw() - ended  # marks and all: a process mostly loses its core where it enters the kernel
            for _ in range(runs):
                self.run()
            ended = clock.raw()
            watch.stop()
        queued = clock.queued()
        idle += clock.raw() - ended
        self.device.synchronize()
        whole = clock.raw() - began
        idle += clock.queued() - queued  # the work is done, and others have the core
        if self.energy and whole >= _COUNTED_S:
            joules, seconds, runs = self.drawn
            self.drawn = joules + self.energy() - before, seconds + whole, runs + sum(lengths)
        spans = [watch.seconds() for watch in watches]
        self.blocks.append((whole, sum(spans), len(spans), idle))
        return spans

    def block(self, count: int) -> list[float]:
        """Return the seconds of one run, for each of `count` spans of equal length."""
        return [span / self.number for span in self.spans([self.number] * count)]

    def fit(self, seconds: float) -> None:
        """Repeat runs of this length until a sample is long enough for the clock."""
        self.number = min(self.most, max(1, math.ceil(self.least_s / max(seconds, 1e-9))))

    def lengths(self, seconds: float) -> list[int]:
        """Return the runs of each span of a block, for runs of this length: cycles as long and as many as there is time and room for."""
        room = min(self.most, max(_FEW if seconds < LONG_S else 1, round(_BLOCK_S / max(seconds, 1e-9))))
        cycle = [0, self.number]
        for runs in _CYCLE[1:]:
            if sum(cycle) + runs * self.number <= room:
                cycle.append(runs * self.number)
        return cycle * max(1, min(_MOST_IN_BLOCK // len(cycle), room // sum(cycle)))


@dataclass
class Slope:
    """Spans of several lengths, in order. What one run takes is the slope of their times over their runs.

    The line goes through the spans of no runs, which vary least by far. So whatever a clock adds to every span, or leaves out, drops out.
    """

    lengths: list[int] = field(default_factory=list)
    spans: list[float] = field(default_factory=list)

    @property
    def empty(self) -> float:
        return median(span for runs, span in zip(self.lengths, self.spans, strict=True) if not runs)

    @property
    def seconds(self) -> list[float]:
        """The seconds of a run by each of the other spans."""
        empty = self.empty
        return [(span - empty) / runs for runs, span in zip(self.lengths, self.spans, strict=True) if runs]

    def require_believable(self, modelled: bool = False) -> dict[str, Figure]:
        """Return what a span takes beside its runs, which may be nothing by a modelled clock.

        Raises:
            ClockWrongError: nothing or less, or more than two marks take: the clock leaves something out of each span, or adds it.
        """
        if not (0 < self.empty or (modelled and not self.empty)) or self.empty > _MOST_EMPTY_S:
            raise clock.ClockWrongError(
                f"a span of no runs took {self.empty * 1e6:.1f} us by the clock that times them, and more than 0 and at most "
                f"{_MOST_EMPTY_S * 1e6:.0f} are believable: it leaves something out of each span, or adds it"
            )
        return {"span of no runs, s": self.empty}


def energy(sampler: Sampler) -> dict[str, Figure]:
    """Return what a run draws and what the card drew meanwhile, where it has a counter and its blocks were long enough for it."""
    joules, seconds, runs = sampler.drawn
    return {"joules of a run": joules / runs, "watts": joules / seconds} if seconds >= _COUNTED_IN_ALL_S else {}
