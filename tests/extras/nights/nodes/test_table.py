"""The table of nodes: aligned, one row a run, and nothing in it is markup of somebody else's."""

from __future__ import annotations

from pathlib import Path

from stackproof.extras.nights.nodes import reading, table
from stackproof.record.records import Verdict

from .making import look, run


def test_rows_are_aligned_and_say_what_is_wrong(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, node="gpu2", verdict=Verdict.FAILED, reason="loss is NaN")
    look(tmp_path, "gpu2", "problem", "warning")
    look(tmp_path, "gpu3", name="third")
    said = list(table.lines(reading.gather([tmp_path])))
    assert said[0] == "3 nodes, 1 not well"
    rows = [line for line in said if line.startswith("|")]
    assert len({len(line) for line in rows}) == 1 and len(rows) == 5
    assert "| gpu2 | 1 problem, 1 warning | cpu   | smoke | failed  | 2 of 3 |" in rows[3]
    assert "| gpu3 | no problem           | -     |" in rows[4]
    assert "- gpu2: smoke of cpu failed: smoke/bringup::devices: loss is NaN" in said


def test_names_are_text(tmp_path: Path) -> None:
    run(tmp_path, node="a|b\n@all\x1b[31m<b>")
    said = "\n".join(table.lines(reading.gather([tmp_path])))
    assert "\x1b" not in said and "<b>" not in said and "a\\|b @\u200ball" in said
