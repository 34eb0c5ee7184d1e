"""A report becomes a record that validates and can be read back, with checks and measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.record import reading, records
from stackproof.record.records import Record, Verdict
from stackproof.triage import logs, reports
from tools import triage_corpus

from .making import TRACEBACK, report


def written(folder: Path, *found: reports.Report) -> Record:
    """Write and read the record of some reports."""
    path = folder / "record.json"
    records.write(reports.record(found, "xpu"), path)
    return reading.read(path)


def test_training_log_gives_measurements(tmp_path: Path) -> None:
    record = written(tmp_path, triage_corpus.judge("xpu-lora-two-cards.log"))
    assert (record.verb, record.stack, record.verdict) == ("triage", "xpu", Verdict.PASSED)
    rate = next(row for row in record.measurements if row.unit == "s/sample")
    assert (rate.workload, rate.dtype, rate.world_size, rate.metric) == ("Qwen3-0.6B", "bfloat16", 2, "training")
    assert 1 / rate.value == pytest.approx(5.881)
    assert rate.note.startswith("read from a log")
    assert {row.metric for row in record.measurements} == {"training", "mean loss", "trainable parameters"}
    assert (record.provenance["pinned"], record.provenance["oneCCL (log)"]) == (False, "Gold-2021.15.2")
    assert record.logs == [str(triage_corpus.FOLDER / "xpu-lora-two-cards.log")]


def test_failure_is_a_failed_check_with_its_figures(tmp_path: Path) -> None:
    record = written(tmp_path, triage_corpus.judge("nccl-duplicate-gpu-two-nodes.log"))
    check = next(row for row in record.checks if row.id == "triage::root-cause")
    assert (record.verdict, check.verdict) == (Verdict.FAILED, Verdict.FAILED)
    assert (check.figures["signature"], check.figures["who"]) == ("nccl-duplicate-gpu", "rank 0 (then 1)")
    assert str(check.figures["place"]).endswith("nccl-duplicate-gpu-two-nodes.log:15")
    assert "two ranks on one card" in check.reason


def test_expectations_and_contradictions_are_checks(tmp_path: Path) -> None:
    (run,) = logs.runs([str(triage_corpus.FOLDER / "efa-missing-in-container.log")])
    record = written(tmp_path, reports.report(run, ["efa"]))
    verdicts = {check.id: check.verdict for check in record.checks}
    assert verdicts == {
        "triage::root-cause": Verdict.FAILED,
        "triage::asked-is-in-effect": Verdict.FAILED,
        "triage::training": Verdict.PASSED,
        "triage::expect[efa]": Verdict.FAILED,
    }


def test_several_runs_are_told_apart(tmp_path: Path) -> None:
    record = written(tmp_path, triage_corpus.judge("plain-training.log"), triage_corpus.judge("yolo-xpu.log"))
    assert len({check.id for check in record.checks}) == len(record.checks) == 6
    assert len(record.logs) == 2


def test_figures_that_are_no_numbers_are_still_a_record(tmp_path: Path) -> None:
    text = (
        "{'loss': nan, 'epoch': 1}\n{'train_runtime': 1.0, 'train_loss': nan}\n[rank0]: "
        + TRACEBACK
        + "ValueError: \x00\udcff\u202e\n"
    )
    record = written(tmp_path, report(tmp_path, text.encode("utf-8", "surrogateescape")))
    assert record.verdict is Verdict.FAILED
