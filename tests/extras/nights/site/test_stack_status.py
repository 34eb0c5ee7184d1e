"""Stack by suite: what a cell says of records, and what a card says of a stack; nothing old, partial or rehearsed is green."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from stackproof.extras.nights.site import stack_status
from stackproof.extras.nights.site.stack_status import (
    MatrixCell,
    ProofState,
    StackMatrix,
    StackStatus,
    matrix,
    statuses,
)  # fmt: skip
from stackproof.record.records import Check, Figure, Record, Verdict
from tests.extras.nights.drift import nightly

from . import making
from .making import TODAY

GREEN, OLD = "#1a7f37", TODAY - timedelta(40)


def status_of(tmp_path: Path, *records: Record, stack: str = "cuda", nightly: Sequence[str] = ()) -> StackStatus:
    """Return how a stack stands after these records."""
    making.kept(tmp_path, records)
    runs = stack_status.read(stack_status.files([tmp_path]), [tmp_path]).runs
    found = statuses(matrix(runs, making.STACKS, making.SUITES, TODAY, nightly=nightly), ("sim",))
    return next(one for one in found if one.stack == stack)


def part(record: Record, *suites: str) -> Record:
    """Return a run of these suites alone."""
    return replace(record, checks=[check for check in record.checks if check.group in suites])


@pytest.mark.parametrize(
    ("records", "word", "said"),
    [
        ([making.suites("cuda", TODAY)], ProofState.PASSED, "4 of 4 suites passed, 2026-08-01"),
        ([part(making.suites("cuda", TODAY), "smoke")], ProofState.PARTLY, "1 of 4 suites passed, 2026-08-01"),
        ([making.suites("cuda", OLD), part(making.suites("cuda", TODAY), "smoke")], ProofState.PARTLY, "1 of 4 suites passed, 2026-08-01"),
        ([making.suites("cuda", TODAY, Verdict.KNOWN_ISSUE)], ProofState.KNOWN_ISSUE,
         "4 of 4 suites passed, 2026-08-01"),
        ([making.suites("cuda", TODAY, Verdict.FAILED)], ProofState.FAILED,
         "3 of 4 suites passed; failed: models, 2026-08-01"),
        ([making.suites("cuda", TODAY, rehearsed=True)], ProofState.REHEARSED,
         "0 of 4 suites passed, on a CPU, not on its device, 2026-08-01"),
        ([making.suites("cuda", OLD)], ProofState.STALE, "0 of 4 suites passed, 2026-06-22"),
        ([making.suites("cuda", TODAY, pinned=False)], ProofState.PASSED, "4 of 4 suites passed, unpinned, 2026-08-01"),
        ([], ProofState.NEVER, "0 of 4 suites passed"),
    ],
)  # fmt: skip
def test_a_stack_is_as_good_as_all_suites_of_a_night(
    tmp_path: Path, records: list[Record], word: ProofState, said: str
) -> None:
    found = status_of(tmp_path, *records)
    assert (found.word, ", ".join((found.scope, *found.remarks))) == (word, said)


def test_the_day_is_that_of_the_oldest_proof(tmp_path: Path) -> None:
    before = making.suites("cuda", TODAY - timedelta(5))
    assert status_of(tmp_path, before, part(making.suites("cuda", TODAY), "smoke")).day == str(TODAY - timedelta(5))


def test_suites_that_no_night_runs_are_not_asked_for(tmp_path: Path) -> None:
    run = part(making.suites("cuda", TODAY), "smoke", "operators")
    assert status_of(tmp_path / "a", run, nightly=("smoke", "operators")).word is ProofState.PASSED
    bad = part(making.suites("cuda", TODAY, Verdict.FAILED), "models")
    assert status_of(tmp_path / "b", run, bad, nightly=("smoke", "operators")).word is ProofState.FAILED


def test_a_stack_that_was_only_measured_has_run(tmp_path: Path) -> None:
    nights = nightly.told(nightly.Story(2))
    found = status_of(tmp_path, *nights, stack=nights[0].stack)
    assert found.word is ProofState.UNVERIFIED and found.run is not None


def cells_of(tmp_path: Path, *records: Record) -> StackMatrix:
    """Return the matrix of these records."""
    making.kept(tmp_path, records)
    runs = stack_status.read(stack_status.files([tmp_path]), [tmp_path]).runs
    return matrix(runs, making.STACKS, making.SUITES, TODAY)


def models(tmp_path: Path, *records: Record, stack: str = "cuda") -> MatrixCell:
    """Return the cell of `models`, in which `making.suites` puts a verdict."""
    return cells_of(tmp_path, *records).cells[stack, "models"]


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (Verdict.PASSED, ProofState.PASSED), (Verdict.KNOWN_ISSUE, ProofState.KNOWN_ISSUE), (Verdict.FAILED, ProofState.FAILED),
        (Verdict.CRASHED, ProofState.FAILED), (Verdict.HUNG, ProofState.FAILED), (Verdict.INCONCLUSIVE, ProofState.UNVERIFIED),
        (Verdict.SKIPPED, ProofState.PASSED),
    ],
)  # fmt: skip
def test_a_cell_is_what_its_checks_are(tmp_path: Path, verdict: Verdict, state: ProofState) -> None:
    found = cells_of(tmp_path, making.suites("cuda", TODAY, verdict))
    assert found.cells["cuda", "models"].state is state
    assert found.cells["cuda", "operators"].state is ProofState.PASSED
    assert found.cells["dcu", "models"].state is ProofState.UNVERIFIED and found.cells["dcu", "models"].run is None


def skipped(record: Record) -> Record:
    """Return a run in which nothing was executed."""
    return replace(record, checks=[replace(check, verdict=Verdict.SKIPPED) for check in record.checks])


def test_a_suite_of_which_nothing_ran_is_unverified(tmp_path: Path) -> None:
    checks = [Check("environment", Verdict.PASSED, "the lock", 1.0)]
    run = skipped(making.suites("cuda", TODAY))
    found = cells_of(tmp_path, replace(run, checks=[*checks, *run.checks], verdict=Verdict.PASSED))
    assert found.cells["cuda", "models"].state is ProofState.UNVERIFIED
    assert "cuda" in found.never_on_card


@pytest.mark.parametrize(("age", "state"), [(0, ProofState.PASSED), (14, ProofState.PASSED), (15, ProofState.STALE)])
def test_a_record_proves_for_so_many_days(tmp_path: Path, age: int, state: ProofState) -> None:
    cell = models(tmp_path, making.suites("cuda", TODAY - timedelta(age)))
    assert cell.state is state
    assert cell.run is not None, "a stale cell still leads to its record"


def test_an_old_failure_is_stale_and_says_so(tmp_path: Path) -> None:
    cell = models(tmp_path, making.suites("cuda", TODAY - timedelta(40), Verdict.FAILED))
    assert cell.state is ProofState.STALE and "then failed" in cell.why and "40 days" in cell.why


def test_the_newest_record_of_a_host_counts(tmp_path: Path) -> None:
    cell = models(tmp_path, making.suites("cuda", TODAY - timedelta(1), Verdict.FAILED), making.suites("cuda", TODAY))
    assert cell.state is ProofState.PASSED


@pytest.mark.parametrize(
    ("verdict", "state"),
    [(Verdict.MISMATCHED, ProofState.FAILED), (Verdict.CRASHED, ProofState.FAILED), (Verdict.UNAVAILABLE, ProofState.UNVERIFIED)],
)  # fmt: skip
def test_a_run_that_ended_before_its_devices_were_seen_counts(
    tmp_path: Path, verdict: Verdict, state: ProofState
) -> None:
    good = [making.suites("cuda", TODAY - timedelta(age), devices=2) for age in (2, 0)]
    run = making.suites("cuda", TODAY - timedelta(1), host="box", suites="models")
    run = replace(run, checks=[Check("environment", verdict, "scipy is not in the lock", 0.0)], verdict=verdict)
    cell = models(tmp_path / "a", good[0], run)
    assert cell.state is state and cell.why == f"{verdict.value}: environment: scipy is not in the lock"
    assert models(tmp_path / "b", good[0], run, good[1]).state is ProofState.PASSED
    other = replace(run, provenance={**run.provenance, "host": "another"})
    assert models(tmp_path / "c", good[0], other).state is ProofState.PASSED


def test_the_worst_host_counts(tmp_path: Path) -> None:
    records = [
        making.suites("cuda", TODAY - timedelta(1), Verdict.FAILED, "one"),
        making.suites("cuda", TODAY, host="two"),
    ]
    cell = models(tmp_path, *records)
    assert cell.state is ProofState.FAILED and cell.run is not None and cell.run.place.host == "one"


def test_a_host_that_is_gone_does_not_age_the_others(tmp_path: Path) -> None:
    records = [making.suites("cuda", TODAY - timedelta(300), host="gone"), making.suites("cuda", TODAY)]
    assert models(tmp_path, *records).state is ProofState.PASSED


def rehearsal(age: int = 0, verdict: Verdict = Verdict.PASSED) -> Record:
    """Return a run of the stack's software on a CPU."""
    return making.suites("cuda", TODAY - timedelta(age), verdict, rehearsed=True)


