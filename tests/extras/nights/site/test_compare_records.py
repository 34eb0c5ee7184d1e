"""Two records: what differs first, ratios with intervals, and how many minimum effects each is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from stackproof.extras.nights.site import compare_records
from stackproof.record.records import Figure, Record

from . import making
from .making import TODAY


def run(factor: float = 1.0, stack: str = "cpu", spread: float = 0.001) -> Record:
    """Return a run whose one figure takes so many times the seconds, known to within `spread`."""
    record = making.suites(stack, TODAY)
    row = record.measurements[0]
    seconds = 2.0 * factor
    bounds: dict[str, Figure] = {"low": seconds * (1 - spread), "high": seconds * (1 + spread)}
    return replace(record, measurements=[replace(row, value=seconds, samples=[seconds], figures=bounds)])


def test_a_ratio_has_the_noise_of_both() -> None:
    (one,) = compare_records.ratios(run(1.0, spread=0.003), run(1.1, spread=0.004))
    assert one.ratio == pytest.approx(1.1)
    assert math.log(one.high / one.ratio) == pytest.approx(0.005, rel=0.01)
    assert one.factor == pytest.approx(math.log(1.1) / math.log(1.05), rel=1e-6)


def test_within_noise_there_is_no_factor() -> None:
    (one,) = compare_records.ratios(run(1.0, spread=0.1), run(1.05, spread=0.1))
    assert one.factor == 0.0 and one.low < 1 < one.high


def test_a_card_has_its_own_effect() -> None:
    assert compare_records.effect(run(stack="cuda")) < compare_records.effect(run(stack="cpu"))
    (mixed,) = compare_records.ratios(run(stack="cuda"), run(1.1))
    (card,) = compare_records.ratios(run(stack="cuda"), run(1.1, stack="cuda"))
    assert mixed.factor < card.factor


def test_facts_that_explain_most_come_first() -> None:
    before, after = run(), run()
    before.provenance |= {"driver.x": "1", "commit": "a" * 40, "env.X": "1"}
    after.provenance |= {"driver.x": "2", "commit": "b" * 40}
    rows = compare_records.facts(before, after)
    assert [row[1] for row in rows] == ["driver.x", "env.X", "commit"]
    assert rows[1][2:] == ("1", "absent")


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_what_is_no_number_is_not_compared(value: float) -> None:
    record = run()
    odd = replace(record, measurements=[replace(record.measurements[0], value=value, samples=[value], figures={})])
    assert compare_records.ratios(record, odd) == []
