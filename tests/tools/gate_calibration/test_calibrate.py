"""The calibration: what is still to be run, a file that only grows, and shares with honest intervals. No gate is run here."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from stackproof import ROOT
from stackproof.base.errors import Refusal
from tools.gate_calibration import calibrate, doses
from tools.gate_calibration import page as calibration_page
from tools.gate_calibration.calibrate import Share, Trial
from tools.gate_calibration.doses import Calibration, Dose, OneGate

DOSES = Calibration(OneGate(("gemm",), 1.0), (Dose("equal sides", "", 4, 0.0), Dose("spin 5 %", "spin=0.05", 2, 0.05)))


def _trial(dose: str, number: int, verdict: str, slower: float = 0.0) -> Trial:
    launches = [[1.0 + 0.001 * turn, 1.002 - 0.001 * turn] for turn in range(6)]
    data = {"gemm": {"base": launches, "head": [[(1 + slower) * block for block in row] for row in launches]}}
    words = {"gemm::time": "SLOWER" if verdict == "failed" else "SAME"}
    return Trial(
        dose, number, verdict, 60.0, 6, words, {}, {"gemm::time": 0.02}, data, {"torch": "2.15.0", "load": 0.05}
    )


TRIALS = [
    *(_trial("equal sides", number, "passed") for number in range(4)),
    *(_trial("spin 5 %", number, "failed", 0.05) for number in range(2)),
]


def test_a_stopped_calibration_goes_on_where_it_was() -> None:
    every = [(dose.name, number) for dose, number in calibrate.schedule(DOSES, [], None)]
    assert sorted(every) == sorted((trial.dose, trial.number) for trial in TRIALS)
    assert {name for name, _ in every[:3]} == {"equal sides", "spin 5 %"}
    left = list(calibrate.schedule(DOSES, TRIALS[:3], None))
    assert len(left) == 3
    assert list(calibrate.schedule(DOSES, TRIALS, None)) == []


def test_fewer_gates_can_be_asked_for() -> None:
    assert len(list(calibrate.schedule(DOSES, [], 1))) == 2
    assert len(list(calibrate.schedule(DOSES, [], 100))) == 6


def test_a_line_that_was_cut_short_is_left_out_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    for trial in TRIALS[:2]:
        calibrate.append(path, trial)
    path.write_bytes(path.read_bytes()[:-40])
    assert [trial.number for trial in calibrate.read(path)] == [0]
    calibrate.append(path, TRIALS[2])
    assert [trial.number for trial in calibrate.read(path)] == [0, 2]


def test_damage_in_the_middle_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    path.write_text("{}\n{}\n")
    with pytest.raises(Refusal, match=r"trials\.jsonl:1"):
        calibrate.read(path)


def test_shares_have_exact_intervals() -> None:
    low, high = Share(0, 200).interval
    assert (low, high) == pytest.approx((0.0, float(stats.beta.ppf(0.975, 1, 200))))
    assert str(Share(0, 0)) == "not yet measured"


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    text = calibration_page.tables(DOSES, TRIALS[:4])
    assert "4 gates; what did not belong to them used at most" in text
    assert "| equal sides | 0/4" in text
    assert "| spin 5 % | not yet measured |" in text
    full = calibration_page.tables(DOSES, TRIALS)
    assert "| spin 5 % | 2/2" in full
    undecided = calibration_page.tables(DOSES, [_trial("equal sides", 0, "inconclusive")])
    assert "| equal sides | 0/1 (0.0% to 97.5%) | 1/1 (2.5% to 100.0%) |" in undecided
    assert "2.0%" in full


def test_gates_of_several_places_are_told_apart() -> None:
    there = replace(TRIALS[0], facts={"torch": "2.11.0", "cpu.name": "Xeon", "at once": "8 at once", "load": 0.25})
    text = calibration_page.tables(DOSES, [*TRIALS[:2], there])
    assert "used at most 25% of a host's cores" in text
    assert "- 1 on Xeon, torch 2.11.0, 8 at once\n" in text
    assert "- 2 on a CPU without a name, torch 2.15.0\n" in text


def test_nothing_measured_is_said_in_the_first_line() -> None:
    assert calibration_page.tables(doses.load(), []).startswith("**not yet measured**")


def test_tables_go_between_the_marks_only(tmp_path: Path) -> None:
    page = tmp_path / "gate.md"
    page.write_text(f"above\n{calibration_page.BEGIN}\nold\n{calibration_page.END}\nbelow\n")
    calibration_page.put(page, "new")
    assert page.read_text() == f"above\n{calibration_page.BEGIN}\nnew\n{calibration_page.END}\nbelow\n"
    page.write_text("nothing")
    with pytest.raises(Refusal, match="add both lines"):
        calibration_page.put(page, "new")


def test_the_table_of_doses_plants_what_the_issue_asks_for() -> None:
    declared = doses.load()
    assert declared.doses[0].drill == ""
    assert declared.doses[0].gates >= 200
    assert {0.01, 0.02, 0.03, 0.05} <= {dose.worse for dose in declared.doses}
    assert any(dose.drill.startswith("kernel") for dose in declared.doses)


def test_the_product_never_imports_the_laboratory() -> None:
    sources = sorted((ROOT / "src").rglob("*.py"))
    assert len(sources) > 100
    guilty = [
        path for path in sources if re.search(r"^\s*(from|import) tools\b", path.read_text(encoding="utf-8"), re.M)
    ]
    assert guilty == []
