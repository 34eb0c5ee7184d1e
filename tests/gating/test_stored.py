"""A stored record as the base: what is taken from it, what is not comparable, and that the verdict says how it was come by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof import records
from stackproof.errors import Refusal
from stackproof.gating import stored
from stackproof.records import Measurement, Record, Verdict

from .standins import FACTS, SUBJECTS, Sides, judged, red, seats


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The record of an earlier gate of the same sides."""
    record = judged(Sides(), monkeypatch, tmp_path)
    record.provenance |= FACTS
    records.write(record, tmp_path / "earlier.json")
    return tmp_path / "earlier.json"


def _against(path: Path, sides: Sides, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Record:
    base = stored.load(path, "tiny")
    return judged(sides, monkeypatch, path.parent, seats=seats("head"), stored=base, **changes)


def test_an_equal_head_passes_against_an_earlier_gate(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the head is launched."""
    record = _against(earlier, Sides(), monkeypatch)
    assert record.verdict is Verdict.PASSED
    assert {row.figures["side"] for row in record.measurements} == {"head"}


def test_a_slower_head_fails_against_an_earlier_gate(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten per cent, with launches of both known."""
    assert sorted(red(_against(earlier, Sides(slower=0.1), monkeypatch))) == ["gate/gemm::time", "gate/lora::time"]


def test_memory_and_counters_are_compared_with_a_stored_gate(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in the record too, and are as exact as ever."""
    found = red(_against(earlier, Sides(memory=1.2, operators=12), monkeypatch))
    assert {"gate/gemm::peak-memory", "gate/gemm::operators"} <= set(found)


def test_a_subject_that_the_record_has_and_the_head_has_not_was_dropped(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is a side like any other."""
    record = _against(earlier, Sides(has=(SUBJECTS, ("gemm",))), monkeypatch)
    assert "was dropped" in red(record)["gate/lora::runs"]


def test_another_device_is_refused(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of another machine says nothing of this change."""
    with pytest.raises(Refusal, match="unlike devices"):
        _against(earlier, Sides(facts={"cpu.name": "Another CPU"}), monkeypatch)


def test_a_benchmark_of_one_process_is_a_base_of_one_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own spread between launches is not known, so the head's stands for it: what passes is told from what does not."""
    row = Measurement("gemm", "tiny", "float32", 1, "gemm", "s/iteration", 1.0, [0.99, 1.0, 1.01], "", "1", {})
    other = Measurement("lora", "tiny", "float32", 1, "training", "s/iteration", 1.0, [1.0], "", "2", {})
    record = Record("bench", "cpu", "2026-01-01T00:00:00.000+00:00", 1.0, Verdict.PASSED, dict(FACTS), [], [row, other])
    records.write(record, tmp_path / "bench.json")
    same = _against(tmp_path / "bench.json", Sides(), monkeypatch)
    assert same.verdict is Verdict.PASSED
    reason = next(check.reason for check in same.checks if check.id == "gate/lora::runs")
    assert "no 'lora' of version 1" in reason
    assert "gate/gemm::time" in red(_against(tmp_path / "bench.json", Sides(slower=0.15), monkeypatch))


def test_a_record_without_figures_is_refused(tmp_path: Path) -> None:
    """The sentence says what kind of record is needed."""
    empty = Record("smoke", "cpu", "2026-01-01T00:00:00.000+00:00", 1.0, Verdict.PASSED)
    records.write(empty, tmp_path / "smoke.json")
    with pytest.raises(Refusal, match="record of 'smoke'.*gate.*bench"):
        stored.load(tmp_path / "smoke.json", "tiny")


def test_a_benchmark_that_failed_is_no_base(tmp_path: Path) -> None:
    """What was wrong then is nothing to be compared with."""
    failed = Record("bench", "cpu", "2026-01-01T00:00:00.000+00:00", 1.0, Verdict.FAILED)
    records.write(failed, tmp_path / "bench.json")
    with pytest.raises(Refusal, match="ended as 'failed'"):
        stored.load(tmp_path / "bench.json", "tiny")
