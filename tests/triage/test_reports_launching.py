"""What ends a run before it begins, and the wrappings in which programs log: shells in other languages, JSON, clusters, containers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from stackproof.base.toml import Table
from stackproof.record.records import Verdict
from stackproof.triage import reports

from .making import report


@dataclass(frozen=True)
class Failing:
    """A whole log, and a part of the sentence that says why it failed; an empty `says` where it is no failure."""

    name: str
    text: str
    says: str = ""

    def __str__(self) -> str:
        return self.name


with Table.load(Path(__file__).parent / "launching.toml") as table:
    ROWS = table.rows("log", Failing)


@pytest.mark.parametrize("row", [row for row in ROWS if row.says], ids=str)
def test_a_failure_before_the_first_step_or_in_a_wrapping(tmp_path: Path, row: Failing) -> None:
    found = report(tmp_path, row.text.encode())
    assert found.verdict is Verdict.FAILED
    assert row.says in (reports.sentence(found) or "")


@pytest.mark.parametrize("row", [row for row in ROWS if not row.says], ids=str)
def test_the_same_words_where_nothing_failed(tmp_path: Path, row: Failing) -> None:
    assert report(tmp_path, row.text.encode()).verdict is not Verdict.FAILED
