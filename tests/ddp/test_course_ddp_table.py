"""The table of what is trained: strict, with a reason in every row, and a trial that can conclude."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.ddp.course import TABLE, plan
from stackproof.workloads.catalogue import names


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """Return a copy of the table in which one text was replaced."""
    text = TABLE.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "convergence.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_the_table_names_workloads_that_exist() -> None:
    """Every course and the trial are of known workloads."""
    found = plan()
    assert {course.workload for course in found.courses} | {found.trial.workload} <= set(names())
    assert found.course("classifier").whole_batch
    assert not found.course("yolov8n").whole_batch


def test_too_few_seeds_are_refused(tmp_path: Path) -> None:
    """Seven trainings say nothing of the next one."""
    with pytest.raises(Refusal, match=r"convergence.toml: 'equivalence.seeds' is 7; eight at least"):
        plan(changed(tmp_path, "seeds = 16", "seeds = 7"))


def test_a_row_without_its_reason_is_refused(tmp_path: Path) -> None:
    """Numbers that nobody can explain are not kept."""
    with pytest.raises(Refusal, match="reason' is missing"):
        plan(changed(tmp_path, "reason =", "because ="))
