"""What people see: the verdict first, nothing of other people's as markup."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from stackproof.gate import report
from stackproof.record import reading, records, writer

from .standins import Sides, judged


def test_the_markdown_says_the_verdict_first_and_holds_no_markup_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = judged(Sides(slower=0.08), monkeypatch, tmp_path)
    record.provenance["head"] = "<img src=x> @team | [x](y)"
    text = report.markdown(record)
    assert text.splitlines()[0].startswith("### stackproof gate: DO NOT MERGE")
    assert "<img" not in text
    assert "@team" not in text
    assert "[x](y)" not in text


def test_the_terminal_shows_the_verdict_the_worst_cell_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    console = Console(width=150, record=True, file=io.StringIO())
    report.show(judged(Sides(slower=0.08), monkeypatch, tmp_path), console)
    text = console.export_text()
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines[0].startswith("DO NOT MERGE (2 SLOWER")
    assert text.index("SLOWER  gemm time") < text.index("peak-memory")
    assert "exactly equal: " in text
    assert "what to do:" in lines[-1]


def test_each_cell_says_what_it_could_have_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = judged(Sides(), monkeypatch, tmp_path)
    seen = {check.id: report.sees(check) for check in report.ordered(record)}
    assert seen["gate/gemm::time"].endswith(" %")
    assert 0 < float(seen["gate/gemm::time"].removesuffix(" %")) < 5
    assert seen["gate/gemm::operators"] == ""


def test_the_record_is_valid_and_becomes_junit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = judged(Sides(slower=0.08), monkeypatch, tmp_path)
    records.write(record, tmp_path / "gate.json")
    assert writer.junit(reading.read(tmp_path / "gate.json")).count("<failure") == 2
