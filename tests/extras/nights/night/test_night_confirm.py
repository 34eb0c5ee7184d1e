"""What a night makes of a scan: what is suspected, what a gate makes of it, and which slowdowns fail the night."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from stackproof.extras.nights.drift.findings import PlaceDrift
from stackproof.extras.nights.night import night
from stackproof.record.records import Verdict
from tests.extras.nights.drift.nightly import BEGAN, Story, commit, gate, judged, kept, told

STEP = Story(code=(50, 0.1), count=52)
TONIGHT = (BEGAN + timedelta(days=51)).isoformat()


def drift(ratio: float | None = None, half: float = 0.01, story: Story = STEP) -> PlaceDrift:
    """Return what the nights tell, with a gate of both states where it saw this ratio."""
    seen = [gate(51, commit(49), commit(50), ratio, half)] if ratio else []
    return judged(told(story), seen)


def test_a_suspicion_is_listed_and_is_no_failure() -> None:
    found = night.scanned(drift())
    assert found.verdict is Verdict.PASSED
    assert (
        "52 nights of 1 figure: suspected: gemm-float32 (tiny), ratio: +10" in found.reason
        and ": code (" in found.reason
    )


@pytest.mark.parametrize(("count", "lacking"), [(1, "10 more nights"), (10, "1 more night ")])
def test_too_few_nights_are_said(count: int, lacking: str) -> None:
    found = night.scanned(drift(story=Story(count=count)))
    assert found.verdict is Verdict.SKIPPED and lacking in found.reason
    assert night.scanned(None).verdict is Verdict.SKIPPED


def test_tonight_s_place_alone_is_looked_at(tmp_path: Path) -> None:
    records = told(Story(count=12))
    kept(tmp_path, [*records, *told(Story(count=14, facts={"host": "other"}))])
    found = night.place_drift([tmp_path], "cuda", records[0].provenance)
    assert found is not None and (found.place.host, len(found.nights)) == ("box", 12)
    assert night.place_drift([tmp_path], "cuda", {"host": "third"}) is None


def test_the_surest_come_first_and_not_more_than_so_many() -> None:
    found = drift()
    assert night.surest(found, 4) == list(found.suspicions)
    assert night.surest(found, 0) == [] and night.surest(None, 4) == []


def test_a_slowdown_fails_the_night_that_confirmed_it_and_is_known_after() -> None:
    assert night.confirmed_slowdowns(drift(), TONIGHT).verdict is Verdict.PASSED
    fresh = night.confirmed_slowdowns(drift(1.1), TONIGHT)
    assert (
        fresh.verdict is Verdict.FAILED
        and "1 confirmed tonight: confirmed slower: gemm-float32 (tiny), ratio: +10.0 %" in fresh.reason
    )
    later = night.confirmed_slowdowns(drift(1.1), (BEGAN + timedelta(days=52)).isoformat())
    assert later.verdict is Verdict.KNOWN_ISSUE and "no gate has measured faster since" in later.reason


@pytest.mark.parametrize("size", [0.08, 0.015])
def test_a_lasting_slowdown_of_a_driver_fails_the_first_night_that_sees_it_alone(size: float) -> None:
    words = []
    for count in range(54, 62):
        found, tonight = judged(told(Story(driver=(50, size), count=count))), BEGAN + timedelta(days=count - 1)
        words.append(night.confirmed_slowdowns(found, tonight.isoformat()).verdict)
    first = words.index(Verdict.FAILED)
    assert set(words[:first]) <= {Verdict.PASSED} and set(words[first + 1 :]) == {Verdict.KNOWN_ISSUE}
