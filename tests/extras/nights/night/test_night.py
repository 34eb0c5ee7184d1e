"""A night from first to last: which stages run, and what ends it early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.extras.nights.night import measure, night
from stackproof.extras.nights.night.request import NightRun
from stackproof.extras.verbs import StageOutcome
from stackproof.record import reading
from stackproof.record.records import Check, Measurement, Verdict
from tests.extras.nights.drift.nightly import Story, judged, told

from .fake_night import ledger_in, request

ALL = ["doctor", "smoke", "verify", "explore", "figures", "scan", "slowdowns", "site"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NightRun:
    """A night whose stages all pass at once."""
    passed = StageOutcome(Verdict.PASSED, "seen")
    monkeypatch.setattr(night.verbs, "doctor", lambda stack: passed)
    monkeypatch.setattr(night, "_site", lambda run: passed)
    monkeypatch.setattr(NightRun, "suite", lambda self, *words, log: passed)
    monkeypatch.setattr(night, "verify", lambda run: _add(run, "verify"))
    monkeypatch.setattr(measure, "measured", _measured)
    monkeypatch.setattr(night, "place_drift", lambda *words: judged(told(Story(count=20))))
    return NightRun(request(tmp_path), ledger_in(tmp_path))


def _add(run: NightRun, name: str, verdict: Verdict = Verdict.PASSED) -> None:
    run.ledger.add(Check(name, verdict, "seen", 1.0))


def _measured(run: NightRun) -> None:
    run.ledger.record.measurements = [Measurement("gemm", "tiny", "", 1, "night", "s/TFLOP", 1.0, [1.0])]
    _add(run, "figures")


def names(run: NightRun) -> list[str]:
    """Return the checks in order."""
    return [check.id for check in run.ledger.record.checks]


def test_all_stages_in_order(run: NightRun) -> None:
    assert night.run_stages(run) is Verdict.PASSED
    assert names(run) == ALL


def test_what_was_not_asked_for_is_said(tmp_path: Path, run: NightRun) -> None:
    left_out = NightRun(replace(request(tmp_path), without=("smoke", "verify")), run.ledger)
    assert night.run_stages(left_out) is Verdict.PASSED
    assert {check.id for check in run.ledger.record.checks if check.verdict is Verdict.SKIPPED} == {"smoke", "verify"}


@pytest.mark.parametrize("verdict", [Verdict.UNAVAILABLE, Verdict.MISMATCHED])
def test_a_stack_that_is_not_here_ends_it(run: NightRun, monkeypatch: pytest.MonkeyPatch, verdict: Verdict) -> None:
    monkeypatch.setattr(NightRun, "suite", lambda self, *words, log: StageOutcome(verdict, "no card"))
    assert night.run_stages(run) is verdict
    assert names(run) == ["doctor", "smoke", "site"]


def test_a_failed_smoke_does_not_end_it(run: NightRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NightRun, "suite", lambda self, *words, log: StageOutcome(Verdict.FAILED, "a gradient"))
    assert night.run_stages(run) is Verdict.FAILED
    assert names(run) == ALL


def test_what_was_seen_before_it_was_killed_is_kept(run: NightRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "measured", dies)
    assert night.run_stages(run) is Verdict.INTERRUPTED
    assert names(run) == ["doctor", "smoke", "verify", "explore"]
    kept = reading.read(run.ledger.path)
    assert kept.verdict is Verdict.INTERRUPTED and len(kept.checks) == 4


def test_what_fails_at_new_points_is_shown_and_fails_no_night(run: NightRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def suite(self: NightRun, *words: str, log: str) -> StageOutcome:
        failed = words[0] == "explore"
        return StageOutcome(Verdict.FAILED if failed else Verdict.PASSED, "sin is wrong", {"exit code": int(failed)})

    monkeypatch.setattr(NightRun, "suite", suite)
    assert night.run_stages(run) is Verdict.PASSED
    (check,) = (check for check in run.ledger.record.checks if check.id == "explore")
    assert check.verdict is Verdict.SKIPPED and "explore.json: sin is wrong" in check.reason


def test_a_disturbed_night_is_not_looked_at(run: NightRun) -> None:
    run.ledger.record.provenance["disturbed"] = "foreign load"
    night.run_stages(run)
    assert "slowdowns" not in names(run)
    assert next(check for check in run.ledger.record.checks if check.id == "scan").verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(1, Verdict.PASSED), (6, Verdict.SKIPPED), (2, Verdict.INCONCLUSIVE), (None, Verdict.INCONCLUSIVE)],
)
def test_each_suspicion_is_put_to_a_gate_once(
    run: NightRun, monkeypatch: pytest.MonkeyPatch, code: int | None, verdict: Verdict
) -> None:
    asked = list[tuple[str, ...]]()

    def verb(self: NightRun, *words: str, log: str) -> StageOutcome:
        asked.append(words)
        return StageOutcome(Verdict.FAILED, "it says so", {} if code is None else {"exit code": code})

    monkeypatch.setattr(NightRun, "verb", verb)
    monkeypatch.setattr(night, "place_drift", lambda *words: judged(told(Story(code=(50, 0.1), count=52))))
    night.run_stages(run)
    (words,) = asked
    assert words[:2] == ("gate", "--base") and words[-4:] == ("--profile", "fast", "--minutes", "15.0")
    check = next(check for check in run.ledger.record.checks if check.id == "confirm::gemm-float32 ratio")
    assert check.verdict is verdict and check.reason.startswith("suspected: gemm-float32")
