"""A clock is proved once a process; a busy host is given three attempts, a clock that lies fails them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stackproof.bench import sampling
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.probes import clock, timekeeping
from stackproof.probes.clock import Spans, Turn
from stackproof.record.checks import CheckFailed

_ODD = 1.00037  # whole milliseconds are a lie of their own


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Forget earlier proofs, and this test's."""
    sampling.calibrate.cache_clear()
    yield
    sampling.calibrate.cache_clear()


def spans(single: float, double: float) -> Spans:
    """Return turns of these seconds, done when synchronising returns."""
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
    kept = timekeeping.Kept(1, 1.0, 0.0)
    monkeypatch.setattr(timekeeping, "device_clock", lambda *_: kept)
    monkeypatch.setattr(timekeeping, "host_clock", lambda *_: kept)
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
