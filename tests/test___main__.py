"""`python -m stackproof` in an environment of ours: no compiled code but its own runs' is loaded, and damage is a sentence."""

from __future__ import annotations

import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base import places

from . import fakes

LIE = "print('planted')\n"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter of an environment with our stamp, in which nothing is installed."""
    python = fakes.venv(tmp_path / "environment")
    (tmp_path / "environment" / places.STAMP.name).write_text('{"stack": "tiny"}', encoding="utf-8")
    fakes.borrowed(tmp_path / "borrowed")
    fakes.lock(fakes.stack(fakes.checkout(tmp_path), "tiny"), "torch==9.1.0\n")
    return python


def version(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    root = python.parents[2]
    path = {"PYTHONPATH": f"{root / 'src'}:{root / 'borrowed'}"}
    return fakes.attempt([str(python), "-m", "stackproof", *(words or ("--version",))], env=path)


def plant(path: Path) -> None:
    """Write what Python takes without a look at the source (PEP 552, unchecked)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"\0" * 8
    path.write_bytes(header + marshal.dumps(compile(LIE, "cli.py", "exec")))


def test_compiled_code_that_no_run_left_is_not_loaded(python: Path) -> None:
    source, compiled = python.parents[2] / "src" / "stackproof", python.parents[1] / "compiled"
    name = f"cli.{sys.implementation.cache_tag}.pyc"
    own = compiled / str(source).lstrip("/") / name
    plant(source / "__pycache__" / name)
    plant(own)
    first = version(python)
    assert (first.returncode, "planted" in first.stdout) == (0, False), first.stderr
    left = own.stat().st_ino
    version(python)
    assert own.stat().st_ino == left  # what a run left is not compiled again
    plant(own)
    assert "planted" not in version(python).stdout
    own.unlink()
    own.symlink_to(source / "__pycache__" / name)
    assert "planted" not in version(python).stdout


def test_a_source_whose_size_and_time_are_the_same_is_compiled_again(python: Path) -> None:
    path = python.parents[2] / "src" / "stackproof" / "cli.py"
    path.write_text(f"{path.read_text(encoding='utf-8')}print('before')\n", encoding="utf-8")
    assert "before" in version(python).stdout
    seen = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("'before'", "'behind'"), encoding="utf-8")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert "behind" in version(python).stdout


@pytest.mark.parametrize("text", [None, "def (", "", "1 / 0"], ids=["gone", "no Python", "empty", "raises"])
def test_a_damaged_module_of_what_we_import_is_one_sentence(python: Path, text: str | None) -> None:
    borrowed = python.parents[2] / "borrowed" / "packaging"
    (site,) = python.parents[1].glob("lib/python3*/site-packages")
    packaging = site / "packaging"
    shutil.copytree(borrowed.resolve(), packaging)
    borrowed.unlink()
    (packaging / "version.py").unlink()
    if text is not None:
        (packaging / "version.py").write_text(text, encoding="utf-8")
    ended = version(python, "smoke", "--stack", "tiny")
    assert ended.returncode == 4 and len(ended.stderr.splitlines()) == 1, ended.stderr
    assert ended.stderr.startswith(f"stackproof: MISMATCHED: the environment {python.parents[1]} is damaged")
    assert "delete that folder and run the session again" in ended.stderr


def test_a_module_of_ours_that_is_gone_is_not_the_environments(python: Path) -> None:
    (python.parents[2] / "src" / "stackproof" / "record" / "records.py").unlink()
    ended = version(python, "smoke", "--stack", "tiny")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    assert "own files are damaged" in ended.stderr


def test_what_hides_a_module_of_pythons_own_is_not_taken_for_it(python: Path) -> None:
    hidden = python.parents[2] / "borrowed"
    for name in ("json", "random", "statistics"):
        (hidden / f"{name}.py").write_text("x = 1\n", encoding="utf-8")
    assert version(python).returncode == 0, version(python).stderr
