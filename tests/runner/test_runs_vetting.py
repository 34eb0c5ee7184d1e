"""What a project offers is looked at in the environment in which it will run, and its facts are kept."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.base.errors import Refusal
from stackproof.project import projects
from stackproof.runner import runs

ANSWER = {"mine": {"file": "{}/workloads/mine.py", "digest": "ab" * 32, "seen": "3 trainable numbers, SGD, x (2,)"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with one file, which this process is about."""
    (tmp_path / "stackproof.toml").write_text('name = "ours"\n', encoding="utf-8")
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "mine.py").write_text("", encoding="utf-8")
    monkeypatch.setenv(places.PROJECT, str(tmp_path))
    projects.current.cache_clear()
    yield tmp_path
    projects.current.cache_clear()


def python(folder: Path, script: str) -> Path:
    """Return what stands in for an interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_each_workload_is_told_with_its_file(folder: Path) -> None:
    answer = json.dumps(ANSWER).replace("{}", str(folder))
    found = runs.vet(python(folder, f"echo noise; echo '{answer}'"))
    assert found is not None
    assert found.facts()["workload.mine"] == f"workloads/mine.py {'ab' * 32}"
    assert found.facts()["project"] == "ours"
    assert "1 workload: mine (workloads/mine.py abababababab: 3 trainable numbers" in found.sentence()


def test_a_refusal_is_passed_on_as_it_is(folder: Path) -> None:
    with pytest.raises(Refusal, match=r"^mine.py: lacks all$"):
        runs.vet(python(folder, "echo warning >&2; echo 'mine.py: lacks all' >&2; exit 2"))
    with pytest.raises(Refusal, match="Segmentation"):
        runs.vet(python(folder, "echo Segmentation fault >&2; exit 139"))


def test_a_file_that_ends_its_process_is_named(folder: Path) -> None:
    for how, words in (("exit 0", "exit code 0"), ("kill -SEGV $$", "signal SIGSEGV")):
        with pytest.raises(Refusal, match=f"^/w/mine.py: ended its process with {words} as it was imported"):
            runs.vet(python(folder, f"echo /w/mine.py; {how}"))


def test_what_does_not_end_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_SECONDS", 0.2)
    with pytest.raises(Refusal, match="were not built in 0 s"):
        runs.vet(python(folder, "exec sleep 30"))


def test_without_a_project_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.PROJECT, "")
    projects.current.cache_clear()
    assert runs.vet(Path("/nonexistent/python")) is None
    projects.current.cache_clear()


def test_what_only_asks_a_project_needs_no_package_for_pages() -> None:
    code = "import sys; sys.modules['rich'] = None; from stackproof.runner.runs import vet"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
