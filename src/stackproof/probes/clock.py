"""Proof that time is real: clocks are right, work that doubles takes twice as long, synchronising waits.

A clock is held against the kernel's raw counter and a process of its own, over milliseconds and over seconds. A reading lies between two
readings of the reference, taken before and after it: a busy host only moves those two apart, so that it can hide a wrong clock and never
accuse a right one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch

from stackproof.base.processes import HostLoad
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed, CheckInconclusive, require

UNIT_S = 1e-3
"""One unit of work takes at least this long, so that a launch (some 10 microseconds) does not count."""
SPAN_S = 25e-3
"""The shorter of the two spans that are compared."""
REPETITIONS = 9
ROUNDS = 4
SETTLED = (1.8, 2.2)
"""While the best turns are further apart than this, another round is taken: best times on a busy host need more turns."""
DOUBLE = (1.5, 2.7)
"""Twice the work takes between these times as long; 2.4 was seen after one round on a busy two-core machine."""
CROWDED = 0.25
"""From this share of the host's cores on, others stretch long spans more than short ones: 9 times as long was seen at 0.95."""
AGREE = (0.95, 1.02)
"""The device's time as a share of the wall clock's around it, in the best turn: a busy host only lowers it; cards show 0.996 and more."""
_WHOLE_MS = 1e-6
LATE = 0.5
"""At most this share of the whole may be left to wait for when synchronising has returned; it is 0.9 and more if it does nothing."""
_LARGEST = 8192
_MOST_UNITS = 512
RATE = 0.002
"""The kernel slews its own clocks by 0.05 % at most (adjtimex(2)); oscillators differ by far less."""
DEVICE_RATE = 0.005
GRAIN_S = 2e-5
"""What two clocks may differ by beside their rates: the counters of two cores, and a card's latency."""
TICK_S = 5e-6
"""Events are finer than this; a benchmark's samples take half a millisecond and more."""
SECONDS = 2.0
_STEP_S = 0.01
_NARROW_S = 2e-4
_TRIES = 20
_KNOWN = 0.01
"""A rate that is known to no better than this says nothing."""
_SPANS = 64
_PARTS = 16
_PARTS_S = (4e-4, 3e-3)
"""Short spans are as long as the shortest samples, and as longer ones that no wait is held against."""

Now = Callable[[], float]


class KnownWork(Protocol):
    """Known work: `submit` queues units of it, `read` brings a number of the result to the host and so waits for it."""

    def submit(self, units: int) -> None:
        """Queue so many equal units, each of which needs the one before it."""

    def read(self) -> float:
        """Wait for the result whatever the state of synchronisation."""


class Products:
    """Products of square matrices, begun afresh in each span: thousands would end in numbers too small, which CPUs are slow with."""

    def __init__(self, device: Device, size: int) -> None:
        generator = torch.Generator().manual_seed(1)
        factor = torch.randn(size, size, generator=generator) / size**0.5
        self._factor, self._start = factor.to(device.torch), torch.eye(size).to(device.torch)
        self._value, self._out = self._start.clone(), torch.empty_like(self._start)

    def submit(self, units: int) -> None:
        self._value.copy_(self._start)
        for _ in range(units):
            torch.mm(self._factor, self._value, out=self._out)
            self._value, self._out = self._out, self._value

    def read(self) -> float:
        return float(self._value[0, 0].item())


@dataclass(frozen=True)
class Turn:
    """One timed span in seconds: the launch, until synchronising returned, then until the result was read, and the device's own time."""

    launch: float
    wall: float
    rest: float
    device: float


@dataclass(frozen=True)
class Spans:
    """Turns of k and of 2k units, taken in turn; `others` is the share of the host's cores that others used meanwhile."""

    units: int
    single: list[Turn]
    double: list[Turn]
    others: float = 0.0


def products(device: Device) -> Products:
    """Return products large enough that one takes a millisecond on this device."""
    size = 128
    while size < _LARGEST:
        work = Products(device, size)
        if min(_finished(work, 1) for _ in range(4)) >= UNIT_S:
            return work
        size *= 2
    return Products(device, size)


def measure(device: Device, work: KnownWork) -> Spans:
    """Time k and 2k units in turn, where k units take at least 25 ms."""
    units, load = lasting(work, SPAN_S), HostLoad()
    spans = Spans(units, [], [])
    for _ in range(ROUNDS):
        for _ in range(REPETITIONS):
            spans.single.append(_turn(device, work, units))
            spans.double.append(_turn(device, work, 2 * units))
        if SETTLED[0] <= _factor(spans, complete) <= SETTLED[1] and _share(spans) >= AGREE[0]:
            break
    return replace(spans, others=load.share())


