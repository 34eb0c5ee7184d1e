"""Rates: now, before, and a flag only where a change is larger than its noise; in the direction that people see."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.history.timeline import History, entries, flagged, histories
from stackproof.record.records import Record

from . import making


def told(*records: Record) -> list[History]:
    """Return the histories of records."""
    return histories(entries({Path(str(number)): record for number, record in enumerate(records)}))


def with_driver(day: float, driver: str, seconds: float, noise: float = 0.005, **changed: str) -> Record:
    """Return a record of a day with a driver and a speed."""
    row = making.figure(seconds, samples=making.samples(seconds, seed=int(day), noise=noise), **changed)
    return making.with_facts(making.record(day, row), {"driver.nvidia-smi": driver})


def test_a_loss_with_a_driver_is_flagged_and_explained() -> None:
    (history,) = told(with_driver(0, "550.1", 1e-3), with_driver(1, "560.1", 1.12e-3))
    (step,) = history.changes
    assert step.ratio == pytest.approx(1 / 1.12, rel=0.005)
    assert step.worse
    assert step.after.because == "driver: nvidia-smi: 550.1 -> 560.1"


def _busy(record: Record) -> Record:
    """Note that others used the host."""
    for row in record.measurements:
        row.note = "busy host: others used 60% of its cores"
    return record


def test_a_busy_host_is_no_change_of_the_stack() -> None:
    slow = _busy(with_driver(1, "560.1", 1.5e-3))
    (history,) = told(with_driver(0, "550.1", 1e-3), slow)
    assert history.changes == []
    (series,) = history.series
    assert series.last is not None and series.last.busy and series.last.worse
    (history,) = told(with_driver(0, "550.1", 1e-3), slow, with_driver(2, "560.1", 1e-3))
    (series,) = history.series
    assert series.last is not None and not series.last.busy
    assert series.last.ratio == pytest.approx(1, rel=0.01)


def test_a_gain_is_flagged_as_one() -> None:
    (history,) = told(with_driver(0, "550.1", 1.12e-3), with_driver(1, "560.1", 1e-3))
    (step,) = history.changes
    assert step.ratio > 1
    assert not step.worse


@pytest.mark.parametrize(
    ("seconds", "noise"),
    [(1e-3, 0.005), (1.04e-3, 0.005), (1.12e-3, 0.5)],
    ids=["nothing changed", "less than the share", "within the noise"],
)
def test_what_is_no_change_is_not_flagged(seconds: float, noise: float) -> None:
    (history,) = told(with_driver(0, "550.1", 1e-3, noise), with_driver(1, "560.1", seconds, noise))
    assert history.changes == []
    (series,) = history.series
    assert series.last is not None
    assert not flagged(series.last)


def test_a_loss_that_a_later_gain_hides_stays_flagged() -> None:
    speeds = (1e-3, 1.12e-3, 1e-3)
    (history,) = told(*(with_driver(day, f"{day}.1", seconds) for day, seconds in enumerate(speeds)))
    assert [step.worse for step in history.changes] == [False, True]


def test_places_are_never_compared() -> None:
    slow = making.with_facts(with_driver(1, "550.1", 5e-3), {"host": "slow"})
    found = told(with_driver(0, "550.1", 1e-3), slow)
    assert len(found) == 2
    assert [history.changes for history in found] == [[], []]


def test_versions_are_never_compared() -> None:
    (history,) = told(with_driver(0, "550.1", 1e-3), with_driver(1, "560.1", 5e-3, version="2"))
    (series,) = history.series
    assert (series.version, len(series.points), series.last) == ("2", 1, None)


def test_nothing_comes_of_nothing() -> None:
    assert told() == []
