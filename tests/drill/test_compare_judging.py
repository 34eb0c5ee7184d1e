"""A run is held against its row: every way in which a fault can go uncaught is a failing row with its own words."""

from __future__ import annotations

import pytest

from stackproof.drill import compare
from stackproof.drill.run import DrilledRun
from stackproof.drill.table import Symptoms
from stackproof.record.records import Check, Verdict

from . import making
from .making import CAUGHT, GREEN, ended, fault, red

OTHER = "rng/rng::independent"
SKIPPED = Check(OTHER, Verdict.SKIPPED, "no", 0.0)


def test_a_fault_that_was_caught_passes_with_the_words_of_the_check() -> None:
    check = compare.compare_fault(fault(), ended())
    assert (check.id, check.verdict) == ("compute/some-fault", Verdict.PASSED)
    assert check.reason == f"{CAUGHT} failed: bits differ"
    assert check.figures["green"] == 1


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (ended(fired=0), "the fault never fired"),
        (ended({CAUGHT: GREEN, OTHER: GREEN}, 0), f"NOT CAUGHT: {CAUGHT} passed"),
        (ended({CAUGHT: red("no memory"), OTHER: GREEN}), "red for another reason: 'differ' is not in: no memory"),
        (ended({OTHER: GREEN}), f"{CAUGHT} did not run"),
        (ended({CAUGHT: red("differ"), OTHER: red("too")}), f"{OTHER} should have stayed green and failed: too"),
        (ended({CAUGHT: red("differ")}), f"{OTHER} should have stayed green and did not run"),
        (ended({CAUGHT: red("differ"), OTHER: SKIPPED}), "should have stayed green and skipped"),
        (ended({CAUGHT: red("differ"), OTHER: GREEN, "guard: rng": red("0")}), "guard: rng is red too"),
        (ended(exit_code=5), "ended with exit code 5; exit code 1 was expected"),
        (ended(exit_code=None), "did not end by its deadline"),
        (ended({}, 2), "it printed last: its last line"),
    ],
)
def test_whatever_is_not_as_the_row_says_fails(run: DrilledRun, words: str) -> None:
    check = compare.compare_fault(fault(), run)
    assert check.verdict is Verdict.FAILED
    assert words in check.reason


def test_a_run_without_a_fault_has_run_and_has_nothing_red() -> None:
    wanted = (CAUGHT, OTHER)
    clean = {CAUGHT: GREEN, OTHER: GREEN}
    assert compare.compare_clean("clean/x", wanted, ended(clean, 0)).verdict is Verdict.PASSED
    for checks, code, words in (
        ({CAUGHT: GREEN, OTHER: red("bits differ")}, 1, f"a false alarm: {OTHER} failed: bits differ"),
        ({CAUGHT: GREEN}, 0, f"{OTHER} did not pass"),
        ({CAUGHT: GREEN, OTHER: SKIPPED}, 0, f"{OTHER} did not pass"),
        (clean, 6, "exit code 6; without a fault it must be exit code 0"),
    ):
        check = compare.compare_clean("clean/x", wanted, ended(checks, code))
        assert (check.verdict, words in check.reason) == (Verdict.FAILED, True), check.reason


def test_folders_of_one_run_are_not_in_its_command() -> None:
    run = ended()
    run.command += ["--suite", "rng", "--json", "/tmp/x/record.json", "--results", "/tmp/x/results"]
    assert compare.compare_fault(making.fault(), run).figures["command"] == "verify --suite rng"


def test_what_makes_a_figure_doubtful_has_to_be_noted() -> None:
    row = fault(expected=Symptoms({}, 0, (OTHER,), {"gemm-float32": "drifted"}))
    run = ended({OTHER: GREEN}, 0)
    assert "NOT NOTED: 'drifted'" in compare.compare_fault(row, run).reason
    run.notes = {"gemm-float32": "drifted: by 40 %"}
    check = compare.compare_fault(row, run)
    assert (check.verdict, check.reason) == (Verdict.PASSED, "the figure of gemm-float32 is noted: drifted: by 40 %")
