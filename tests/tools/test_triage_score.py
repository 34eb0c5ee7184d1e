"""The score: which half a log belongs to, what counts as right, wrong, unknown and a false alarm, and the page that says so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stackproof.triage import logs, reports, rules
from stackproof.triage.reports import Report
from tools import triage_score
from tools.triage_score import CLEAN, FAILING, HELD_OUT, WORK, Outcome, Specimen

MEMORY = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity)\n"
END = "***** train metrics *****\n"


def specimen(kind: str, *expect: str) -> Specimen:
    """Return a log that stands in no index."""
    return Specimen("x.log", "https://example.org/1", kind, expect, "x")


def judged(folder: Path, text: str) -> Report:
    """Triage a text."""
    path = folder / "x.log"
    path.write_text(text, encoding="utf-8")
    return reports.report(logs.named([path]))


@pytest.mark.parametrize(
    ("row", "text", "outcome"),
    [
        (specimen(FAILING, "cuda-out-of-memory"), MEMORY, Outcome.RIGHT),
        (specimen(FAILING, "disk-full"), MEMORY, Outcome.WRONG),
        (specimen(FAILING, "raised:KeyError"), "KeyError: 'x'\n", Outcome.RIGHT),
        (specimen(FAILING, "disk-full"), "KeyError: 'x'\n", Outcome.UNKNOWN),
        (specimen(FAILING, "disk-full"), "step 1\n", Outcome.UNKNOWN),
        (specimen(FAILING, "disk-full"), END, Outcome.FALSE_CLEAN),
        (specimen(CLEAN, "clean"), END, Outcome.RIGHT),
        (specimen(CLEAN, "clean"), "step 1\n", Outcome.NOT_SHOWN),
        (specimen(CLEAN, "clean"), MEMORY, Outcome.FALSE_ALARM),
    ],
)
def test_outcomes(tmp_path: Path, row: Specimen, text: str, outcome: Outcome) -> None:
    assert triage_score.outcome(row, judged(tmp_path, text)) is outcome


def test_corpus_is_large_enough_and_in_two_halves() -> None:
    rows = triage_score.load()
    counts = Counter((row.kind, row.half) for row in rows)
    assert sum(counts[FAILING, half] for half in (WORK, HELD_OUT)) >= 200
    assert sum(counts[CLEAN, half] for half in (WORK, HELD_OUT)) >= 60
    assert min(counts.values()) >= 20
    assert len({row.link for row in rows}) == len(rows)
    assert {row.name for row in rows} == {path.name for path in triage_score.FOLDER.glob("*.log")}


def test_no_signature_rests_on_a_log_that_is_held_out() -> None:
    held = {row.link for row in triage_score.load() if row.half == HELD_OUT}
    assert held & {row.link for row in rules.load_all()} == set()


def test_half_to_work_with_keeps_what_was_reached() -> None:
    counts = triage_score.count(row for row in triage_score.load() if row.half == WORK)
    assert counts[FAILING][Outcome.FALSE_CLEAN] == 0
    assert counts[CLEAN][Outcome.FALSE_ALARM] == 0
    assert counts[FAILING][Outcome.RIGHT] >= 0.9 * counts[FAILING].total()


def test_page_says_how_often(tmp_path: Path) -> None:
    text = "a\n<!-- score: begin -->\n<!-- score: end -->\nb\n"
    once = triage_score.document(text, ["| x |"], "abc")
    assert "On commit abc; the held-out half was scored 1 times." in once
    assert "scored 2 times" in triage_score.document(once, ["| x |"], "abd")
    assert once.startswith("a\n")
    assert once.endswith("b\n")


def test_a_share_lies_in_wilsons_interval() -> None:
    assert triage_score.share_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-3)
    assert triage_score.share_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3)
    assert triage_score.share_interval(0, 0) == (0.0, 1.0)
