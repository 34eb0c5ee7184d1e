"""Gates of a calibration at once, each on a core of its own. No gate is run here: what attempts one is a stand-in."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from stackproof.errors import Refusal
from stackproof.gating import side_by_side
from stackproof.gating.calibrate import Trial
from stackproof.gating.doses import Dose
from stackproof.gating.side_by_side import Crew

EQUAL = Dose("equal sides", "", 9, 0.0)
ANY: Any = None


def _attempt(seen: list[tuple[int, set[int]]]) -> Any:
    def attempt(_: object, dose: Dose, number: int, folder: Path, __: object) -> Trial:
        assert folder.is_dir()
        seen.append((number, set(os.sched_getaffinity(0))))
        time.sleep(0.05)
        return Trial(dose.name, number, "passed", 1.0, 6, {}, {}, {}, {}, {"torch": "2.15.0"})

    return attempt


def _run(monkeypatch: pytest.MonkeyPatch, many: int, until: float) -> tuple[list[Trial], list[tuple[int, set[int]]]]:
    seen: list[tuple[int, set[int]]] = []
    kept: list[Trial] = []
    monkeypatch.setattr(side_by_side, "attempt", _attempt(seen))
    Crew(ANY, iter([(EQUAL, number) for number in range(9)]), until, kept.append).run(many)
    return kept, seen


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core holds one gate")
def test_each_gate_has_a_core_and_none_is_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers share nine gates; what they start inherits their core, and each trial says so."""
    mine = os.sched_getaffinity(0)
    kept, seen = _run(monkeypatch, 2, time.monotonic() + 60)
    assert sorted(trial.number for trial in kept) == list(range(9))
    assert {len(cores) for _, cores in seen} == {1}
    assert len({min(cores) for _, cores in seen}) == 2
    assert {trial.facts["at once"] for trial in kept} == {"2 at once, each on a core of its own"}
    assert os.sched_getaffinity(0) == mine


def test_one_gate_at_a_time_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may use what a gate of a user may use."""
    kept, seen = _run(monkeypatch, 1, time.monotonic() + 60)
    assert len(kept) == 9
    assert seen[0][1] == os.sched_getaffinity(0)
    assert "at once" not in kept[0].facts


def test_no_gate_begins_after_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left can be continued."""
    assert _run(monkeypatch, 1, time.monotonic() - 1) == ([], [])


def test_a_gate_that_breaks_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error comes out, and the trials that ended before are kept."""
    kept: list[Trial] = []

    def attempt(_: object, dose: Dose, number: int, *__: object) -> Trial:
        if number == 2:
            raise Refusal("no device")
        return Trial(dose.name, number, "passed", 1.0, 6, {}, {}, {}, {}, {})

    monkeypatch.setattr(side_by_side, "attempt", attempt)
    with pytest.raises(Refusal, match="no device"):
        Crew(ANY, iter([(EQUAL, number) for number in range(9)]), time.monotonic() + 60, kept.append).run(1)
    assert [trial.number for trial in kept] == [0, 1]


def test_more_gates_than_cores_are_refused() -> None:
    """Two on one core would measure one another."""
    with pytest.raises(Refusal, match="each gate needs one of its own"):
        side_by_side.cores(1000)
