"""Gates of a calibration at once, each in a process of its own on a core of its own. What runs a gate is a stand-in here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.gate.gate import Comparison
from tools.gate_calibration import side_by_side
from tools.gate_calibration.calibrate import Trial
from tools.gate_calibration.doses import Dose
from tools.gate_calibration.side_by_side import Gate, Pool

EQUAL = Dose("equal sides", "", 9, 0.0)
ANY: Any = None


def _sound(_: Comparison, dose: Dose, number: int, folder: Path) -> Trial:
    """End at once, and tell where it ran."""
    assert folder.is_dir()
    facts = {"torch": "2.15.0", "cores": sorted(os.sched_getaffinity(0)), "process": os.getpid()}
    return Trial(dose.name, number, "passed", 1.0, 6, {}, {}, {}, {}, facts)


def _refused(comparison: Comparison, dose: Dose, number: int, folder: Path) -> Trial:
    if number == 2:
        raise Refusal("no device")
    return _sound(comparison, dose, number, folder)


def _killed(_: Comparison, __: Dose, ___: int, ____: Path) -> Trial:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _run(many: int, gates: int, until: float = float("inf"), gate: Gate = _sound) -> list[Trial]:
    kept: list[Trial] = []
    Pool(ANY, iter([(EQUAL, number) for number in range(gates)]), until, kept.append, gate).run(many)
    return kept


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core holds one gate")
def test_each_gate_has_a_core_and_none_is_run_twice() -> None:
    mine = os.sched_getaffinity(0)
    kept = _run(2, 5)
    assert sorted(trial.number for trial in kept) == list(range(5))
    assert {len(trial.facts["cores"]) for trial in kept} == {1}
    assert len({tuple(trial.facts["cores"]) for trial in kept}) == 2
    assert len({trial.facts["process"] for trial in kept}) == 5
    assert {trial.facts["at once"] for trial in kept} == {"2 at once, each on a core of its own"}
    assert all(0 <= trial.facts["load"] <= 1 for trial in kept)
    assert os.sched_getaffinity(0) == mine


def test_one_gate_at_a_time_is_not_pinned() -> None:
    (trial,) = _run(1, 1)
    assert trial.facts["cores"] == sorted(os.sched_getaffinity(0))
    assert "at once" not in trial.facts


def test_no_gate_begins_after_the_time_is_over() -> None:
    assert _run(1, 9, time.monotonic() - 1) == []


def test_a_gate_that_is_refused_ends_all() -> None:
    kept: list[Trial] = []
    with pytest.raises(Refusal, match="equal sides, gate 3: no device"):
        Pool(ANY, iter([(EQUAL, number) for number in range(9)]), float("inf"), kept.append, _refused).run(1)
    assert [trial.number for trial in kept] == [0, 1]


def test_a_gate_that_dies_says_how() -> None:
    with pytest.raises(Refusal, match="gate 1: its process ended with signal SIGKILL"):
        _run(1, 1, gate=_killed)


def test_more_gates_than_cores_are_refused() -> None:
    with pytest.raises(Refusal, match="each gate needs one of its own"):
        side_by_side.cores(1000)
