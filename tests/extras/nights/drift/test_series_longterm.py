"""How far a figure has come since the first anchor: what creeps, and what a new anchor would hide."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from stackproof.extras.nights.drift.findings import Drift
from stackproof.extras.nights.drift.series import ANCHOR, LongTerm
from stackproof.record.records import Record
from tests.extras.nights.drift.nightly import judged, record

NIGHTS, RENEWED = 120, 60


def story(today: Callable[[int], float], machine: Callable[[int], float], renewed: int = RENEWED) -> list[Record]:
    """Return nights whose anchor is made anew on one, from today's code of that night."""
    dice, found = random.Random(3), []
    for day in range(NIGHTS):
        anew = day >= renewed

        def side(level: float, day: int = day) -> list[float]:
            return [1e-3 * math.exp(level + machine(day) + dice.gauss(0, 0.003)) for _ in range(4)]

        facts = {ANCHOR: ("b" if anew else "a") * 64}
        found.append(record(day, side(today(day)), side(today(renewed) if anew else 0.0), facts))
    return found


def far(records: list[Record]) -> LongTerm:
    """Return what is said of the only figure."""
    place = judged(records)
    (found,) = place.long_terms
    slower = found.clear and found.size > 0
    headline = Drift((place,), ()).headline
    assert place.slowdowns or headline.startswith("DRIFTED: " if slower else "QUIET: ")
    assert (found.sentence in headline) is slower
    return found


@pytest.mark.parametrize("renewed", [RENEWED, NIGHTS])
def test_a_loss_that_creeps_is_stated_whatever_anchors_do(renewed: int) -> None:
    found = far(story(lambda day: 0.0005 * day, lambda _: 0.0, renewed))
    assert found.clear and found.size == pytest.approx(0.0005 * (NIGHTS - 6), abs=0.006)
    assert "slower than the first anchor on 2026-01-01" in found.sentence


def test_a_step_of_the_machine_long_ago_is_stated() -> None:
    found = far(story(lambda _: 0.0, lambda day: 0.04 * (day >= 20), NIGHTS))
    assert found.clear and found.size == pytest.approx(0.04, abs=0.006)


def test_quiet_nights_have_not_come_far() -> None:
    found = far(story(lambda _: 0.0, lambda _: 0.0))
    assert not found.clear and "within noise" in found.sentence


def test_few_nights_say_nothing() -> None:
    assert judged(story(lambda _: 0.0, lambda _: 0.0)[:19]).long_terms == []
