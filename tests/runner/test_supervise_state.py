"""The state of a run: each check once, totals that progress can reach, and a record that survives a kill."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stackproof.record.records import Check, Record, Verdict
from stackproof.runner import supervise
from stackproof.runner.supervise import RunState

from ..conftest import Silent

CHECK = Check("a/b::c", Verdict.PASSED, "fine", 0.1)


def make(*checks: Check) -> Record:
    """Return a record that holds these checks."""
    return Record("verify", "cpu", "2026-01-01T00:00:00+00:00", checks=list(checks))


def test_the_first_word_about_a_check_counts(silent: Silent) -> None:
    known = RunState(make(), silent)
    known.conclude(CHECK)
    known.conclude(replace(CHECK, verdict=Verdict.FAILED))
    assert known.record.checks == [CHECK] == silent.ended


def test_an_excuse_changes_the_verdict_before_anybody_hears_of_it(silent: Silent) -> None:
    known = RunState(make(), silent, lambda check: replace(check, verdict=Verdict.KNOWN_ISSUE))
    known.conclude(replace(CHECK, verdict=Verdict.FAILED))
    assert known.record.checks[0].verdict is silent.ended[0].verdict is Verdict.KNOWN_ISSUE


def test_a_failure_names_what_changes_results(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.delenv(
        "CUBLAS_WORKSPACE_CONFIG", raising=False
    )  # a trainer of ultralytics sets it for its whole process
    known = RunState(make(), silent)
    known.conclude(replace(CHECK, verdict=Verdict.FAILED, reason="the sum is wrong"))
    known.conclude(replace(CHECK, id="a/b::d"))
    assert [check.reason for check in known.record.checks] == [
        "the sum is wrong (set, and changes results: NVIDIA_TF32_OVERRIDE=1)",
        "fine",
    ]


def test_totals_leave_out_what_an_earlier_run_had(silent: Silent) -> None:
    known = RunState(make(CHECK), silent)
    known.announce([CHECK.id, "a/b::d"])
    assert silent.total == 1
    known.announce([CHECK.id, "a/b::d", "a/b::e"])
    assert silent.total == 2


def test_a_checkpoint_is_an_interrupted_record(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Verdict] = []
    known = RunState(make(), silent, save=lambda record: kept.append(record.verdict))
    known.checkpoint()
    assert kept == []
    monkeypatch.setattr(supervise, "_CHECKPOINT_S", 0.0)
    known.checkpoint()
    assert kept == [Verdict.INTERRUPTED]
    assert known.record.verdict is Verdict.INCONCLUSIVE
