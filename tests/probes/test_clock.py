"""Clocks: a busy host accuses none, and a crowd excuses nothing that is wrong; the drill plants wrong ones."""

from __future__ import annotations

import pytest

from stackproof.device.devices import HOST
from stackproof.probes import clock
from stackproof.probes.clock import Moment, Spans, TimedSpan, Turn, require_right
from stackproof.record.checks import CheckFailed, CheckInconclusive


class Nothing:
    """Work that is done at once."""

    def submit(self, units: int) -> None: ...

    def read(self) -> float:
        return 0.0


def test_this_hosts_clocks_are_right() -> None:
    assert clock.host_clock(0.3).spans > 30
    assert clock.device_clock(HOST, Nothing(), 1, 0.2).spans > 5
    assert clock.tick(HOST) < clock.TICK_S


def test_a_busy_host_accuses_no_clock() -> None:
    begin, end = Moment(0.0, 0.3), Moment(1.0, 1.4)
    assert clock.timed_span(1.0, begin, end) == TimedSpan(1.0, 0.7, 1.4)
    with pytest.raises(CheckInconclusive, match="so busy that"):
        require_right("it", [clock.timed_span(1.0, begin, end)], 0.002)


def crowded(others: float, double: float) -> Spans:
    """Return turns of 3 ms and of so many, while others used that share of the host's cores."""
    return Spans(1, [Turn(0.0, 0.003, 0.0, 0.003)], [Turn(0.0, double, 0.0, double)], others)


def test_long_spans_on_a_crowded_host_say_nothing() -> None:
    with pytest.raises(CheckInconclusive, match=r"9\.67 times as long; 1.5 to 2.7 were expected, but others used 95%"):
        clock.scales(crowded(0.95, 0.029), clock.complete, "wall clock")
    with pytest.raises(CheckFailed, match="were expected$"):
        clock.scales(crowded(0.02, 0.029), clock.complete, "wall clock")


def test_a_crowd_excuses_no_work_that_does_not_grow() -> None:
    with pytest.raises(CheckFailed, match="1.00 times as long"):
        clock.scales(crowded(0.95, 0.003), clock.complete, "wall clock")
