"""Blocks of spans are drained once; a run is the slope of spans, whatever a clock adds to each or leaves out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from stackproof.base.statistics import median_interval
from stackproof.device.devices import HOST
from stackproof.device.kinds import Host, HostStopwatch
from stackproof.probes import clock, spans
from stackproof.probes.spans import SPAN_S, Sampler, Slope


class Scripted(Host):
    """A test double whose clock tells the times of a script, one a sample, and the last one for ever after."""

    def stopwatch(self) -> HostStopwatch:
        return Watch()


class Watch(HostStopwatch):
    """A test double that counts waits."""

    script: list[float] = []  # noqa: RUF012 - set by each test
    read = 0
    waits = 0
    pending = 0

    def start(self) -> None:
        """Nothing happens."""

    def stop(self) -> None:
        Watch.pending += 1

    def seconds(self) -> float:
        Watch.waits += bool(Watch.pending)
        Watch.pending = 0
        Watch.read += 1
        return Watch.script[min(Watch.read, len(Watch.script)) - 1]


def scripted(*script: float) -> Sampler:
    Watch.script, Watch.read, Watch.waits, Watch.pending = list(script), 0, 0, 0
    return Sampler(Scripted("cpu", 0), lambda: None)


def test_short_runs_are_repeated_until_the_clock_can_tell() -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1

    sampler = Sampler(HOST, run)
    sampler.fit(1e-6)
    assert sampler.number >= SPAN_S / 1e-6
    (seconds,) = sampler.block(1)
    assert calls == sampler.number
    assert seconds < SPAN_S


def test_a_block_waits_once() -> None:
    sampler = scripted(1e-3)
    assert sampler.block(8) == [1e-3] * 8
    assert Watch.waits == 1


class Delayed(list[int]):
    """A test double of lengths, before each of which the host is busy with something else."""

    def __iter__(self) -> Iterator[int]:
        for runs in super().__iter__():
            time.sleep(5e-3)
            yield runs


def test_what_a_host_leaves_between_spans_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, queued = Sampler(HOST, lambda: time.sleep(5e-3)), itertools.count(0.0, 0.5)
    sampler.spans(Delayed([1, 1, 1, 1]))
    whole, inside, _, idle = sampler.blocks[-1]
    assert idle >= 0.02 and inside + idle <= whole + 1e-3
    assert clock.queued() >= 0
    monkeypatch.setattr(clock, "queued", lambda: next(queued))
    sampler.spans([1, 1, 1, 1])
    assert 0.5 <= sampler.blocks[-1][3]


@pytest.mark.parametrize("off", [0.0, 5e-6, -15e-6])
def test_what_a_clock_adds_to_each_span_or_leaves_out_drops_out_and_shows(off: float) -> None:
    lengths = [0, 1, 2, 4, 8] * 9
    slope = Slope(lengths, [2e-6 + off + 1e-3 * runs * (1 + 0.01 * (at % 7)) for at, runs in enumerate(lengths)])
    assert median_interval(slope.seconds).median == pytest.approx(1.03e-3, rel=1e-3)
    if off < 0:
        with pytest.raises(clock.ClockWrongError, match=r"a span of no runs took -13\.0 us"):
            slope.require_believable()
    else:
        assert slope.require_believable()["span of no runs, s"] == pytest.approx(2e-6 + off)


def test_energy_is_of_the_same_span_as_the_seconds_where_that_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = itertools.count(0.0, 14.0)
    sampler = Sampler(HOST, lambda: None, energy=lambda: next(drawn))
    for least in (60.0, 0.0):
        monkeypatch.setattr(spans, "_COUNTED_S", least)
        monkeypatch.setattr(spans, "_COUNTED_IN_ALL_S", least)
        sampler.spans([0, 1, 2, 4])
        figures = spans.energy(sampler)
        assert bool(figures) is not bool(least)
    assert figures == {"joules of a run": 2.0, "watts": pytest.approx(14.0 / sampler.drawn[1])}


def test_a_block_has_as_much_of_a_cycle_as_there_is_room_for() -> None:
    sampler = Sampler(HOST, lambda: None, most=16)
    assert sampler.lengths(1e-2) == [0, 1, 2, 4, 8]
    assert sampler.lengths(0.2) == [0, 1, 2]
    assert sampler.lengths(0.6) == [0, 1, 2]
    assert sampler.lengths(60.0) == [0, 1]
    sampler.most = 4
    assert sampler.lengths(1e-2) == [0, 1, 2]
