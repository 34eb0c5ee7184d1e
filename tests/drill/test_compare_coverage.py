"""Which checks have a fault: those of the suites are found in their files, and a stale excuse is a failure."""

from __future__ import annotations

from pathlib import Path

from stackproof.drill import compare, table
from stackproof.drill.table import Excuse, Faults, Symptoms
from stackproof.record.records import Verdict
from stackproof.runner import suites

from .making import fault

KNOWN = ("rng/rng::state", "rng/rng::seed", "soak/launches::clean")


def judged(*excuses: Excuse, red: tuple[str, ...] = ("rng/rng::state", "rng/rng::seed[normal]")) -> tuple[Verdict, str]:
    """Judge a table with one fault."""
    row = fault(expected=Symptoms(dict.fromkeys(red, "x"), 1, ()))
    check = compare.compare_coverage(Faults((row,), excuses), KNOWN)
    return check.verdict, check.reason


def test_checks_are_found_in_the_files_of_suites(tmp_path: Path) -> None:
    (tmp_path / "rng").mkdir()
    (tmp_path / "rng/test_1_rng.py").write_text("def test_state(): ...\ndef helper(): ...\n", encoding="utf-8")
    (tmp_path / "rng/common.py").write_text("def test_nothing(): ...\n", encoding="utf-8")
    assert suites.defined(tmp_path) == ("rng/rng::state",)


def test_a_check_without_a_fault_is_a_failure() -> None:
    assert judged() == (Verdict.FAILED, "no fault covers soak/launches::clean")
    assert judged(Excuse("soak/*", "too long"))[0] is Verdict.PASSED


def test_a_stale_excuse_is_a_failure() -> None:
    soak = Excuse("soak/*", "too long")
    assert (
        "'rng/rng::state' of 'uncovered' is stale: a fault covers it" in judged(soak, Excuse("rng/rng::state", "x"))[1]
    )
    assert "there is no such check" in judged(soak, Excuse("nothing/*", "x"))[1]


def test_every_check_of_the_suites_has_a_fault_or_a_reason() -> None:
    check = compare.compare_coverage(table.load(), suites.defined())
    assert check.verdict is Verdict.PASSED, check.reason