def test_a_rehearsal_is_its_own_word(tmp_path: Path) -> None:
    found = cells_of(tmp_path, rehearsal())
    assert found.cells["cuda", "models"].state is ProofState.REHEARSED
    assert "cuda" in found.never_on_card


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([rehearsal(), making.suites("cuda", TODAY - timedelta(2))], ProofState.PASSED),
        ([rehearsal(), making.suites("cuda", TODAY - timedelta(20))], ProofState.STALE),
        ([rehearsal(0, Verdict.FAILED), making.suites("cuda", TODAY)], ProofState.FAILED),
        ([rehearsal(30)], ProofState.STALE),
    ],
)
def test_the_card_counts_before_rehearsals(tmp_path: Path, records: Sequence[Record], state: ProofState) -> None:
    assert models(tmp_path, *records).state is state


@pytest.mark.parametrize("change", [{"only": "models/*"}, {}])
def test_a_part_of_a_run_proves_nothing(tmp_path: Path, change: dict[str, Figure]) -> None:
    run = making.suites("cuda", TODAY, Verdict.PASSED, "box", **change)
    if not change:
        checks = [*run.checks, Check("run", Verdict.INTERRUPTED, "Ctrl-C", 0.0)]
        run = replace(run, checks=checks, verdict=Verdict.INTERRUPTED)
    assert models(tmp_path, run).run is None


