"""The table on a terminal: a line for each fault as it ends, and what went wrong below it."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from stackproof.drill import compare, drill
from stackproof.record.records import Figure, Record, Verdict

from .making import CAUGHT, ended, fault


def test_a_line_for_each_fault() -> None:
    out = io.StringIO()
    board = drill.LiveTable(Console(file=out, width=200, highlight=False), 2)
    board.show(compare.compare_fault(fault(), ended()))
    board.show(compare.compare_fault(fault(id="other"), ended(fired=0)))
    _, caught, failed, why = out.getvalue().splitlines()
    assert caught.split() == ["[1/2]", "caught", "compute/some-fault", CAUGHT, "1", "2"]
    assert failed.split()[:3] == ["[2/2]", "failed", "compute/other"]
    assert why.strip() == "the fault never fired, so nothing was proved"


def test_the_end_counts() -> None:
    out = io.StringIO()
    facts: dict[str, Figure] = {"faults": 1, "of": 9}
    checks = [compare.compare_fault(fault(), ended())]
    record = Record("drill", "cpu", "2026-01-01T00:00:00+00:00", 9.0, Verdict.PASSED, facts, checks)
    drill.close(Console(file=out, width=200), record, Path("record.json"))
    assert out.getvalue().splitlines() == ["PASSED  drill: 1 of 9 faults; 1 passed in 9 s", "record: record.json"]
