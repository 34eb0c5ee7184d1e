"""The table of what is trained: strict, with a reason in every row, and a trial that can conclude."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.base.places import EXAMPLE
from stackproof.ddp.course import TABLE, others, plan, steps_of
from stackproof.project import offers, projects
from stackproof.workloads import catalogue
from stackproof.workloads.catalogue import names


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """Return a copy of the table in which one text was replaced."""
    text = TABLE.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "convergence.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_the_table_names_workloads_that_exist() -> None:
    found = plan()
    assert {course.workload for course in found.courses} | {found.trial.workload} <= set(names())
    assert found.course("classifier").whole_batch
    assert not found.course("yolov8n").whole_batch


def test_workloads_of_others_have_a_course_where_they_ask_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert others.__wrapped__() == ()
    monkeypatch.setenv(projects.VARIABLE, str(EXAMPLE))
    projects.current.cache_clear()
    catalogue._known.cache_clear()
    known = catalogue.theirs()
    asked = offers.Offer(parts=("data-parallel",))
    monkeypatch.setattr(type(known["gru"].workload), "offer", asked)
    monkeypatch.setattr("stackproof.ddp.course.theirs", lambda: known)
    found = others.__wrapped__()
    monkeypatch.setattr("stackproof.ddp.course.others", lambda: found)
    assert [(course.workload, course.whole_batch) for course in found] == [("gru", False)]
    assert steps_of("gru") == found[0].steps and steps_of("classifier") == plan().course("classifier").steps
    projects.current.cache_clear()
    catalogue._known.cache_clear()


def test_too_few_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"convergence.toml: 'equivalence.seeds' is 7; eight at least"):
        plan(changed(tmp_path, "seeds = 16", "seeds = 7"))


def test_a_row_without_its_reason_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="reason' is missing"):
        plan(changed(tmp_path, "reason =", "because ="))
