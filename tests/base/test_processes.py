"""Process trees: found by their mark, ended with everything that they started, described by the name of their signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stackproof.base import processes

GRANDCHILDREN = """
import subprocess, sys, time
subprocess.Popen(["setsid", "sleep", "600"])
print("ready", flush=True)
time.sleep(600)
"""


def start(script: str, log: Path, mark: str) -> subprocess.Popen[bytes]:
    """Start a Python script under a mark and wait until it says ready."""
    with log.open("wb") as output:
        child = processes.start([sys.executable, "-c", script], output, {}, mark)
    until = time.monotonic() + 20
    while b"ready" not in log.read_bytes() and time.monotonic() < until:
        time.sleep(0.02)
    return child


def test_end_tree_also_ends_what_left_the_session(tmp_path: Path) -> None:
    """A grandchild in a session of its own carries the mark and is ended with the rest."""
    mark = processes.new_mark()
    child = start(GRANDCHILDREN, tmp_path / "log", mark)
    assert len(processes.marked(mark)) >= 2
    processes.end_tree(mark, child)
    assert processes.marked(mark) == []
    assert child.returncode == -signal.SIGKILL


def test_end_tree_leaves_others_alone(tmp_path: Path) -> None:
    """Only processes with the mark are ended."""
    mine, theirs = processes.new_mark(), processes.new_mark()
    child = start("import time; print('ready', flush=True); time.sleep(600)", tmp_path / "log", theirs)
    processes.end_tree(mine)
    assert child.poll() is None
    processes.end_tree(theirs, child)


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    """A process that asked for it is gone when its parent is killed, which no handler could see."""
    mark = processes.new_mark()
    said = "import time; print('ready', flush=True); time.sleep(600)"
    inner = f"from stackproof.base.processes import die_with_parent; die_with_parent(); {said}"
    outer = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}]).wait()"
    parent = start(outer, tmp_path / "log", mark)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until = time.monotonic() + 5
    while processes.marked(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert processes.marked(mark) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (-11, "signal SIGSEGV"), (-9, "signal SIGKILL"), (-200, "signal 200")],
)
def test_an_exit_is_described(status: int, words: str) -> None:
    """Signals have names."""
    assert words == processes.describe_exit(status)


def test_last_lines_of_any_bytes(tmp_path: Path) -> None:
    """A log may hold anything; its end is still told."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100_000 + b"\n\xff\xfe one\n\n\x00two\n")
    assert ["\ufffd\ufffd one", "\x00two"] == processes.last_lines(log, 2)
    assert processes.last_lines(tmp_path / "absent") == []


def test_a_run_inside_a_run_is_found_by_both_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that a check launched are ended with the check's process, and alone."""
    outer, inner = processes.new_mark(), processes.new_mark()
    monkeypatch.setenv(processes.MARK, outer)
    child = start("import time; print('ready', flush=True); time.sleep(600)", tmp_path / "log", inner)
    assert [child.pid] == processes.marked(inner)
    assert child.pid in processes.marked(outer)
    processes.end_tree(outer, child)
    assert processes.marked(inner) == []


def test_the_mark_is_inherited(tmp_path: Path) -> None:
    """Children see the mark in their environment, whoever starts them."""
    mark = processes.new_mark()
    with (tmp_path / "log").open("wb") as output:
        child = processes.start(
            [sys.executable, "-c", "import os; print(os.environ['STACKPROOF_RUN'])"], output, {}, mark
        )
    child.wait()
    assert mark == (tmp_path / "log").read_text().strip()
    assert os.environ.get(processes.MARK) != mark


def test_what_must_be_finished_is_not_disturbed() -> None:
    """A SIGTERM that comes meanwhile is ignored, and one that comes after it is heard."""
    with processes.undisturbed():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
