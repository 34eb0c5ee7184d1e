"""A command runs without a shell, ends by its deadline with all that it started, and its last words are safe to show."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.jobs import launch


def _run(tmp_path: Path, code: str, deadline: float = 60.0) -> tuple[launch.CommandEnd, str]:
    log = tmp_path / "log"
    ended = launch.run([sys.executable, "-S", "-c", code], tmp_path, {"A": "$B"}, log, deadline)
    return ended, launch.last_words(log)


def test_a_command_that_ends_well_says_what_it_took(tmp_path: Path) -> None:
    ended, said = _run(tmp_path, "import os; print(os.getcwd(), os.environ['A'])")
    assert (ended.status, ended.hung) == (0, False)
    assert said == f"{tmp_path} $B"
    assert ended.peak > 1 << 20 and ended.seconds > 0


def test_a_failure_and_a_signal_are_told_apart(tmp_path: Path) -> None:
    ended, said = _run(tmp_path, "print('\\x1b[31mred\\u202e'); raise SystemExit(7)")
    assert ended.words == "ended with exit code 7"
    assert said == "\\x1b[31mred\\u202e"
    ended, _ = _run(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert ended.words == "ended with signal SIGKILL"


def test_a_hang_ends_with_its_children_and_says_where_it_was(tmp_path: Path) -> None:
    code = f"""import subprocess, time
print('x', flush=True)
child = subprocess.Popen(['sleep', '300'])
open({str(tmp_path / "pid")!r}, 'w').write(str(child.pid))
time.sleep(300)"""
    ended, said = _run(tmp_path, code, deadline=4.0)
    assert ended.hung and ended.status == -signal.SIGABRT
    assert said.startswith('File "<string>", line 5')
    command_line = Path("/proc", (tmp_path / "pid").read_text(), "cmdline")
    assert not command_line.exists() or not command_line.read_bytes()  # nobody, or one that only waits to be reaped


def test_what_cannot_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="'no-such-program' cannot be started"):
        launch.run(["no-such-program"], tmp_path, {}, tmp_path / "log", 5)
    with pytest.raises(Refusal, match="no such folder"):
        launch.run([sys.executable], tmp_path / "nothing", {}, tmp_path / "log", 5)
