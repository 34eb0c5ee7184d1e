"""A folder goes with its process, also where that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stackproof.base import scratch

_MAKE = "from stackproof.base import scratch; import os, sys; print(scratch.folder('some-'), flush=True); "


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let temporary folders be made in a place of our own, by our processes too."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch.atexit, "register", lambda *_, **__: None)
    return tmp_path


def made(then: str) -> Path:
    """Let a process make one, and end as it is told to."""
    ended = subprocess.run([sys.executable, "-c", _MAKE + then], capture_output=True, text=True, check=False)
    return Path(ended.stdout.strip())


def test_it_goes_with_the_process() -> None:
    assert not made("").exists()


def test_what_a_killed_process_left_goes_with_the_next() -> None:
    left, own = made("os._exit(1)"), scratch.folder("some-")
    assert left.is_dir() and own.is_dir()
    for folder in (left, own):
        os.utime(folder, (0, 0))
    scratch.folder("some-")
    assert not left.exists() and own.is_dir()


def test_what_is_not_ours_to_take_stays(temporary: Path) -> None:
    (temporary / "some-other").mkdir()
    (temporary / "some-link").symlink_to(temporary / "some-other")
    os.utime(temporary / "some-other", (0, 0))
    scratch.folder("some-")
    assert (temporary / "some-other").is_dir() and (temporary / "some-link").is_symlink()