def lasting(work: KnownWork, seconds: float) -> int:
    """Return how many units take at least so long, by doubling."""
    units = 1
    while units < _MOST_UNITS and min(_finished(work, units) for _ in range(2)) < seconds:
        units *= 2
    return units


def complete(turn: Turn) -> float:
    """Return the wall-clock time from the first launch until the result was read."""
    return turn.wall + turn.rest


def _factor(spans: Spans, span: Callable[[Turn], float]) -> float:
    return min(map(span, spans.double)) / max(min(map(span, spans.single)), 1e-12)


def _share(spans: Spans) -> float:
    """Return the device's largest share of a turn: load between two readings shortens most shares, and not all."""
    return max(turn.device / complete(turn) for turn in (*spans.single, *spans.double))


def _finished(work: KnownWork, units: int) -> float:
    began = time.perf_counter()
    work.submit(units)
    work.read()
    return time.perf_counter() - began


def _turn(device: Device, work: KnownWork, units: int) -> Turn:
    work.read()
    device.synchronize()
    watch = device.stopwatch()
    began = time.perf_counter()
    watch.start()
    work.submit(units)
    launched = time.perf_counter()
    watch.stop()
    device.synchronize()
    waited = time.perf_counter()
    work.read()
    done = time.perf_counter()
    return Turn(launched - began, waited - began, done - waited, watch.seconds())


def scales(spans: Spans, span: Callable[[Turn], float], whose: str) -> float:
    """Twice the work takes twice as long by this clock; returns the factor.

    Raises:
        CheckFailed: it does not.
        CheckInconclusive: it takes longer than that, on a host that others use: they stretch what takes longer, and shorten nothing.
    """
    single, double = min(map(span, spans.single)), min(map(span, spans.double))
    require(single > 0, f"{whose}: {spans.units} units of work took no time")
    factor, (low, high) = _factor(spans, span), DOUBLE
    measured = f"{spans.units} units took {single * 1e3:.2f} ms and {2 * spans.units} took {double * 1e3:.2f} ms"
    sentence = f"{whose}: {measured}, {factor:.2f} times as long; {low} to {high} were expected"
    if factor > high and spans.others > CROWDED:
        raise CheckInconclusive(
            f"{sentence}, but others used {spans.others:.0%} of the host's cores: run it again when it is quiet"
        )
    require(low <= factor <= high, sentence)
    return factor


def waits(spans: Spans) -> float:
    """When synchronising returns, the work is done; returns the share that was left.

    An accelerator's launch returns long before the work is done. If waiting does nothing, the wall clock measures launches, which scale
    with the work too. So the result is read after each wait: reading always waits, and must find that nearly everything is done
    (docs/users-reports.md A6, pytorch#147835).
    """
    share = median(turn.rest / complete(turn) for turn in spans.double)
    passed = f"{share:.0%} of the time passed after it had returned, until the result was there"
    require(share <= LATE, f"synchronising does not wait: {passed}")
    return share


def agrees(spans: Spans) -> float:
    """The device's own time is the wall clock's, and finer than milliseconds; returns the largest share of all turns."""
    turns = [*spans.single, *spans.double]
    ticks = any(turn.device for turn in turns)  # one that reads zero is not rough, it stands
    rough = ticks and all(abs(turn.device * 1e3 - round(turn.device * 1e3)) < _WHOLE_MS for turn in turns)
    require(
        not rough, f"the device's time is whole milliseconds in all of {len(turns)} turns; events are finer than that"
    )
    share, (low, high) = _share(spans), AGREE
    sentence = f"the device's time is {share:.3f} of the wall clock's for the same work; {low} to {high} were expected"
    require(low <= share <= high, sentence)
    return share


def raw() -> float:
    """Return the seconds of the counter that nobody adjusts."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def queued() -> float:
    """Return the seconds that this thread was ready to run and had no core (`CONFIG_SCHED_INFO`); 0 where the kernel does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except OSError:
        return 0.0


@dataclass(frozen=True)
class Moment:
    """When something happened, by the reference: within `early` and `late`, in seconds; `reading` is the clock's own."""

    early: float
    late: float
    reading: float = 0.0


def at(reference: Now, act: Callable[[], Any]) -> Moment:
    """Do something between two readings; again, while the readings are far apart: what counts is what was done last."""
    for _ in range(_TRIES):
        early = reference()
        reading = act()
        late = reference()
        if late - early <= _NARROW_S:
            break
    return Moment(early, late, float(reading or 0.0))


