"""Families of failures are named or quoted, whatever the process says at its end; runs that finished are CLEAN, and none is faulty."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from stackproof.base.toml import Table
from stackproof.record.records import Verdict
from stackproof.triage import reports
from stackproof.triage.reports import Report

from .making import report


@dataclass(frozen=True)
class Log:
    """A log, and words of which one must stand in what is said of it."""

    name: str
    text: str
    says: str = ""
    shown: bool = True

    def __str__(self) -> str:
        return self.name


with Table.load(Path(__file__).parent / "families.toml") as table:
    ROWS = table.rows("log", Log)
FAILED, WENT_WELL = [row for row in ROWS if row.says], [row for row in ROWS if not row.says]
DISPUTED = {"error-then-complete"}  # an error of a program that says later that it is through
ENDS = ["wandb: Synced run-1", "INFO:     Finished server process [7]", "Results saved to out", "Training complete"]


def proof(found: Report) -> str:
    """Return the sentence with the lines that prove it."""
    root = found.judgement.root
    if root is None:
        return reports.headline(found)[1].lower()
    lines = [f"{hit.text} {hit.block.exception if hit.block else ''}" for hit in root.hits]
    return " ".join([reports.headline(found)[1], root.cause, *lines]).lower()


@pytest.mark.parametrize("row", FAILED, ids=str)
def test_a_failure(tmp_path: Path, row: Log) -> None:
    found = report(tmp_path, row.text.encode())
    assert found.verdict is (Verdict.INCONCLUSIVE if row.name in DISPUTED else Verdict.FAILED)
    assert any(words.lower() in proof(found) for words in row.says.split("|"))


@pytest.mark.parametrize("end", ENDS)
def test_an_orderly_end_makes_no_failure_good(tmp_path: Path, end: str) -> None:
    called = [row.name for row in FAILED if report(tmp_path, f"{row.text}{end}\n".encode()).verdict is Verdict.PASSED]
    assert called == []


@pytest.mark.parametrize("row", WENT_WELL, ids=str)
def test_a_run_that_went_well(tmp_path: Path, row: Log) -> None:
    assert report(tmp_path, row.text.encode()).verdict is (Verdict.PASSED if row.shown else Verdict.INCONCLUSIVE)
