"""What a bisection says: its words, its exit codes, the record, the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from stackproof.extras.bisect import outcome as report
from stackproof.extras.bisect.evidence import Blame, Settled, SetWord
from stackproof.extras.bisect.outcome import NOT_REPRODUCED, BisectOutcome, BisectWord, Culprit
from stackproof.extras.bisect.search import FirstBad, SetTest
from stackproof.record import reading, records, writer
from stackproof.record.records import Record, Verdict

ALONE = Blame(("numpy",), SetWord.BAD, SetWord.GOOD)


def culprit(blame: Blame = ALONE, guilty: FirstBad | None = None) -> Culprit:
    """Return a culprit with an effect of 5 %."""
    return Culprit("numpy 2.1 -> 2.2", blame, "hold numpy 2.1", (0.05, 0.05), 0.01, guilty)


def told(outcome: BisectOutcome, tmp_path: Path) -> Record:
    """Return the record of an outcome as it is read again."""
    record = Record("bisect", "cpu", "2026-01-01T00:00:00.000+00:00")
    outcome.into(record, 90.0)
    records.write(record, tmp_path / "record.json")
    return reading.read(tmp_path / "record.json")


def test_a_proved_culprit_passes_with_its_effect_and_remedy(tmp_path: Path) -> None:
    unresolved = SetTest(frozenset({"torch"}), Settled(SetWord.UNRESOLVED, 1, "does not import"), (), 5.0)
    tested = SetTest(frozenset({"numpy"}), Settled(SetWord.BAD, 2), (0.05, 0.05), 40.0)
    outcome = BisectOutcome(
        BisectWord.FOUND, "every culprit is proved", "gemm::time slower: +5.1 %", [culprit()], [tested, unresolved],
        ["numpy 2.1 -> 2.2", "torch 2.14 -> 2.15"]
    )  # fmt: skip
    record = told(outcome, tmp_path)
    assert record.verdict is Verdict.PASSED and outcome.exit_code == 0
    assert report.headline(record) == "FOUND: numpy 2.1 -> 2.2"
    assert record.checks[1].reason == (
        "on the good side it is bad, +5.1 % [+3.7 %, +6.6 %]; the bad side without it is good"
    )
    assert record.checks[2].reason == "torch: does not import" and record.checks[2].verdict is Verdict.SKIPPED
    console = Console(record=True, width=200)
    report.show(record, console)
    page = report.markdown(record)
    for text in (console.export_text(), page):
        assert "hold numpy 2.1" in text and "2 of sets, 3 launches after the confirmation, 1.5 min" in text
    assert "- torch 2.14 -&gt; 2.15" in page and 'failures="0" errors="0"' in writer.junit(record)


@pytest.mark.parametrize(
    ("blame", "words"),
    [
        (Blame(("a", "b"), SetWord.BAD, SetWord.GOOD), "none of them is bad without the others: an interaction"),
        (Blame(("a",), SetWord.BAD, SetWord.BAD), "without it is bad, because there is another"),
        (Blame(("a",), SetWord.UNRESOLVED, SetWord.GOOD), "on the good side it is unresolved"),
    ],
)
def test_what_was_proved_of_a_culprit_is_said(blame: Blame, words: str) -> None:
    assert words in culprit(blame).sentence()


def test_failures_in_either_half_of_the_proof_are_told() -> None:
    found = replace(culprit(), noise=0.0, failed={"alone": (2, 2), "without": (0, 10)})
    assert found.sentence() == (
        "on the good side it is bad (failed in 2 of 2 runs); the bad side without it is good "
        "(failed in 0 of 10 runs; a failure in 26% of them or more would have shown, 95 % sure)"
    )
    assert found.figures() == {
        "alone": "bad", "without": "good", "alone, failed": 2, "alone, runs": 2, "without, failed": 0, "without, runs": 10
    }  # fmt: skip
    rarer = replace(found, blame=replace(ALONE, without=SetWord.BAD), failed={"without": (1, 40)})
    assert "without it is bad (failed in 1 of 40 runs), because there is another" in rarer.sentence()


def test_commits_that_cannot_be_told_apart_are_not_proved() -> None:
    guilty = FirstBad(("a" * 40, "b" * 40), 0.991, 7, 20, {"a" * 40: "does not build"})
    one = culprit(guilty=guilty)
    assert not one.proved and culprit(guilty=FirstBad(("a" * 40,), 0.99, 7, 20, {})).proved
    assert f"one of {'a' * 40}, {'b' * 40}, 99.1% sure among 20 after 7 launches; 1 could not be run" in one.sentence()


def test_what_is_named_is_the_commit_inside_the_change() -> None:
    commit = replace(culprit(guilty=FirstBad(("a" * 40,), 0.99, 4, 6, {})), subjects={"a" * 40: "Step 7"})
    assert commit.name == "commit aaaaaaaaaa (Step 7) of numpy 2.1 -> 2.2"


@pytest.mark.parametrize(
    ("word", "code", "verdict"),
    [
        (BisectWord.NOT_REPRODUCED, NOT_REPRODUCED, Verdict.INCONCLUSIVE),
        (BisectWord.GOOD_TURNED_BAD, 6, Verdict.INCONCLUSIVE),
        (BisectWord.INTERRUPTED, 130, Verdict.INTERRUPTED),
    ],
)
def test_every_other_end_has_its_word_and_its_code(
    tmp_path: Path, word: BisectWord, code: int, verdict: Verdict
) -> None:
    outcome = BisectOutcome(word, "the ends are alike", immovable=["driver: 1 -> 2"], notes=["a note"])
    record = told(outcome, tmp_path)
    assert (outcome.exit_code, record.verdict) == (code, verdict)
    assert report.headline(record) == f"{word.value}: the ends are alike"
    assert "driver: 1 -&gt; 2" in report.markdown(record) and "a note" in report.markdown(record)
    assert json.loads((tmp_path / "record.json").read_text())["provenance"]["bisect"] == word.value


def test_an_unproved_culprit_is_inconclusive(tmp_path: Path) -> None:
    outcome = BisectOutcome(
        BisectWord.UNPROVED, "not all of it could be proved", "gemm::time slower: +5 %",
        [culprit(Blame(("a",), SetWord.BAD, SetWord.UNRESOLVED))]
    )  # fmt: skip
    record = told(outcome, tmp_path)
    assert record.verdict is Verdict.INCONCLUSIVE and outcome.exit_code == 6
    assert report.headline(record) == "UNPROVED: numpy 2.1 -> 2.2"


def test_two_culprits_are_proved_together(tmp_path: Path) -> None:
    first = culprit(Blame(("a",), SetWord.BAD, SetWord.BAD))
    record = told(BisectOutcome(BisectWord.FOUND, "every culprit is proved", "slower", [first, culprit()]), tmp_path)
    assert record.verdict is Verdict.PASSED


def test_an_interaction_is_not_claimed_where_parts_could_not_be_tested() -> None:
    several = replace(culprit(Blame(("a", "b"), SetWord.BAD, SetWord.GOOD)), open_parts=2)
    assert not several.proved
    assert "2 sets of some of them could not be tested" in several.sentence()
    assert "an interaction" not in several.sentence()