@dataclass(frozen=True)
class TimedSpan:
    """A span by a clock, in seconds, and within which bounds it was by the reference."""

    seconds: float
    shortest: float
    longest: float

    @property
    def off(self) -> float:
        """By how many seconds it is outside its bounds: above nothing if it is too long, below if it is too short."""
        return max(0.0, self.seconds - self.longest) + min(0.0, self.seconds - self.shortest)

    def wrong(self, rate: float) -> bool:
        """Whether the span is outside its bounds by more than this share of its length."""
        return abs(self.off) > rate * self.longest + GRAIN_S


def timed_span(seconds: float, begin: Moment, end: Moment) -> TimedSpan:
    """Return the span between two moments as a clock measured it."""
    return TimedSpan(seconds, max(0.0, end.early - begin.late), end.late - begin.early)


def _between(begin: Moment, end: Moment) -> TimedSpan:
    return timed_span(end.reading - begin.reading, begin, end)


def require_right(whose: str, spans: Sequence[TimedSpan], rate: float) -> float:
    """Every span is what the reference says; returns the rate of the longest, as far as it is known to be off.

    Raises:
        CheckFailed: a span is longer or shorter than it can have been.
        CheckInconclusive: the host was too busy for the longest to say anything.
    """
    worst = max(spans, key=lambda span: abs(span.off) - rate * span.longest)
    limits = f"{worst.shortest * 1e3:.3f} to {worst.longest * 1e3:.3f} ms"
    require(
        not worst.wrong(rate),
        f"{whose} measured {worst.seconds * 1e3:.3f} ms for a span of {limits} ({sum(span.wrong(rate) for span in spans)} of "
        f"{len(spans)} spans are wrong); {rate:.1%} and {GRAIN_S * 1e6:.0f} us are allowed",
    )
    longest = max(spans, key=lambda span: span.shortest)
    if longest.longest - longest.shortest > _KNOWN * longest.longest:
        raise CheckInconclusive(
            f"{whose} cannot be judged: the host was so busy that a span was only known to be {limits}"
        )
    return longest.off / longest.longest


class Outside:
    """A process of its own that reads the raw counter when it is asked; nothing that is imported here reaches it."""

    _CODE = "import sys, time\nfor _ in sys.stdin: print(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), flush=True)"

    def __enter__(self) -> Now:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", self._CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        )  # fmt: skip
        return self._read

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def _read(self) -> float:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        require(bool(line), f"a process that only reads a clock ended with {self._child.poll()}")
        return int(line) / 1e9


@dataclass(frozen=True)
class ClockCheck:
    """What was seen of a clock: how many spans, and by what share the longest is known to be off at least."""

    spans: int
    seconds: float
    off: float


def host_clock(seconds: float = SECONDS) -> ClockCheck:
    """The clock that times everything is the raw counter over every span from ten milliseconds to two seconds.

    And the raw counter, as this process reads it, is the one that another process reads; clocks that are that clock by another name, or
    in whole nanoseconds, tell the same.
    """
    with Outside() as outside:
        begin, others = at(outside, raw), _by_other_names()
        readings = []
        for _ in range(round(seconds / _STEP_S)):
            readings.append(at(raw, time.perf_counter))
            time.sleep(_STEP_S)
        readings.append(at(raw, time.perf_counter))
        later, end = _by_other_names(), at(outside, raw)
    require_right("the raw counter, held against another process's,", [_between(begin, end)], RATE)
    # Neighbours, and what is 2, 4, 8 ... looks apart, and the first with the last: a jump shows between neighbours.
    gaps = [1 << power for power in range((len(readings) - 1).bit_length())]
    near = [pair for gap in gaps for pair in zip(readings, readings[gap:], strict=False)]
    spans = [_between(first, last) for first, last in ((readings[0], readings[-1]), *near)]
    check = ClockCheck(len(spans), seconds, require_right("the host's clock", spans, RATE))
    for name, first in others.items():
        require_right(f"time.{name}", [_between(first, later[name])], RATE)
    return check


def _by_other_names() -> dict[str, Moment]:
    return {
        "monotonic": at(raw, time.monotonic),
        "monotonic_ns": at(raw, lambda: time.monotonic_ns() / 1e9),
        "perf_counter_ns": at(raw, lambda: time.perf_counter_ns() / 1e9),
    }


