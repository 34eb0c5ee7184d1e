"""The device's clock is proved before it is believed, once a process: k and 2k units of known work must scale.

Times runs back to back, as training runs them: the device's queue is drained after a block of samples, not after each.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from stackproof.base.statistics import median_interval
from stackproof.bench.subjects import Budget
from stackproof.device.kinds import Device, HostStopwatch
from stackproof.probes import clock
from stackproof.record.checks import CheckFailed, CheckInconclusive
from stackproof.record.records import Figure

_ATTEMPTS = 3
"""A busy host can stretch one comparison; a clock that does not tell the time fails every one."""


@cache
def calibrate(device: Device) -> dict[str, Figure]:
    """Return by what factor twice the work takes longer, and how much of it was left when synchronising returned.

    Raises:
        CheckFailed: the clock, or synchronising, does not do what it says; no figure of this device can be believed.
        CheckInconclusive: others use the host so much that nobody can say.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            spans = clock.measure(device, clock.products(device))
            return {
                "calibration.share": clock.agrees(spans),
                "calibration.factor": clock.scales(spans, lambda turn: turn.device, f"{device}: its own clock"),
                "calibration.left": clock.waits(spans),
            }
        except (CheckFailed, CheckInconclusive):
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


_CYCLE = (1, 2, 4, 8)
"""Spans of so many runs follow one on the other, and one of none: by all together a run is known without what each span costs or lacks."""
_BLOCK_S, _FEW = 0.8, 3
"""Of slow work too a block has several runs, so that what it leaves takes little beside it to compare."""
_MOST_IN_BLOCK = 64
_LONG_S = 1.0
"""A run that takes so long hides what filling an empty queue costs."""
_WINDOW = 5
_WINDOW_OF_LONG = 2
_LEAST_WARM_S = 0.3
"""A card's clock takes some tenths of a second to rise from idle."""
_MOST_WARM = 2000
_TELLING_S = 0.02
"""What queueing and waiting take beside a block is far less, where that is so long by its work and not by a stall of the host."""
_TELLING, _WHOLE, _WAIT_S = 2, 0.992, 3e-4
"""On a busy host the gaps between samples may be long in some blocks, and never in all; and a block begins and ends with a wait."""
_GAPS = 2
"""Between spans two marks follow each other, as they do in a span of no runs (14 to 32 us on an H100): twice that may pass there."""
_MOST_EMPTY_S = 1e-4
"""What a span of no runs may take: two marks in the device's order of work."""
_COUNTED_S, _COUNTED_IN_ALL_S = 0.2, 1.0
"""Counters of energy move each tenth of a second or less, so that four blocks or more are known to some per cent."""
SPAN_S = 5e-4
"""A sample lasts at least this long, by repeating runs: a card's events tell about a microsecond."""


@dataclass(frozen=True)
class Warmth:
    """How warming up went: runs, seconds, and whether the time of a run had settled at the end.

    `change`: by what share the last window of runs differed from the one before; `took`: the seconds of its shortest run.
    """

    runs: int
    seconds: float
    settled: bool
    change: float
    took: float


