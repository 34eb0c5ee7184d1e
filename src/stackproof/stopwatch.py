"""Time on a device: between two marks in the device's own order of work, read after the device has finished."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Stopwatch(ABC):
    """Times work on a device: seconds between `start` and `stop`, read after the device has finished."""

    @abstractmethod
    def start(self) -> None:
        """Mark the beginning in the device's own order of work."""

    @abstractmethod
    def stop(self) -> None:
        """Mark the end in the device's own order of work."""

    @abstractmethod
    def seconds(self) -> float:
        """Wait for the end mark and return the seconds between the two."""


class HostStopwatch(Stopwatch):
    """Wall-clock time: work on the CPU is done when its call returns."""

    def start(self) -> None:
        """Note the time."""
        self._begin = time.perf_counter()

    def stop(self) -> None:
        """Note the time."""
        self._end = time.perf_counter()

    def seconds(self) -> float:
        """Return the difference."""
        return self._end - self._begin


class EventStopwatch(Stopwatch):
    """Two timing events on one card; `event` makes one, `current` makes the card current for a block."""

    def __init__(self, event: Callable[..., Any], current: Callable[[], AbstractContextManager[None]]) -> None:
        self._current = current
        with current():
            self._events = [event(enable_timing=True) for _ in range(2)]

    def start(self) -> None:
        """Record the first event on the card's current stream."""
        self._record(0)

    def stop(self) -> None:
        """Record the second event on the card's current stream."""
        self._record(1)

    def seconds(self) -> float:
        """Wait for the second event; torch's events tell milliseconds."""
        self._events[1].synchronize()
        return float(self._events[0].elapsed_time(self._events[1])) / 1000

    def _record(self, which: int) -> None:
        with self._current():
            self._events[which].record()
