"""Clocks against the raw counter: too fast, too slow, only over long spans, in jumps, in ticks; and never a false alarm for a busy host."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from stackproof.device.devices import HOST
from stackproof.device.kinds import Host, HostStopwatch, Stopwatch
from stackproof.probes import clock, timekeeping
from stackproof.probes.clock import Spans, Turn
from stackproof.probes.timekeeping import Moment, TimedSpan, require_right
from stackproof.record.checks import CheckFailed, CheckInconclusive


class Nothing:
    """Work that is done at once."""

    def submit(self, units: int) -> None: ...

    def read(self) -> float:
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
    assert timekeeping.timed_span(1.0, begin, end) == TimedSpan(1.0, 0.7, 1.4)
    with pytest.raises(CheckInconclusive, match="so busy that"):
        require_right("it", [timekeeping.timed_span(1.0, begin, end)], 0.002)


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


UNIT = 0.0041237


class Virtual:
    """A test double of `time`: nothing but a sleep and a microsecond a look moves it, however busy the host is."""

    now = 0.0

    @classmethod
    def perf_counter(cls) -> float:
        cls.now += 1e-6
        return cls.now

    @classmethod
    def sleep(cls, seconds: float) -> None:
        cls.now += seconds


class Queue(Host):
    """A test double: work is done at a known time, whatever the host does meanwhile. Not an accelerator."""

    done = 0.0
    waits = True
    factor = 1.0

    def synchronize(self) -> None:
        """Wait until the queue is empty, or only seem to."""
        if Queue.waits:
            Virtual.sleep(max(0.0, Queue.done - Virtual.perf_counter()))

    def stopwatch(self) -> Stopwatch:
        return Events()


class Events(Stopwatch):
    """A test double of two timing events."""

    def start(self) -> None:
        self._begin = max(Queue.done, Virtual.perf_counter())

    def stop(self) -> None:
        self._end = max(Queue.done, self._begin)

    def seconds(self) -> float:
        return (self._end - self._begin) * Queue.factor


class Sleep:
    """Work that takes 4.1 ms a unit and returns at once."""

    def __init__(self, grows: bool = True) -> None:
        self._grows = grows

    def submit(self, units: int) -> None:
        Queue.done = max(Queue.done, Virtual.perf_counter()) + UNIT * (units if self._grows else min(units, 8))

    def read(self) -> float:
        Virtual.sleep(max(0.0, Queue.done - Virtual.perf_counter()))
        return 0.0


def measured(monkeypatch: pytest.MonkeyPatch, *, waits: bool = True, factor: float = 1.0, grows: bool = True) -> Spans:
    monkeypatch.setattr(Queue, "waits", waits)
    monkeypatch.setattr(Queue, "factor", factor)
    monkeypatch.setattr(clock, "time", Virtual)
    monkeypatch.setattr(clock, "ROUNDS", 1)
    monkeypatch.setattr(clock, "REPETITIONS", 3)
    return clock.measure(Queue("cpu", 0), Sleep(grows))


def test_a_queue_that_is_waited_for_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = measured(monkeypatch)
    assert max(turn.launch for turn in spans.single) < UNIT
    assert 1.5 < clock.scales(spans, clock.complete, "wall clock") < 2.7
    assert 1.5 < clock.scales(spans, lambda turn: turn.device, "events") < 2.7
    assert clock.waits(spans) < 0.2
    assert clock.agrees(spans) > 0.95


def test_waiting_that_does_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = measured(monkeypatch, waits=False)
    with pytest.raises(CheckFailed, match="synchronising does not wait: "):
        clock.waits(spans)


def test_events_in_another_unit_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for factor in (1000, 0.5, 0.93, 1.06):
        with pytest.raises(CheckFailed, match="0.95 to 1.02 were expected"):
            clock.agrees(measured(monkeypatch, factor=factor))


def test_work_that_does_not_grow_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailed, match=r"1\.\d\d times as long; 1.5 to 2.7 were expected"):
        clock.scales(measured(monkeypatch, grows=False), clock.complete, "wall clock")


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


def test_no_time_at_all_is_caught() -> None:
    still = Turn(0.0, 0.0, 0.0, 0.0)
    with pytest.raises(CheckFailed, match="events: 4 units of work took no time"):
        clock.scales(Spans(4, [still], [still]), lambda turn: turn.device, "events")


def test_events_of_whole_milliseconds_are_caught() -> None:
    turns = [Turn(0.001, 0.032, 0.0004, 0.032), Turn(0.001, 0.064, 0.0004, 0.064)]
    with pytest.raises(CheckFailed, match="whole milliseconds in all of 2 turns"):
        clock.agrees(Spans(4, turns[:1], turns[1:]))


def test_events_that_read_zero_stand_and_are_not_called_coarse() -> None:
    turns = [Turn(0.001, 0.032, 0.0004, 0.0), Turn(0.001, 0.064, 0.0004, 0.0)]
    with pytest.raises(CheckFailed, match=r"is 0.000 of the wall clock's"):
        clock.agrees(Spans(4, turns[:1], turns[1:]))
