"""Rates: which neighbours differ, a row for each series, and no control characters from other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.extras.nights import rates
from stackproof.extras.nights.rates import History
from stackproof.history.timeline import entries
from stackproof.record import outline
from stackproof.record.records import Record
from tests.history import making


def histories_of(*records: Record) -> list[History]:
    return rates.histories(entries({Path(str(number)): record for number, record in enumerate(records)}))


def shown(*records: Record) -> str:
    return outline.text(rates.parts(histories_of(*records)))


def with_driver(day: float, driver: str, seconds: float, noise: float = 0.005, **changed: str) -> Record:
    row = making.figure(seconds, samples=making.samples(seconds, seed=int(day), noise=noise), **changed)
    return making.with_facts(making.record(day, row), {"driver.nvidia-smi": driver})


def test_a_loss_with_a_driver_is_flagged_and_explained() -> None:
    (history,) = histories_of(with_driver(0, "550.1", 1e-3), with_driver(1, "560.1", 1.12e-3))
    (step,) = history.changes
    assert step.ratio == pytest.approx(1 / 1.12, rel=0.005)
    assert step.worse
    assert step.after.because == "driver: nvidia-smi: 550.1 -> 560.1"


def _busy(record: Record) -> Record:
    for row in record.measurements:
        row.note = "busy host: others used 60% of its cores"
    return record


def test_a_busy_host_is_no_change_of_the_stack() -> None:
    slow = _busy(with_driver(1, "560.1", 1.5e-3))
    (history,) = histories_of(with_driver(0, "550.1", 1e-3), slow)
    assert history.changes == []
    (series,) = history.series
    assert series.steps[-1].busy and series.steps[-1].worse
    (history,) = histories_of(with_driver(0, "550.1", 1e-3), slow, with_driver(2, "560.1", 1e-3))
    (series,) = history.series
    assert not series.steps[-1].busy
    assert series.steps[-1].ratio == pytest.approx(1, rel=0.01)


def test_a_gain_is_flagged_as_one() -> None:
    (history,) = histories_of(with_driver(0, "550.1", 1.12e-3), with_driver(1, "560.1", 1e-3))
    (step,) = history.changes
    assert step.ratio > 1
    assert not step.worse


@pytest.mark.parametrize(
    ("seconds", "noise"),
    [(1e-3, 0.005), (1.04e-3, 0.005), (1.12e-3, 0.5)],
    ids=["nothing changed", "less than the share", "within the noise"],
)
def test_what_is_no_change_is_not_flagged(seconds: float, noise: float) -> None:
    (history,) = histories_of(with_driver(0, "550.1", 1e-3, noise), with_driver(1, "560.1", seconds, noise))
    assert history.changes == []
    (series,) = history.series
    assert not series.steps[-1].flagged


def test_a_loss_that_a_later_gain_hides_stays_flagged() -> None:
    speeds = (1e-3, 1.12e-3, 1e-3)
    (history,) = histories_of(*(with_driver(day, f"{day}.1", seconds) for day, seconds in enumerate(speeds)))
    assert [step.worse for step in history.changes] == [False, True]


def test_places_are_never_compared() -> None:
    slow = making.with_facts(with_driver(1, "550.1", 5e-3), {"host": "slow"})
    places = histories_of(with_driver(0, "550.1", 1e-3), slow)
    assert len(places) == 2
    assert [history.changes for history in places] == [[], []]


def test_versions_are_never_compared() -> None:
    (history,) = histories_of(with_driver(0, "550.1", 1e-3), with_driver(1, "560.1", 5e-3, version="2"))
    (series,) = history.series
    assert (series.version, len(series.points), series.steps) == ("2", 1, [])


def test_nothing_comes_of_nothing() -> None:
    assert histories_of() == []


def test_a_series_is_a_row_of_rates() -> None:
    slow = making.with_facts(making.record(1, making.figure(2.0, samples=[2.0] * 9)), making.NEW_DRIVER)
    text = shown(making.record(0, making.figure(1.0, samples=[1.0] * 9)), slow)
    assert "0.5 TFLOP/s" in text
    assert "-50.0%" in text
    assert "worse  gemm-float32 (tiny): 1.00 TFLOP/s -> 0.5 TFLOP/s; driver: nvidia-smi: 580.65.06" in text


def test_other_machines_do_not_steer_this_terminal() -> None:
    text = shown(making.record(0, host="\x1b[31mred", commit="\x07"))
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


def test_nothing_yet_is_said() -> None:
    assert "there are no figures yet" in shown()
