"""The part of `verify` that fits: suites until the time is over, and what was left out comes first in the next night."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stackproof.extras.nights.night import night as night_
from stackproof.extras.verbs import StageOutcome
from stackproof.record import console
from stackproof.record.records import Verdict
from stackproof.record.writer import Outputs

from .fake_night import Night, ledger_in


def ran(
    folder: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch, minutes: float = 10.0
) -> tuple[Night, list[str]]:
    """Run the suites of a night; each takes as many seconds as the clock says."""
    night, asked, now = Night(ledger_in(folder), folder, minutes=minutes), list[str](), [0.0]

    def suite(*words: str, log: str) -> StageOutcome:
        asked.append(words[2])
        now[0] += clock.pop(0) if clock else 0.0
        return StageOutcome(Verdict.PASSED, "seen")

    monkeypatch.setattr(night_, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(night_.suites, "of_verb", lambda verb: ("data", "models", "rng"))
    night.suite = suite  # type: ignore[method-assign]
    night_.verify(night)  # type: ignore[arg-type]
    return night, asked


def verdicts(night: Night) -> dict[str, Any]:
    """Return the words by check."""
    return {check.id: check.verdict for check in night.ledger.record.checks}


def test_all_that_fits_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night, asked = ran(tmp_path, [], monkeypatch)
    assert asked == ["data", "models", "rng"]
    assert set(verdicts(night).values()) == {Verdict.PASSED}


def test_what_does_not_fit_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night, asked = ran(tmp_path, [601.0], monkeypatch)
    assert asked == ["data"]
    assert verdicts(night)["verify::models"] is Verdict.SKIPPED
    assert "left out for time: the 10 minutes were used up" in night.ledger.record.checks[-1].reason


def test_what_was_left_out_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night, _ = ran(tmp_path, [601.0], monkeypatch)
    night.ledger.close(Verdict.PASSED, Outputs(tmp_path), console.markdown)
    assert ran(tmp_path, [], monkeypatch)[1] == ["models", "rng", "data"]