class ClockWrongError(CheckFailed):
    """The clock is wrong by which something was measured, whatever was computed meanwhile."""


def require_kept(begin: Moment) -> None:
    """End the span that began with that reading of the host's clock: a clock may go wrong after it was tried.

    Raises:
        ClockWrongError: the span was longer or shorter than the clock measured.
    """
    span = _between(begin, at(raw, time.perf_counter))
    if span.wrong(RATE):
        raise ClockWrongError(
            f"while samples were taken the host's clock measured {span.seconds * 1e3:.3f} ms for a span of "
            f"{span.shortest * 1e3:.3f} to {span.longest * 1e3:.3f} ms; {RATE:.1%} and {GRAIN_S * 1e6:.0f} us are allowed"
        )


def device_clock(device: Device, work: KnownWork, units: int, seconds: float = SECONDS) -> ClockCheck:
    """The device's clock is the raw counter over short spans, idle and at work, and over a long one that holds them all."""
    spans, watch = list[TimedSpan](), device.stopwatch()
    work.read()
    began, begin = time.monotonic(), _marked(device, watch.start)
    while not spans or (time.monotonic() - began < seconds and len(spans) < seconds / _STEP_S):
        spans.append(_short(device, work, units if len(spans) % 2 else 0))
    end = _marked(device, watch.stop)
    spans.append(timed_span(watch.seconds(), begin, end))
    return ClockCheck(len(spans), spans[-1].longest, require_right(f"{device}: its own clock", spans, DEVICE_RATE))


def _short(device: Device, work: KnownWork, units: int) -> TimedSpan:
    watch = device.stopwatch()
    begin = _marked(device, watch.start)
    if units:
        _finished(work, units)
    else:
        time.sleep(_STEP_S)
    end = _marked(device, watch.stop)
    return timed_span(watch.seconds(), begin, end)


def _marked(device: Device, mark: Callable[[], None]) -> Moment:
    """Start or stop a stopwatch on an idle device, and wait until it is marked."""

    def act() -> None:
        mark()
        device.synchronize()

    return at(raw, act)


def adds_up(device: Device) -> int:
    """Short spans of the device's clock, as samples are, add up to a long one; return how many there were.

    The order of marks alone says it, so that a busy host hides what is wrong and never makes it: spans that overlap and cover a long one
    are longer together, spans that lie within a long one are shorter.
    """
    for seconds in _PARTS_S:
        for covering in (True, False):
            parts, whole = _parts(device, seconds, covering=covering)
            limit = DEVICE_RATE * whole + _PARTS * TICK_S
            off = whole - sum(parts) if covering else sum(parts) - whole
            require(
                off <= limit,
                f"{device}: its own clock measured {sum(parts) * 1e3:.3f} ms for {_PARTS} short spans "
                f"that {'cover' if covering else 'lie within'} one of {whole * 1e3:.3f} ms; they may be "
                f"{limit * 1e3:.3f} ms {'shorter' if covering else 'longer'} than that",
            )
    return 2 * _PARTS * len(_PARTS_S)


def _parts(device: Device, seconds: float, *, covering: bool) -> tuple[list[float], float]:
    """Return spans that follow one another, and one that begins after the first does or before it, and ends likewise."""
    watches, whole = [device.stopwatch() for _ in range(_PARTS)], device.stopwatch()
    device.synchronize()
    if not covering:
        whole.start()
    for number, watch in enumerate(watches):
        watch.start()
        if covering:
            watches[number - 1].stop() if number else whole.start()
        time.sleep(seconds)
        if not covering:
            watch.stop()
    whole.stop()
    if covering:
        watches[-1].stop()
    return [watch.seconds() for watch in watches], whole.seconds()


def tick(device: Device) -> float:
    """Return the smallest step between times that the device's clock tells, in seconds; too coarse a one fails."""
    watch, seen = device.stopwatch(), set()
    for number in range(_SPANS):
        device.synchronize()
        watch.start()
        time.sleep(number % 8 * _NARROW_S / 8)
        watch.stop()
        seen.add(round(watch.seconds(), 9))
    ordered = sorted(seen)
    steps = [after - before for before, after in pairwise(ordered)]
    coarse = f"{min(steps) * 1e6:.1f} us" if steps else "coarser than all of them"
    require(
        bool(steps) and min(steps) <= TICK_S,
        f"{device}: its own clock measured {len(seen)} different times of {_SPANS} short spans; its tick is {coarse}, "
        f"{TICK_S * 1e6:.0f} us are allowed",
    )
    return min(steps)
