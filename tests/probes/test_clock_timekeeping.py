"""The timer's rules on a stand-in card whose work runs behind the host's back: waiting that waits, and waiting that does not."""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Host, Stopwatch
from stackproof.probes import clock
from stackproof.probes.clock import Spans, Turn
from stackproof.record.checks import CheckFailed, CheckInconclusive

UNIT = 0.0041237


class Virtual:
    """A test double of `time`: nothing but a sleep and a microsecond a look moves it, however busy the host is."""

    now = 0.0

    @classmethod
    def perf_counter(cls) -> float:
        """What it shows."""
        cls.now += 1e-6
        return cls.now

    @classmethod
    def sleep(cls, seconds: float) -> None:
        """Let it pass."""
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
        """A clock in the queue's own time."""
        return Events()


class Events(Stopwatch):
    """A test double of two timing events."""

    def start(self) -> None:
        """Note when the queue is empty."""
        self._begin = max(Queue.done, Virtual.perf_counter())

    def stop(self) -> None:
        """Note when it will be."""
        self._end = max(Queue.done, self._begin)

    def seconds(self) -> float:
        """The time between, in the card's own seconds."""
        return (self._end - self._begin) * Queue.factor


class Sleep:
    """Work that takes 4.1 ms a unit and returns at once."""

    def __init__(self, grows: bool = True) -> None:
        self._grows = grows

    def submit(self, units: int) -> None:
        """Put the end of the queue off."""
        Queue.done = max(Queue.done, Virtual.perf_counter()) + UNIT * (units if self._grows else min(units, 8))

    def read(self) -> float:
        """Always waits."""
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
