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
    assert 'File "<string>", line 5' in said
    command_line = Path("/proc", (tmp_path / "pid").read_text(), "cmdline")
    assert not command_line.exists() or not command_line.read_bytes()  # nobody, or one that only waits to be reaped


def test_what_cannot_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="'no-such-program' cannot be started"):
        launch.run(["no-such-program"], tmp_path, {}, tmp_path / "log", 5)
    with pytest.raises(Refusal, match="no such folder"):
        launch.run([sys.executable], tmp_path / "nothing", {}, tmp_path / "log", 5)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python train.py --steps 50", ["python", "train.py", "--steps", "50"]),
        ("sh -c 'a | b > c'", ["sh", "-c", "a | b > c"]),
        ("python t.py --pattern 'a*b' \"x;y\" c\\;d", ["python", "t.py", "--pattern", "a*b", "x;y", "c;d"]),
        ("env A=1 python t.py", ["env", "A=1", "python", "t.py"]),
    ],
)
def test_words_are_those_of_a_shell(command: str, found: list[str]) -> None:
    assert launch.split_command(command) == found


@pytest.mark.parametrize(
    ("command", "thing"),
    [
        ("python a.py && python b.py", "'&'"),
        ("python a.py | tee log", "'|'"),
        ("python a.py > log", "'>'"),
        ("python a.py; true", "';'"),
        ("python a.py $HOME", "'$'"),
        ('python a.py "$HOME"', "'$'"),
        ("python a.py `date`", "'`'"),
        ("python a.py data/*.csv", "'*'"),
        ("OMP_NUM_THREADS=1 python a.py", "'OMP_NUM_THREADS='"),
        ("cd x", "'cd'"),
        ("python 'a.py", "close the quotes"),
        ("", "is empty"),
        ("   ", "is empty"),
    ],
)
def test_what_needs_a_shell_is_refused_with_the_way_out(command: str, thing: str) -> None:
    with pytest.raises(Refusal, match="--command") as refused:
        launch.split_command(command)
    assert thing in str(refused.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["t.py", "--token", "hf_x", "a"], "t.py --token '***' a"),
        (["t.py", "--api-key=abc"], "t.py '--api-key=***'"),
        (["env", "HF_TOKEN=abc", "t.py"], "env 'HF_TOKEN=***' t.py"),
        (["t.py", "--tokens-per-step", "5"], "t.py --tokens-per-step '***'"),
        (["t.py", "--steps", "5"], "t.py --steps 5"),
    ],
)
def test_a_record_holds_no_secret(given: list[str], shown: str) -> None:
    assert launch.shown(given) == shown


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("python train.py a", ["train.py", "a"]),
        ("uv run /usr/bin/python3.11 -u -X dev -W error train.py", ["train.py"]),
        ("python -m pkg.train --x", ["-m", "pkg.train", "--x"]),
        ("python -c 'print(1)'", None),
        ("python", None),
        ("python -m", None),
        ("torchrun train.py", None),
    ],
)
def test_pythons_file_is_found(command: str, rest: list[str] | None, tmp_path: Path) -> None:
    words = launch.split_command(command)
    at = launch.python_at(words)
    assert (None if at is None else words[at:]) == rest
    if at is not None:
        assert launch.inside(words, at, tmp_path)[-len(words[at:]) - 1 :] == ["--", *words[at:]]