def test_a_guard_that_fails_is_its_suites_failure(tmp_path: Path) -> None:
    run = making.suites("cuda", TODAY)
    guard = Check("guard: models/part", Verdict.FAILED, "3 checks were collected, 4 are expected", 0.0)
    found = cells_of(tmp_path, replace(run, checks=[*run.checks, guard], verdict=Verdict.FAILED))
    assert found.cells["cuda", "models"].state is ProofState.FAILED
    assert found.cells["cuda", "operators"].state is ProofState.PASSED


def test_a_stack_or_suite_that_only_records_know_has_a_place(tmp_path: Path) -> None:
    found = cells_of(tmp_path, making.suites("ours", TODAY))
    assert found.stacks[-1] == "ours" and found.cells["ours", "models"].state is ProofState.PASSED


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ("", ""),
        ("ppp", "3 good nights in a row, 0 flips in 3 nights"),
        ("pfpff", "last good night 2026-07-30, 2 bad since, 3 flips in 5 nights"),
        ("ff", "no good night of 2, 0 flips in 2 nights"),
        ("fip", "1 good night in a row, 1 flip in 2 nights"),
    ],
)
def test_the_last_nights_of_a_stack_in_a_sentence(tmp_path: Path, verdicts: str, said: str) -> None:
    words = {"p": Verdict.PASSED, "f": Verdict.FAILED, "i": Verdict.INTERRUPTED}
    records = [
        replace(making.suites("cuda", TODAY - timedelta(len(verdicts) - at - 1), words[one]), verb="night")
        for at, one in enumerate(verdicts)
    ]
    making.kept(tmp_path, records)
    runs = stack_status.read(stack_status.files([tmp_path]), [tmp_path]).runs
    assert [stack_status.streak(runs, stack) for stack in ("cuda", "cpu")] == [said, ""]


def test_the_matrix_begins_with_what_is_worst(tmp_path: Path) -> None:
    records = [making.suites("cuda", TODAY, Verdict.FAILED), part(making.suites("cpu", TODAY), "smoke", "operators")]
    making.kept(tmp_path, records)
    runs = stack_status.read(stack_status.files([tmp_path]), [tmp_path]).runs
    cells = matrix(runs, making.STACKS, (*making.SUITES, "never"), TODAY)
    assert [one.stack for one in statuses(cells, ())][:2] == ["cuda", "cpu"]
    assert cells.shown(["cuda", "cpu"]) == ["models", "smoke", "operators", "timer"] and cells.shown(["dcu"]) == []
