"""The page of the demonstration: what was planted, what the series did, and what nights said, the misses too."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.nights.drift import nights
from stackproof.record import records
from stackproof.record.records import Check, Verdict
from tests.extras.nights.drift.nightly import record
from tools.night_demonstration import page, story
from tools.night_demonstration.story import NightStory, Planted

STORY = NightStory(
    8, ("gemm-float32",), "gemm-float32", 1,
    (
        Planted(1, "none", "as it begins", 0, 0.8, "1.0"),
        Planted(4, "code", "a commit", 64, 0.8, "1.0"),
        Planted(6, "driver", "driver 2.0", 64, 0.4, "2.0"),
    ),
)  # fmt: skip


def kept(folder: Path) -> Path:
    """Write eight nights: today 10 % slower from the fourth on, both sides 50 % slower from the sixth; one suspicion was confirmed."""
    for day in range(1, 9):
        both = math.log(1.5) if day >= 6 else 0.0
        today = both + (math.log(1.1) if day >= 4 else 0.0)
        one = record(day, [math.exp(today)], [math.exp(both)], {nights.ANCHOR: "a" * 64})
        one.checks.append(
            Check("admission", Verdict.PASSED, "admitted", 0.0, {"launch 0, others' share": 0.3 if day < 3 else 0.1})
        )
        if day == 5:
            one.checks.append(Check("confirm::gemm-float32 ratio", Verdict.FAILED, "confirmed: +10.0 %", 1.0))
            one.verdict = Verdict.FAILED
        records.write(one, folder / f"2026010{day}T020000-night-x.record.json")
    return folder


def test_each_event_has_its_row(tmp_path: Path) -> None:
    text = page.told(kept(tmp_path), STORY)
    assert "| 4 | a commit | code | ratio | +10 % | night 5: confirmed |" in text
    assert "| 6 | driver 2.0 | driver | anchor | +50 % | **not found**: nothing was suspected |" in text
    assert "- night 5, gemm-float32 ratio: confirmed: +10.0 %" in text


def test_what_admission_would_have_left_out_is_said(tmp_path: Path) -> None:
    text = page.told(kept(tmp_path), STORY)
    assert "8 nights of one figure" in text and "2 of the 8 nights would have been left out" in text


def test_a_page_without_marks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(Refusal, match="add both lines"):
        page.write("x", tmp_path / "page.md")


def test_the_story_is_in_order() -> None:
    told = story.load()
    assert [one.night for one in told.event] == sorted({one.night for one in told.event})
    assert told.at(1) is told.event[0] and told.at(told.nights) is told.event[-1]
    assert {one.cause for one in told.event[1:]} <= set(page._MOVED)
