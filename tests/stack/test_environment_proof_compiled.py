"""Compiled files: what Python would run in place of a source is what that source compiles to, or is told."""

from __future__ import annotations

import importlib.util
import marshal
import os
import py_compile
import struct
import sys
from pathlib import Path

import pytest

from stackproof.stack import environment_proof

GOOD, BAD = "def bound():\n    return 1\n", "def bound():\n    return 9\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "module.py"
    path.write_text(GOOD, encoding="utf-8")
    py_compile.compile(str(path), doraise=True)
    return path


def poisoned(source: Path, flags: int = 0, header: bytes | None = None, text: str = BAD) -> Path:
    """Write other code where Python looks for the compiled source, with a header that it takes."""
    seen = source.stat()
    right = struct.pack("<II", int(seen.st_mtime), seen.st_size) if header is None else header
    target = Path(importlib.util.cache_from_source(str(source)))
    body = marshal.dumps(compile(text, str(source), "exec"))
    target.write_bytes(importlib.util.MAGIC_NUMBER + struct.pack("<I", flags) + right + body)
    return target


def said(source: Path, deep: bool = False) -> list[str]:
    return environment_proof.compiled_complaints([source.parent], source.parent / "cache.json", deep)


def test_what_python_compiled_is_right(source: Path) -> None:
    assert not said(source) and not said(source) and not said(source, deep=True)


@pytest.mark.parametrize("level", [1, 2])
def test_optimised_code_is_compared_at_its_level(source: Path, level: int) -> None:
    source.write_text('"""Text."""\nassert True\n', encoding="utf-8")
    py_compile.compile(str(source), doraise=True, optimize=level)
    assert not said(source)


def test_other_code_under_the_right_time_and_size_is_told(source: Path) -> None:
    poisoned(source)
    assert "is not what module.py compiles to" in said(source)[0]


def test_other_code_is_told_although_the_right_one_was_there_before(source: Path) -> None:
    assert not said(source)
    poisoned(source)
    assert said(source) and said(source)


def test_code_that_is_taken_without_a_look_is_told(source: Path) -> None:
    poisoned(source, flags=1, header=b"x" * 8, text=GOOD)
    assert "without a look at it" in said(source)[0]


def test_other_code_under_the_right_hash_is_told(source: Path) -> None:
    poisoned(source, flags=3, header=importlib.util.source_hash(source.read_bytes()))
    assert "is not what module.py compiles to" in said(source)[0]


@pytest.mark.parametrize("header", [b"\0" * 8, b"x" * 8])
def test_what_python_does_not_take_harms_nothing(source: Path, header: bytes) -> None:
    poisoned(source, header=header)
    assert not said(source)


def test_code_without_its_source_is_not_taken(source: Path) -> None:
    poisoned(source)
    source.unlink()
    assert not said(source)


def test_what_cannot_be_read_as_code_is_told(source: Path) -> None:
    target = poisoned(source)
    target.write_bytes(target.read_bytes()[:16] + b"nothing")
    assert said(source)


@pytest.mark.parametrize("which", ["source", "compiled"])
def test_a_pipe_is_told_and_not_waited_for(source: Path, which: str) -> None:
    path = source if which == "source" else Path(importlib.util.cache_from_source(str(source)))
    path.unlink()
    os.mkfifo(path)
    assert f"is not compared: {path.name} is no file" in said(source)[0]


def test_rewritten_code_of_pytest_is_removed(source: Path) -> None:
    rewritten = source.parent / "__pycache__" / "test_x.cpython-311-pytest-9.0.0.pyc"
    rewritten.write_bytes(b"anything")
    assert not said(source) and not rewritten.exists()


def test_what_lies_elsewhere_stays_remembered_while_it_is_there(
    source: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, other = source.parent / "cache.json", tmp_path_factory.mktemp("other") / "second.py"
    other.write_text(GOOD, encoding="utf-8")
    target = Path(py_compile.compile(str(other), doraise=True) or "")
    read, faults = list[str](), environment_proof._faults

    def seen(paths: list[str]) -> list[str]:
        read.extend(paths)
        return faults(paths)

    monkeypatch.setattr(environment_proof, "_faults", seen)
    for folder in (source.parent, other.parent) * 2:
        assert not environment_proof.compiled_complaints([folder], cache)
    assert sorted(Path(path).name.partition(".")[0] for path in read) == ["module", "second"]
    target.unlink()
    assert not environment_proof.compiled_complaints([source.parent], cache) and "second" not in cache.read_text(
        encoding="utf-8"
    )


def test_an_edited_source_with_its_old_date_is_compared_again(source: Path) -> None:
    assert not said(source)
    old = source.stat()
    source.write_text(BAD, encoding="utf-8")
    os.utime(source, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert "is not what module.py compiles to" in said(source)[0]


def a_killer(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have compiled files read by what dies of one that is called `deadly`, as marshal may."""
    reader = folder / "reader.py"
    reader.write_text(
        "import json, os, signal, sys\n"
        "for line in sys.stdin:\n"
        "    if 'deadly' in line:\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    print(json.dumps(''), flush=True)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(environment_proof, "_READER", (sys.executable, "-I", "-S", str(reader)))


def test_a_file_that_kills_its_reader_is_told_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_killer(monkeypatch, tmp_path)
    code = tmp_path / "code"
    code.mkdir()
    for name in ("before", "deadly", "deadly_too", "behind"):
        (code / f"{name}.py").write_text(GOOD, encoding="utf-8")
        py_compile.compile(str(code / f"{name}.py"), doraise=True)
    for _ in range(2):
        found = environment_proof.compiled_complaints([code], tmp_path / "cache.json")
        assert len(found) == 2
        assert all("deadly" in one and "ends with signal SIGSEGV" in one for one in found)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xe3" + b"\xff" * 40,  # code whose counts are absurd
        b"(\xff\xff\xff\x7f",  # a tuple of two thousand million members
        b"r\x05\x00\x00\x00",  # a reference to what was never there
        b"\xa9\x01" * 100_000,  # nested deeper than any stack
        b"i\x07\x00\x00\x00",  # a number instead of code
    ],
)
def test_any_bytes_behind_the_header_are_told(source: Path, body: bytes) -> None:
    target = poisoned(source)
    target.write_bytes(target.read_bytes()[:16] + (body or b"\0"))
    assert len(said(source)) == 1
