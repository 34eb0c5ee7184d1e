"""Stopwatches: seconds, in the device's own order of work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from stackproof.device.kinds import EventStopwatch, HostStopwatch


class Event:
    """A test double of `torch.cuda.Event` that says a quarter of a second passed."""

    log: list[str] = []  # noqa: RUF012 - shared on purpose, emptied by the test

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Note that it was recorded."""
        self.log.append("record")

    def synchronize(self) -> None:
        """Note that it was waited for."""
        self.log.append("wait")

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds, as torch's events tell."""
        return 250.0


def test_the_host_stopwatch_measures_wall_time() -> None:
    watch, began = HostStopwatch(), time.perf_counter()
    watch.start()
    watch.stop()
    assert 0 <= watch.seconds() <= time.perf_counter() - began


def test_event_time_is_in_seconds_on_its_own_card() -> None:
    Event.log = log = []

    @contextmanager
    def current() -> Iterator[None]:
        log.append("enter")
        yield
        log.append("leave")

    watch = EventStopwatch(Event, current)
    watch.start()
    watch.stop()
    assert watch.seconds() == 0.25
    assert log == ["enter", "leave", "enter", "record", "leave", "enter", "record", "leave", "wait"]
