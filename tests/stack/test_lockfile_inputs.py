"""Reading `requirements.in`, and telling without a network whether a lock has fallen behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.stack import lockfile, stacks

ALL = stacks.names()


def copied(folder: Path, name: str, before: str, after: str) -> stacks.Stack:
    """Return a stack whose inputs differ in one line from those that its lock was made from."""
    stack = stacks.load(name)
    text = stack.inputs.read_text(encoding="utf-8")
    assert before in text
    (folder / "requirements.in").write_text(text.replace(before, after), encoding="utf-8")
    (folder / "requirements.lock").write_bytes(stack.lock.read_bytes())
    return replace(stack, folder=folder)


@pytest.mark.parametrize("name", ALL)
def test_every_input_has_a_range(name: str) -> None:
    wanted = lockfile.requirements(stacks.load(name).inputs)
    assert all(row.specifier for row in wanted)
    assert [str(row) for row in wanted if row.name.startswith("asv")] == []


@pytest.mark.parametrize("name", ALL)
def test_every_lock_satisfies_its_inputs(name: str) -> None:
    stack = stacks.load(name)
    assert lockfile.stale(stack) == []
    assert lockfile.stale(stack.rehearse()) == []


@pytest.mark.parametrize("name", ALL)
def test_rehearsal_has_the_companions_of_the_stack(name: str) -> None:
    stack = stacks.load(name)
    replaced = {row.name.replace("_", "-") for row in stack.vendor}
    own, rehearsed = lockfile.read(stack.lock).expected(), lockfile.read(stack.rehearse().lock).expected()
    both = own.keys() & rehearsed.keys() - replaced
    assert {"numpy", "transformers", "peft", "ultralytics", "pytest"} <= both
    assert {key: own[key] for key in both} == {key: rehearsed[key] for key in both}


@pytest.mark.parametrize("name", [name for name in ALL if stacks.load(name).vendor])
def test_substitutes_are_the_upstream_of_the_vendor_wheels(name: str) -> None:
    stack = stacks.load(name)
    own = lockfile.read(stack.lock).expected()
    for package in ("torch", "torchvision"):
        assert f"{package}=={own[package].partition('+')[0]}" in stack.rehearsal.substitutes


def test_lock_that_fell_behind_is_said_for_each_python(tmp_path: Path) -> None:
    stack = copied(tmp_path, "cpu", "torch>=2.15,<2.16", "torch>=3")
    sentences = lockfile.stale(stack)
    assert len(sentences) == len(stack.pythons)
    assert sentences[0].endswith("pins torch 2.15.0 and requirements.in asks for torch>=3")


def test_new_input_is_missed_where_its_marker_holds(tmp_path: Path) -> None:
    stack = copied(tmp_path, "cpu", "numpy>=2,<3", 'numpy>=2,<3\nnew>=1; python_version > "3.12"')
    assert [sentence.partition(": ")[2] for sentence in lockfile.stale(stack)] == ["does not pin new for Python 3.13"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("numpy", "2: 'numpy' names a package without a range; write one such as 'numpy>=1,<2'"),
        ("numpy ; python_version > '3'", "names a package without a range"),
        ("numpy @ https://somewhere/numpy.whl", "names a package without a range"),
        ("numpy>=2 <3", "2: 'numpy>=2 <3' is not a requirement; write a name and a range"),
        ("-r other.in", "is not a requirement"),
        ("--index-url https://somewhere", "is not a requirement"),
    ],
)
def test_line_that_is_no_range_is_refused(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "requirements.in"
    path.write_text(f"# a comment\n{line}\n", encoding="utf-8")
    with pytest.raises(Refusal) as caught:
        lockfile.requirements(path)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_comments_and_blank_lines_are_no_requirements(tmp_path: Path) -> None:
    path = tmp_path / "requirements.in"
    path.write_text("# why\n\nnumpy>=2,<3  # why\n", encoding="utf-8")
    assert [str(row) for row in lockfile.requirements(path)] == ["numpy<3,>=2"]


def test_missing_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="every stack needs one"):
        lockfile.requirements(tmp_path / "requirements.in")


def test_overrides_are_optional(tmp_path: Path) -> None:
    assert lockfile.overrides(replace(stacks.load("cpu"), folder=tmp_path)) == []


@pytest.mark.parametrize("name", ALL)
def test_no_lock_holds_what_the_overrides_leave_out(name: str) -> None:
    stack = stacks.load(name)
    for lock in (lockfile.read(stack.lock), lockfile.read(stack.rehearse().lock)):
        assert lock.expected().keys() & {"opencv-python", "opencv-python-headless"} == {"opencv-python-headless"}
        assert not lock.expected().keys() & {"outlines", "pyairports"}
