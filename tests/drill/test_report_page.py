"""The page is written from a record: what was caught by what, what was not, and nothing of one run's folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.drill import compare, report, table
from stackproof.drill.table import FaultFamily, Faults
from stackproof.record.records import Check, Figure, Record, Verdict

from .making import CAUGHT, GREEN, ended, fault, red


def recorded(*checks: Check, faults: int = 1) -> Record:
    """Return the record of a drill."""
    facts: dict[str, Figure] = {"faults": faults, "of": 1, "python": "3.11.7", "cpus": 2}
    covered = Check("coverage", Verdict.PASSED, "all", 0.0, {"soak/*": "too long"})
    return Record("drill", "cpu", "2026-01-01T00:00:00+00:00", 9.0, Verdict.PASSED, facts, [*checks, covered])


CLEAN = compare.judge_clean("clean/verify cpu rng", (CAUGHT,), ended({CAUGHT: GREEN}, 0))


TABLE = Faults(
    (fault(),),
    (),
    families=(
        FaultFamily("random numbers", "those of cards", ("rng/*",)),
        FaultFamily("clocks", "all of them", ("timer/*",)),
    ),
)


def page(record: Record) -> str:
    """Return the page of a record."""
    return report.markdown(record, TABLE)


def test_the_families_of_faults_are_counted_with_what_is_not_planted() -> None:
    text = page(recorded(compare.judge(fault(), ended(fired=0)), CLEAN))
    assert "| random numbers | 0 of 1 | those of cards |\n| clocks | none is planted | all of them |" in text
    assert "| random numbers | 1 of 1 |" in page(recorded(compare.judge(fault(), ended()), CLEAN))


def test_the_work_of_a_whole_run_is_told_where_one_run_did_it() -> None:
    record = recorded(compare.judge(fault(), ended()), CLEAN)
    record.provenance["core seconds"] = 17
    assert "9 s, 17 s of a core's work)" in page(record)
    record.provenance["continued from"] = "yesterday"
    assert "17 s" not in page(record)


def test_every_row_of_the_table_is_of_a_family() -> None:
    loaded = table.load()
    assert not [row.id for row in loaded.rows if not any(family.has(row) for family in loaded.families)]
    empty = [family.checks for family in loaded.families if not any(family.has(row) for row in loaded.rows)]
    assert empty == [("gate/*",), ("agreement/*",), ("drift/*", "fleet/*", "bisect/*")]


def test_a_row_says_what_caught_the_fault() -> None:
    text = page(recorded(compare.judge(fault(), ended()), CLEAN))
    row = next(line for line in text.splitlines() if line.startswith("| `some-fault`"))
    assert "something that goes wrong (user report A7)" in row
    assert f"| {CAUGHT} | bits differ | 1 | 1 |" in row
    assert "Of 1 faults of the last whole run 1 were caught, and 1 runs without a fault raised 0 alarms" in text
    assert "| `soak/*` | too long |" in text
    parts = recorded(compare.judge(fault(), ended()), CLEAN)
    parts.provenance["continued from"] = "2026-01-01, some commit"
    assert "9 s; in parts: what had passed stood, the rest ran again)." in page(parts) and "in parts" not in text


def test_a_fault_that_was_not_caught_stands_out() -> None:
    text = page(recorded(compare.judge(fault(), ended(fired=0)), CLEAN))
    assert "| **failed** | the fault never fired" in text
    assert "Of 1 faults of the last whole run 0 were caught" in text


def test_words_mean_nothing_to_markdown_and_folders_are_left_out() -> None:
    said = red(f"bits differ | in <b> /tmp/stackproof-drill-x1/tmp2/checkout/suites/a.py, {ROOT}/src/b.py")
    text = page(recorded(compare.judge(fault(), ended({CAUGHT: said, "rng/rng::independent": GREEN})), CLEAN))
    assert r"bits differ \| in &lt;b&gt; checkout/suites/a.py, src/b.py" in text


def test_a_part_of_the_drill_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="leave out --only and --fast"):
        report.write(recorded(faults=0), TABLE, tmp_path / "drill.md")
    assert report.write(recorded(CLEAN), TABLE, tmp_path / "drill.md").exists()


def test_rows_that_no_whole_run_saw_are_listed(tmp_path: Path) -> None:
    path = report.write(recorded(compare.judge(fault(), ended()), CLEAN), TABLE, tmp_path / "drill.md")
    before = path.read_text(encoding="utf-8")
    new = replace(fault(), id="a-new-one", imitates="another | thing")
    assert report.list_new([fault(), new], path) == 1
    listed = path.read_text(encoding="utf-8")
    assert rf"| `a-new-one` | another \| thing (user report A7) | {CAUGHT} |" in listed
    assert listed.index("Since the last whole run") < listed.index("## Without a fault")
    assert report.list_new([fault(), new], path) == 1 and path.read_text(encoding="utf-8") == listed
    assert report.list_new([fault()], path) == 0 and path.read_text(encoding="utf-8") == before


def test_the_page_of_this_checkout_has_every_fault(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "drill.md").read_text(encoding="utf-8")
    copy = tmp_path / "drill.md"
    copy.write_text(page, encoding="utf-8")
    report.list_new(table.load().rows, copy)
    assert copy.read_text(encoding="utf-8") == page
