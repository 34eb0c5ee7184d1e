"""Clocks against the raw counter: too fast, too slow, only over long spans, in jumps, in ticks; and never a false alarm for a busy host."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from stackproof.device.devices import HOST
from stackproof.device.kinds import HostStopwatch
from stackproof.probes import timekeeping
from stackproof.probes.timekeeping import Moment, Told, hold
from stackproof.record.checks import CheckFailed, CheckInconclusive


class Nothing:
    """Work that is done at once."""

    def submit(self, units: int) -> None:
        """Do nothing."""

    def read(self) -> float:
        """There is nothing to wait for."""
        return 0.0


def test_this_hosts_clocks_are_right() -> None:
    assert timekeeping.host_clock(0.3).spans > 30
    assert timekeeping.device_clock(HOST, Nothing(), 1, 0.2).spans > 5
    assert timekeeping.tick(HOST) < timekeeping.TICK_S


@pytest.mark.parametrize(
    "wrong",
    [
        lambda now: now * 0.99,
        lambda now: now * 1.006,
        lambda now: now + 0.01 * int(now * 5),
        lambda now: now + (0.003 if int(now * 10) % 2 else 0.0),
        lambda now: int(now * 250) / 250,
    ],
    ids=["one per cent slow", "six per mille fast", "jumps ahead", "jumps to and fro", "ticks"],
)
def test_a_wrong_clock_of_the_host_is_caught(monkeypatch: pytest.MonkeyPatch, wrong: Callable[[float], float]) -> None:
    right = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: wrong(right()))
    with pytest.raises(CheckFailed, match="the host's clock told"):
        timekeeping.host_clock(1.0)


def test_a_raw_counter_that_only_this_process_reads_wrong_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right, perf = time.clock_gettime, time.perf_counter
    monkeypatch.setattr(time, "clock_gettime", lambda which: right(which) * 0.9)
    monkeypatch.setattr(time, "perf_counter", lambda: perf() * 0.9)
    with pytest.raises(CheckFailed, match="held against another process's"):
        timekeeping.host_clock(0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda told: told * 0.98,
        lambda told: told * (1.02 if told > 0.1 else 1.0),
        lambda told: told * (0.97 if told < 0.1 else 1.0),
        lambda told: told + 0.004,
    ],
    ids=["two per cent fast", "over long spans only", "over short spans only", "a constant too much"],
)
def test_a_wrong_clock_of_the_device_is_caught(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[float], float]
) -> None:
    right = HostStopwatch.seconds
    monkeypatch.setattr(HostStopwatch, "seconds", lambda watch: wrong(right(watch)))
    with pytest.raises(CheckFailed, match="cpu: its own clock told"):
        timekeeping.device_clock(HOST, Nothing(), 1, 0.5)


def test_a_coarse_tick_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = HostStopwatch.seconds
    for ticks in (1e3, 1e4):
        monkeypatch.setattr(HostStopwatch, "seconds", lambda watch, per=ticks: round(right(watch) * per) / per)
        with pytest.raises(CheckFailed, match="its tick is"):
            timekeeping.tick(HOST)


def test_a_busy_host_accuses_no_clock() -> None:
    begin, end = Moment(0.0, 0.3), Moment(1.0, 1.4)
    assert timekeeping.told(1.0, begin, end) == Told(1.0, 0.7, 1.4)
    with pytest.raises(CheckInconclusive, match="so busy that"):
        hold("it", [timekeeping.told(1.0, begin, end)], 0.002)


@pytest.mark.parametrize("name", ["monotonic", "monotonic_ns", "perf_counter_ns"])
def test_a_clock_by_another_name_that_is_wrong_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(time, name)
    monkeypatch.setattr(time, name, lambda: type(right())(right() * 0.9))
    with pytest.raises(CheckFailed, match=f"time.{name} told"):
        timekeeping.host_clock(0.3)


def test_a_clock_that_goes_wrong_while_something_is_measured_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right, meanwhile = time.perf_counter, timekeeping.Meanwhile()
    time.sleep(0.02)
    meanwhile.require()
    now = right()
    monkeypatch.setattr(time, "perf_counter", lambda: now + (right() - now) * 0.95)
    time.sleep(0.05)
    with pytest.raises(CheckFailed, match="while samples were taken the host's clock told"):
        meanwhile.require()


class Bent(HostStopwatch):
    """Tells spans of less than five milliseconds otherwise."""

    bend: Callable[[float], float] = staticmethod(lambda seconds: seconds)

    def seconds(self) -> float:
        """Bend it."""
        right = super().seconds()
        return type(self).bend(right) if right < 5e-3 else right


@pytest.mark.parametrize(
    ("bend", "said"),
    [
        (lambda seconds: seconds * 0.8, "that cover one"),
        (lambda seconds: seconds - 3e-5, "that cover one"),
        (lambda seconds: seconds * 1.1, "that lie within one"),
    ],
    ids=["a fifth short", "30 us short", "a tenth long"],
)
def test_short_spans_that_do_not_add_up_are_caught(
    bend: Callable[[float], float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert timekeeping.adds_up(HOST) > 10
    monkeypatch.setattr(type(HOST), "stopwatch", lambda _: Bent())
    timekeeping.adds_up(HOST)
    monkeypatch.setattr(Bent, "bend", staticmethod(bend))
    with pytest.raises(CheckFailed, match=said):
        timekeeping.adds_up(HOST)