@dataclass
class Sampler:
    """Takes samples of `number` runs each, in blocks of `most` runs at most, with one wait at the end.

    `begin` is called with the number of runs before each block, outside its time, and with False if nobody will look at what it left.
    `blocks`: the seconds of each by the host's raw counter, those that its spans add up to, and how many spans there were. `energy` reads
    the joules that the device has drawn so far; `drawn`: joules, seconds and runs of the blocks that are long enough for that counter.
    """

    device: Device
    run: Callable[[], object]
    number: int = 1
    begin: Callable[..., object] = lambda *_: None
    most: int = 1 << 30
    blocks: list[tuple[float, float, int]] = field(default_factory=list)
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

    def spans(self, lengths: Sequence[int], compared: bool = True) -> list[float]:
        """Return the seconds of spans of so many runs each, back to back; `compared`: whether what they leave will be verified."""
        while len(self._watches) < len(lengths):
            self._watches.append(self.device.stopwatch())
        watches = self._watches[: len(lengths)]
        self.begin(sum(lengths), *(() if compared else (False,)))
        self.device.synchronize()
        before = self.energy() if self.energy else 0.0
        began = clock.raw()
        for watch, runs in zip(watches, lengths, strict=True):
            watch.start()
            for _ in range(runs):
                self.run()
            watch.stop()
        self.device.synchronize()
        whole = clock.raw() - began
        if self.energy and whole >= _COUNTED_S:
            joules, seconds, runs = self.drawn
            self.drawn = joules + self.energy() - before, seconds + whole, runs + sum(lengths)
        spans = [watch.seconds() for watch in watches]
        self.blocks.append((whole, sum(spans), len(spans)))
        return spans

    def block(self, count: int) -> list[float]:
        """Return the seconds of one run, for each of `count` spans of equal length."""
        return [span / self.number for span in self.spans([self.number] * count)]

    def fit(self, seconds: float) -> None:
        """Repeat runs of this length until a sample is long enough for the clock."""
        self.number = min(self.most, max(1, math.ceil(SPAN_S / max(seconds, 1e-9))))

    def lengths(self, seconds: float) -> list[int]:
        """Return the runs of each span of a block, for runs of this length: cycles as long and as many as there is time and room for."""
        room = min(self.most, max(_FEW if seconds < _LONG_S else 1, round(_BLOCK_S / max(seconds, 1e-9))))
        cycle = [0, self.number]
        for runs in _CYCLE[1:]:
            if sum(cycle) + runs * self.number <= room:
                cycle.append(runs * self.number)
        return cycle * max(1, min(_MOST_IN_BLOCK // len(cycle), room // sum(cycle)))


def freeze_collector() -> None:
    """Let Python's collector leave alone all objects that stand now, such as all that were imported.

    A scan of them would fall into one side's block and not into the other's. Garbage that is made from now on is collected as ever.
    `gc.unfreeze` ends it.
    """
    gc.collect()
    gc.freeze()


def warm_up(sampler: Sampler, seconds: float) -> Warmth:
    """Run at least ten times, at least 0.3 s, and until two windows of five samples agree, or until the seconds have passed.

    They agree when their medians differ by less than 2 %, or by less than the runs within them do. Windows of runs that take more
    than a second have two samples, and there are at least five runs.
    """
    sampler.start_clock()
    taken, runs = sampler.block(1), 1
    while True:
        window = _WINDOW if min(taken) < _LONG_S else _WINDOW_OF_LONG
        taken += sampler.block(window)
        runs += window * sampler.number
        sampler.fit(min(taken[-window:]))
        spent = sampler.spent()
        if len(taken) > 2 * window and spent >= _LEAST_WARM_S:
            before, after = taken[-2 * window : -window], taken[-window:]
            spread = max(median(abs(took - median(part)) for took in part) for part in (before, after))
            change = abs(median(after) / median(before) - 1)
            settled = change <= max(0.02, 2 * spread / median(after))
            if settled or spent > seconds or runs > _MOST_WARM * sampler.number:
                return Warmth(runs, spent, settled, change, min(after))


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


def sample(
    sampler: Sampler,
    budget: Budget,
    compares: Callable[[bool], bool] = lambda _: True,
    after: Callable[[int], object] = lambda _: None,
    took: float = 0.0,
) -> Slope:
    """Take spans until the noise target or the cap is reached, in blocks of one length of which the last is compared.

    `compares` tells before a block whether it will be; then `after` is called with its runs. `took`: the seconds of a run, if known.

    Raises:
        ClockWrongError: the host's clock went wrong meanwhile, or spans do not add up to the time that passed, or lack something each.
    """
    meanwhile = clock.Meanwhile()
    lengths = sampler.lengths(took or median(sampler.block(1)))
    sampler.start_clock()
    sampler.blocks.clear()
    slope, done, compared = Slope(), False, False
    while not (done and compared):
        compared = compares(done)
        slope.spans += sampler.spans(lengths, compared)
        slope.lengths += lengths
        meanwhile.look()
        spent = sampler.spent()
        # One block alone says nothing of the clock.
        done = enough(slope.seconds, budget, spent) and (len(sampler.blocks) >= _TELLING or spent >= budget.seconds)
        if compared:
            after(sum(lengths))
    meanwhile.require()
    gap, half = _GAPS * max(slope.empty, 0.0), len(sampler.blocks) // 2
    shares = [(inside + gap * count + _WAIT_S) / whole for whole, inside, count in sampler.blocks]
    # A clock may go wrong after a while, and then the first blocks are right.
    share = min(max(shares[:half]), max(shares[half:])) if half >= _TELLING else max(shares)
    telling = len(sampler.blocks) >= _TELLING and median(whole for whole, _, _ in sampler.blocks) >= _TELLING_S
    if telling and not share >= _WHOLE:
        raise clock.ClockWrongError(
            f"samples one after the other, and what passes between them, add up to {share:.1%} of the time by the host's raw counter at "
            f"best, {_WHOLE:.1%} are expected: the clock that times them leaves something out of each"
        )
    return slope


def enough(taken: Sequence[float], budget: Budget, spent: float) -> bool:
    """Whether samples that took so many seconds reach the noise target, or the cap."""
    if len(taken) >= budget.most or (spent >= budget.seconds and len(taken) >= min(budget.least, 3)):
        return True
    return len(taken) >= budget.least and median_interval(taken).relative <= budget.noise
