"""Proof that a device's time is real: the clock runs, work that doubles takes twice as long, synchronising waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

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
        """Multiply again and again."""
        self._value.copy_(self._start)
        for _ in range(units):
            torch.mm(self._factor, self._value, out=self._out)
            self._value, self._out = self._out, self._value

    def read(self) -> float:
        """Copy one number to the host."""
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
        if min(_truth(work, 1) for _ in range(4)) >= UNIT_S:
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
        if SETTLED[0] <= _factor(spans, complete) <= SETTLED[1]:
            break
    return replace(spans, others=load.share())


def lasting(work: KnownWork, seconds: float) -> int:
    """Return how many units take at least so long, by doubling."""
    units = 1
    while units < _MOST_UNITS and min(_truth(work, units) for _ in range(2)) < seconds:
        units *= 2
    return units


def complete(turn: Turn) -> float:
    """Return the wall-clock time from the first launch until the result was read."""
    return turn.wall + turn.rest


def _factor(spans: Spans, span: Callable[[Turn], float]) -> float:
    return min(map(span, spans.double)) / max(min(map(span, spans.single)), 1e-12)


def _truth(work: KnownWork, units: int) -> float:
    """Return the time until the result is here, whatever synchronising does."""
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
    told = f"{spans.units} units took {single * 1e3:.2f} ms and {2 * spans.units} took {double * 1e3:.2f} ms"
    said = f"{whose}: {told}, {factor:.2f} times as long; {low} to {high} were expected"
    if factor > high and spans.others > CROWDED:
        raise CheckInconclusive(
            f"{said}, but others used {spans.others:.0%} of the host's cores: run it again when it is quiet"
        )
    if not low <= factor <= high:
        raise CheckFailed(said)
    return factor


def waits(spans: Spans) -> float:
    """When synchronising returns, the work is done; returns the share that was left.

    An accelerator's launch returns long before the work is done. If waiting does nothing, the wall clock measures launches, which scale
    with the work too. So the result is read after each wait: reading always waits, and must find that nearly everything is done
    (docs/users-reports.md A6, pytorch#147835).
    """
    share = median(turn.rest / complete(turn) for turn in spans.double)
    require(
        share <= LATE,
        f"synchronising does not wait: {share:.0%} of the time passed after it had returned, until the result was there",
    )
    return share


def agrees(spans: Spans) -> float:
    """The device's own time is the wall clock's, and finer than milliseconds; returns the largest share of all turns."""
    turns = [*spans.single, *spans.double]
    ticks = any(turn.device for turn in turns)  # one that reads zero is not rough, it stands
    rough = ticks and all(abs(turn.device * 1e3 - round(turn.device * 1e3)) < _WHOLE_MS for turn in turns)
    require(
        not rough, f"the device's time is whole milliseconds in all of {len(turns)} turns; events are finer than that"
    )
    share, (low, high) = max(turn.device / complete(turn) for turn in turns), AGREE
    require(
        low <= share <= high,
        f"the device's time is {share:.3f} of the wall clock's for the same work; {low} to {high} were expected",
    )
    return share
