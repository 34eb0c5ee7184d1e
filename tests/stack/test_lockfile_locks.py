"""Locks and the inputs that they are made from: read whole, or refused by file and line."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.stack import lockfile, stacks

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
BODY = f"""\
torch==2.8.0+xpu
    # no hash yet, from https://vendor.example/whl
numpy==2.2.6 ; python_full_version < '3.12' \\
    --hash={A} \\
    --hash={B}
    # via torch
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash={B}
./wheels/Thing_x-1.0+das.opt2-py3-none-any.whl \\
    --hash={A}
"""
HEADER = {
    "stack": "s",
    "kind": "stack",
    "python": "3.10",
    "platform": "any",
    "packages": "4",
    "unhashed": "1",
}
OLD, NEW = {"python_full_version": "3.11.7"}, {"python_full_version": "3.13.0"}
EVERY_LOCK = sorted(stacks.STACKS.glob("*/*.lock"), key=str)
LOCK_NAMES = [f"{path.parent.name}/{path.name}" for path in EVERY_LOCK]


def written(folder: Path, body: str = BODY, **header: str) -> Path:
    fields = {**HEADER, "content": lockfile.content_digest(body), **header}
    path = folder / "s" / "requirements.lock"
    path.parent.mkdir(exist_ok=True)
    (path.parent / "stack.toml").touch()
    path.write_text("".join(f"# {key}: {value}\n" for key, value in fields.items()) + body, encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(Refusal) as caught:
        lockfile.read(path)
    sentence = str(caught.value)
    assert str(path) in sentence and "`stackproof lock s`" in sentence and "\n" not in sentence
    return sentence


def test_pin_says_name_version_marker_and_hashes(tmp_path: Path) -> None:
    torch, numpy, _, thing = lockfile.read(written(tmp_path)).pins
    assert (torch.requirement, torch.hashes, torch.unhashed) == ("torch==2.8.0+xpu", (), True)
    assert (numpy.version, numpy.marker, numpy.hashes) == ("2.2.6", "python_full_version < '3.12'", (A, B))
    assert (thing.name, thing.version) == ("thing-x", "1.0+das.opt2")
    assert thing.text.startswith("./wheels/Thing_x-1.0+das.opt2-py3-none-any.whl ")


def test_digest_is_that_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert lockfile.read(path).digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_expected_versions_follow_the_interpreter(tmp_path: Path) -> None:
    lock = lockfile.read(written(tmp_path))
    assert lock.expected(OLD)["numpy"] == "2.2.6"
    assert lock.expected(NEW) == {"torch": "2.8.0+xpu", "numpy": "2.5.5", "thing-x": "1.0+das.opt2"}
    assert set(lock.expected()) == {"torch", "numpy", "thing-x"}


def test_split_keeps_hashed_and_unhashed_apart(tmp_path: Path) -> None:
    lock = lockfile.read(written(tmp_path))
    assert lock.vendor_text() == "torch==2.8.0+xpu\n"
    assert "torch" not in lock.hashed_text().replace("# via torch", "")
    assert lock.hashed_text().count("--hash=") == 4
    assert [pin.name for pin in lock.unhashed] == ["torch"]


@pytest.mark.parametrize("kept", range(1, len(BODY.splitlines())))
def test_truncation_is_noticed_wherever_it_happens(tmp_path: Path, kept: int) -> None:
    path = written(tmp_path)
    text = path.read_text(encoding="utf-8")
    body = "".join(BODY.splitlines(keepends=True)[:kept])
    path.write_text(text.replace(BODY, body), encoding="utf-8")
    refusal(path)


def test_missing_hash_line_is_named_by_its_number(tmp_path: Path) -> None:
    assert ":12: should be a hash" in refusal(
        written(tmp_path, BODY.replace(f"    --hash={B}\n    # via", "    # via"))
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [("2.2.6", "2.2.7"), ("b" * 64, "c" * 64), ("https://vendor", "https://else"), ("# packages: ", "# packages: 1")],
)
def test_edit_by_hand_is_refused(tmp_path: Path, before: str, after: str) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    assert "changed after it was made" in refusal(path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("<<<<<<< HEAD", "is not a pin ('<<<<<<< HEAD')"),
        ("numpy>=2", "is not a pin ('numpy>=2')"),
        ("numpy==two", "is not a pin (Invalid version"),
        ("numpy==2 ; python is old", "is not a pin ("),
        ("./wheels/thing.whl", "is not a pin (Invalid wheel filename"),
        ("https://somewhere/thing-1-py3-none-any.whl", "is not a pin ("),
        ("--index-url https://somewhere", "is not a pin ("),
    ],
)
def test_line_that_is_no_pin_is_named(tmp_path: Path, line: str, why: str) -> None:
    assert f":8: {why}" in refusal(written(tmp_path, f"{line}\n{BODY}"))


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(BODY, encoding="utf-8")
    assert "has no 'stack' in its header" in refusal(path)
    path.write_bytes(b"")
    assert "has no 'stack' in its header" in refusal(path)
    path.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in refusal(path)
    path.unlink()
    assert "No such file" in refusal(path)


def test_a_lock_of_no_stack_is_made_by_no_session(tmp_path: Path) -> None:
    path = written(tmp_path, "<<<<<<< HEAD\n")
    with pytest.raises(Refusal, match="is not a pin .*; name a lock, what `pip freeze`"):
        lockfile.read(path.rename(tmp_path / "some.lock"))


@pytest.mark.parametrize("header", [{"stack": "other"}, {"kind": "rehearsal"}, {"python": "2.7"}])
def test_a_lock_that_was_copied_from_elsewhere_is_refused(tmp_path: Path, header: dict[str, str]) -> None:
    folder = written(tmp_path, **header).parent
    stack = replace(stacks.load("cpu"), name="s", folder=folder)
    ((key, value),) = header.items()
    with pytest.raises(Refusal, match=f"is a lock of the {key} '{value}', and '.*' is asked for; restore it"):
        lockfile.own(stack)


@pytest.mark.parametrize("path", EVERY_LOCK, ids=LOCK_NAMES)
def test_every_lock_is_whole_and_names_its_command(path: Path) -> None:
    lock = lockfile.read(path)
    assert lock.header["stack"] == path.parent.name
    assert (lock.header["kind"] == "rehearsal") == (path.name == "rehearsal.lock")
    assert f"Made by `nox -s lock -- {path.parent.name}`" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", EVERY_LOCK, ids=LOCK_NAMES)
def test_every_lock_names_no_download_address(path: Path) -> None:
    stack = stacks.load(path.parent.name)
    sources = {row.index or row.file for row in stack.vendor}
    for line in path.read_text(encoding="utf-8").splitlines():
        if "://" in line or " @ " in line:
            assert line.lstrip().startswith("#") and line.split()[-1] in sources


@pytest.mark.parametrize("path", EVERY_LOCK, ids=LOCK_NAMES)
def test_only_vendor_wheels_may_lack_a_hash(path: Path) -> None:
    lock, stack = lockfile.read(path), stacks.load(path.parent.name)
    pins = (
        set() if lock.header["kind"] == "rehearsal" else {lockfile.canonicalize_name(row.name) for row in stack.vendor}
    )
    assert {pin.name for pin in lock.unhashed} <= pins


def test_every_stack_has_its_locks() -> None:
    wanted = {stack.folder / "requirements.lock" for stack in stacks.load_all()}
    wanted |= {stack.rehearse().lock for stack in stacks.load_all()}
    assert set(EVERY_LOCK) == wanted


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
