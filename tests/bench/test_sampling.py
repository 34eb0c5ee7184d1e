"""Warming up until time settles, sampling until the noise target or the cap, blocks that are drained once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from stackproof.bench import sampling
from stackproof.bench.sampling import sample, warm_up
from stackproof.bench.subjects import Budget
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device, HostStopwatch
from stackproof.probes import clock
from stackproof.probes.clock import Spans, Turn
from stackproof.probes.spans import Sampler
from stackproof.record.checks import CheckFailed, CheckInconclusive

from ..probes.test_spans import scripted


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


def test_sampling_ends_at_the_noise_target() -> None:
    steady = scripted(*[1e-6, 0.1] * 30)
    taken = sample(steady, Budget(noise=0.01, seconds=60.0, least=20), took=1.5).seconds
    assert 20 <= len(taken) < 30


def test_sampling_of_noise_ends_at_the_cap() -> None:
    noisy = [1e-3, 5e-3] * 200
    began = time.perf_counter()
    taken = sample(scripted(*noisy), Budget(noise=0.001, seconds=0.2, least=20, most=100_000), took=1e-3)
    assert time.perf_counter() - began < 5
    assert taken.spans[:4] == [1e-3, 5e-3, 1e-3, 5e-3]
    assert taken.lengths[:6] == [0, 1, 2, 4, 8, 0]


def test_sampling_never_takes_more_than_allowed() -> None:
    taken = sample(scripted(*[1e-3, 5e-3, 1e-3] * 200), Budget(noise=0.0, seconds=60.0, least=10, most=100), took=1e-3)
    assert 100 <= len(taken.seconds) < 200


def test_a_clock_that_leaves_something_out_of_each_sample_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(noise=0.0, seconds=2.0, least=10)
    sampler = Sampler(HOST, lambda: time.sleep(1e-3))
    sample(sampler, budget, took=1e-3)
    own = HostStopwatch.seconds
    monkeypatch.setattr(HostStopwatch, "seconds", lambda watch: own(watch) * 0.97)
    sampler.blocks.clear()
    with pytest.raises(clock.ClockWrongError, match="add up to 9.* of the time by the host's raw counter"):
        sample(sampler, budget, took=1e-3)


@pytest.mark.parametrize(
    ("gap", "short", "right"), [(25e-6, 0.0, True), (25e-6, 30e-6, False), (90e-6, 0.0, True), (2e-6, 30e-6, False)]
)
def test_marks_between_spans_may_take_what_they_take_in_a_span_of_no_runs(
    gap: float, short: float, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, lengths = Sampler(HOST, lambda: None), [0, 1, 2, 4, 8] * 12
    spans = [gap - short + 5e-4 * runs for runs in lengths]
    whole = sum(spans) + len(lengths) * (gap + short)

    def block(*_: object) -> list[float]:
        sampler.blocks.append((whole, sum(spans), len(spans), 0.0))
        return spans

    monkeypatch.setattr(sampler, "spans", block)
    monkeypatch.setattr(sampler, "lengths", lambda _: lengths)
    budget = Budget(noise=0.0, seconds=1.0, least=90)
    if right:
        assert sample(sampler, budget, took=5e-4).empty == pytest.approx(gap)
    else:
        with pytest.raises(clock.ClockWrongError, match="add up to"):
            sample(sampler, budget, took=5e-4)


def test_a_clock_that_leaves_something_out_after_a_while_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, factors = Sampler(HOST, lambda: None), itertools.chain([1.0] * 3, itertools.repeat(0.97))

    def block(*_: object) -> list[float]:
        sampler.blocks.append((0.4, 0.4 * next(factors), 2, 0.0))
        return [2e-6, 0.4]

    monkeypatch.setattr(sampler, "spans", block)
    monkeypatch.setattr(sampler, "lengths", lambda _: [0, 1])
    with pytest.raises(clock.ClockWrongError, match="add up to 97"):
        sample(sampler, Budget(noise=0.0, seconds=1.0, most=6), took=0.4)


@pytest.mark.parametrize(
    ("idle", "ends"),
    [
        (
            [0.012] * 4,
            pytest.raises(CheckInconclusive, match=r"up to 97.1%.* so much that 3.0% may have passed between"),
        ),
        ([0.004] * 4, pytest.raises(clock.ClockWrongError, match="leaves something out of each")),
        # One block that others stretched does not excuse a clock in all others.
        ([0.1, 0.004, 0.004, 0.004], pytest.raises(clock.ClockWrongError, match="leaves something out of each")),
    ],
)
def test_what_a_busy_host_may_have_left_between_samples_is_held_against_no_clock(
    idle: list[float], ends: AbstractContextManager[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, left = Sampler(HOST, lambda: None), itertools.cycle(idle)

    def block(*_: object) -> list[float]:
        sampler.blocks.append((0.4, 0.388, 2, next(left)))
        return [2e-6, 0.388]

    monkeypatch.setattr(sampler, "spans", block)
    monkeypatch.setattr(sampler, "lengths", lambda _: [0, 1])
    with ends:
        sample(sampler, Budget(noise=0.0, seconds=1.0, most=4), took=0.4)


_ODD = 1.00037  # whole milliseconds are a lie of their own


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    sampling.calibrate.cache_clear()
    yield
    sampling.calibrate.cache_clear()


def spans(single: float, double: float) -> Spans:
    single, double = single * _ODD, double * _ODD
    return Spans(4, [Turn(0.0, single, 0.0, single)] * 3, [Turn(0.0, double, 0.0, double)] * 3)


def telling(monkeypatch: pytest.MonkeyPatch, *found: Spans) -> list[Device]:
    """Let the timekeeper find these spans, one a call; return who was asked."""
    asked: list[Device] = []

    def measured(device: Device, _: object) -> Spans:
        asked.append(device)
        return found[min(len(asked), len(found)) - 1]

    monkeypatch.setattr(clock, "measure", measured)
    monkeypatch.setattr(clock, "products", lambda _: None)
    monkeypatch.setattr(clock, "lasting", lambda *_: 1)
    return asked


def test_a_true_clock_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = telling(monkeypatch, spans(1.0, 2.0))
    assert sampling.calibrate(HOST)["calibration.factor"] == pytest.approx(2.0)
    sampling.calibrate(HOST)
    assert len(asked) == 1


def test_one_stretched_comparison_is_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = telling(monkeypatch, spans(1.0, 5.0), spans(1.0, 2.0))
    assert sampling.calibrate(HOST)["calibration.factor"] == pytest.approx(2.0)
    assert len(asked) == 2


def test_a_clock_that_lies_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    telling(monkeypatch, spans(1.0, 1.0))
    with pytest.raises(CheckFailed, match="1.00 times as long"):
        sampling.calibrate(HOST)
