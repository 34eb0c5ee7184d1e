"""Warming up until time settles, sampling until the noise target or the cap, blocks that are drained once."""

from __future__ import annotations

import time

import pytest

from stackproof.bench.sampling import SPAN_S, Sampler, sample, warm_up
from stackproof.bench.subjects import Budget
from stackproof.device.devices import HOST
from stackproof.device.kinds import Host, Stopwatch


class Scripted(Host):
    """A test double whose clock tells the times of a script, one a sample, and the last one for ever after."""

    def stopwatch(self) -> Stopwatch:
        """A watch on the script."""
        return Watch()


class Watch(Stopwatch):
    """A test double that counts waits."""

    script: list[float] = []  # noqa: RUF012 - set by each test
    read = 0
    waits = 0
    pending = 0

    def start(self) -> None:
        """Nothing happens."""

    def stop(self) -> None:
        """A sample is queued."""
        Watch.pending += 1

    def seconds(self) -> float:
        """Wait for what is queued, and tell the next time of the script."""
        Watch.waits += bool(Watch.pending)
        Watch.pending = 0
        Watch.read += 1
        return Watch.script[min(Watch.read, len(Watch.script)) - 1]


def scripted(*script: float) -> Sampler:
    """Return a sampler on a device with this script."""
    Watch.script, Watch.read, Watch.waits, Watch.pending = list(script), 0, 0, 0
    return Sampler(Scripted("cpu", 0), lambda: None)


def test_warm_up_lasts_until_time_settles() -> None:
    falling = [0.1 * 0.97**number for number in range(60)]
    warmth = warm_up(scripted(*falling), seconds=60.0)
    assert warmth.settled
    assert warmth.runs >= 60


def test_warm_up_of_steady_work_ends_early() -> None:
    sampler = Sampler(HOST, lambda: time.sleep(1e-3))
    warmth = warm_up(sampler, seconds=20.0)
    assert warmth.runs >= 10
    assert warmth.seconds >= 0.3


def test_warm_up_of_long_runs_takes_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "spent", lambda _: 17.1)
    warmth = warm_up(scripted(9.0, 2.0, 2.0, 2.1, 2.0), seconds=60.0)
    assert (warmth.runs, warmth.settled, warmth.took) == (5, True, 2.0)


def test_warm_up_that_never_settles_says_so() -> None:
    restless = ([1e-3] * 5 + [2e-3] * 5) * 10_000
    sampler = scripted(*restless)
    sampler.run = lambda: time.sleep(1e-4)  # the script must outlast the cap on a fast host too
    warmth = warm_up(sampler, seconds=0.4)
    assert not warmth.settled
    assert warmth.change >= 0.5


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


def test_sampling_ends_at_the_noise_target() -> None:
    taken = sample(scripted(0.1), Budget(noise=0.01, seconds=60.0, least=20))
    assert 20 <= len(taken) < 30


def test_sampling_of_noise_ends_at_the_cap() -> None:
    noisy = [1e-3, 5e-3] * 200
    began = time.perf_counter()
    taken = sample(scripted(*noisy), Budget(noise=0.001, seconds=0.2, least=20, most=100_000))
    assert time.perf_counter() - began < 5
    assert taken[:4] == [1e-3, 5e-3, 1e-3, 5e-3]


def test_sampling_never_takes_more_than_allowed() -> None:
    noisy = [1e-3, 5e-3] * 200
    assert len(sample(scripted(*noisy), Budget(noise=0.0, seconds=60.0, least=10, most=100))) == 100
