"""A stored record as the base: what is taken from it, what is not comparable, and that the verdict says how it was come by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.gate import plan, stored
from stackproof.gate.cells import Results
from stackproof.gate.interleave import Launch, Observed
from stackproof.record import records
from stackproof.record.records import CellWord, Check, Measurement, Record, Verdict

from .standins import FACTS, SUBJECTS, Sides, judged, red, specs

RAN = Check("bench/gemm::time", Verdict.PASSED, "as expected", 1.0)


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The record of an earlier gate of the same sides."""
    record = judged(Sides(), monkeypatch, tmp_path)
    record.provenance |= FACTS
    records.write(record, tmp_path / "earlier.json")
    return tmp_path / "earlier.json"


def _against(path: Path, sides: Sides, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Record:
    base = stored.load(path, "tiny")
    return judged(sides, monkeypatch, path.parent, specs=specs("head"), stored=base, **changes)


def test_an_equal_head_passes_against_an_earlier_gate(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _against(earlier, Sides(), monkeypatch)
    assert record.verdict is Verdict.PASSED
    assert {row.figures["side"] for row in record.measurements} == {"head"}


def test_a_slower_head_fails_against_an_earlier_gate(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(red(_against(earlier, Sides(slower=0.1), monkeypatch))) == ["gate/gemm::time", "gate/lora::time"]


def test_memory_and_counters_are_compared_with_a_stored_gate(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = red(_against(earlier, Sides(memory=1.2, operators=12), monkeypatch, go_on=True))
    assert {"gate/gemm::peak-memory", "gate/gemm::operators"} <= set(found)


def test_a_subject_that_the_record_has_and_the_head_has_not_was_dropped(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = _against(earlier, Sides(has=(SUBJECTS, ("gemm",))), monkeypatch)
    assert "was dropped" in red(record)["gate/lora::runs"]


def test_another_device_is_refused(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match="unlike devices"):
        _against(earlier, Sides(facts={"cpu.name": "Another CPU"}), monkeypatch)


def test_a_benchmark_of_one_process_is_a_base_of_one_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Measurement("gemm", "tiny", "float32", 1, "gemm", "s/iteration", 1.0, [0.99, 1.0, 1.01], "", "1", {})
    other = Measurement("lora", "tiny", "float32", 1, "training", "s/iteration", 1.0, [1.0], "", "2", {})
    record = Record(
        "bench", "cpu", "2026-01-01T00:00:00.000+00:00", 1.0, Verdict.PASSED, dict(FACTS), [RAN], [row, other]
    )
    records.write(record, tmp_path / "bench.json")
    same = _against(tmp_path / "bench.json", Sides(), monkeypatch)
    assert same.verdict is Verdict.PASSED
    reason = next(check.reason for check in same.checks if check.id == "gate/lora::runs")
    assert "no 'lora' of version 1" in reason
    assert "gate/gemm::time" in red(_against(tmp_path / "bench.json", Sides(slower=0.15), monkeypatch))


def test_a_record_without_figures_is_refused(tmp_path: Path) -> None:
    empty = Record("smoke", "cpu", "2026-01-01T00:00:00.000+00:00", 1.0, Verdict.PASSED, checks=[RAN])
    records.write(empty, tmp_path / "smoke.json")
    with pytest.raises(Refusal, match="record of 'smoke'.*gate.*bench"):
        stored.load(tmp_path / "smoke.json", "tiny")


def test_a_benchmark_that_failed_is_no_base(tmp_path: Path) -> None:
    failed = Record("bench", "cpu", "2026-01-01T00:00:00.000+00:00", 1.0, Verdict.FAILED)
    records.write(failed, tmp_path / "bench.json")
    with pytest.raises(Refusal, match="ended as 'failed'"):
        stored.load(tmp_path / "bench.json", "tiny")


H200 = next((ROOT / "results" / "published" / "cuda" / "vm").glob("*-bench-*.record.json"))
STEP = ("training-yolov8x", "s/sample", {"sample": 16.0})


def _beside_a_real_card(longer: float) -> CellWord:
    """Return what is said of a head that takes longer by this share than a published H200 did, over six launches of 0.3 % noise."""
    name, unit, worth = STEP
    base = stored.load(H200, "full")
    seen = base.seen(name, unit, base.rows[name].version, worth)
    assert seen is not None
    results = Results(plan.load(), "cuda", stored={name: seen})
    for noise in (-0.003, -0.001, 0.0, 0.001, 0.002, 0.003):
        head = Observed([seen.blocks[0] * (1 + longer) * (1 + noise)] * 4, worth)
        results.add(Launch({name: {"head": head}}), [])
    results.cells.look(results.plan.design)
    (cell,) = results.cells.values()
    assert cell.ruling is not None
    return cell.ruling.outcome


def test_a_published_record_of_a_real_card_is_a_base() -> None:
    assert _beside_a_real_card(0.10) is CellWord.SLOWER
    assert _beside_a_real_card(0.0) is CellWord.SAME
    assert _beside_a_real_card(-0.10) is CellWord.FASTER


def test_a_record_of_a_real_card_says_nothing_of_another_preset() -> None:
    with pytest.raises(Refusal, match="holds no figures of preset 'tiny'"):
        stored.load(H200, "tiny")
