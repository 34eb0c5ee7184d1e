"""What each side of a command is, for real: its own environment and its own checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.extras.bisect.verb import Run

pytestmark = pytest.mark.slow  # seconds each: Python and its statistics are started

_TWO = ["--bad-env", "A=1", "--bad-env", "B=1"]
_COMMITS = ["--good", "HEAD~2", "--bad", "HEAD"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return the verb in a folder."""
    return Run(tmp_path)


def inside(run: Run, folder: Path, *ends: str) -> subprocess.CompletedProcess[str]:
    """Search commits of the repository in which one stands, with its own program."""
    words = [sys.executable, "-m", "stackproof", "bisect", "--stack", "cpu", "--unpinned", sys.executable, *ends]
    words += ["--results", str(run.folder / "results"), "--json", str(run.folder / "told.json")]
    words += ["--command", f"{sys.executable} tells.py"]
    return subprocess.run(
        words, cwd=folder, env=run.environment(), capture_output=True, text=True, timeout=120, check=False
    )


def git(folder: Path, *words: str) -> str:
    """Call git as somebody."""
    command = ["git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@example.org", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_failure_that_comes_and_goes_is_named(run: Run) -> None:
    program = "import os, pathlib\npath = pathlib.Path('count'); n = len(path.read_text()) if path.exists() else 0\n"
    program += "bad = os.environ['D'] == '1'\npath.write_text('.' * (n + bad))\nraise SystemExit(bad and n % 2 == 0)\n"
    ended = run(program)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "FOUND: D=0 -> 1\n" in ended.stdout and "failed in 8 of 15 runs of the bad side" in ended.stdout
    assert "in 0 of 15 of the good side" in ended.stdout


def test_a_second_culprit_that_fails_less_often_leaves_the_first_unproved(run: Run) -> None:
    program = "import os, pathlib\npath = pathlib.Path('count')\n"
    program += "path.write_text((path.read_text() if path.exists() else '') + '.' * (os.environ['D'] == '1'))\n"
    program += "third = os.environ['D'] == '1' and len(path.read_text()) % 4 == 2\n"
    ended = run(program + "raise SystemExit(os.environ['B'] == '1' or third)\n")
    assert ended.returncode == 6 and "UNPROVED: B=0 -> 1\n" in ended.stdout, ended.stdout
    assert "something else fails too" in ended.stdout and "because there is another" in ended.stdout
    (culprit,) = [check for check in run.record()["checks"] if "culprit" in check["id"]]
    assert 0 < culprit["figures"]["without, failed"] < culprit["figures"]["without, runs"], culprit


def test_a_variable_that_is_exported_is_gone_on_the_side_that_lacks_it(run: Run) -> None:
    ended = run("import os\nraise SystemExit('A' in os.environ)\n", flags=_TWO, env={"A": "1", "B": "exported"})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "FOUND: A=none -> 1\n" in ended.stdout


def test_commits_of_a_repository_of_ones_own_are_run_in_their_own_checkouts(run: Run) -> None:
    home = run.folder / "mine"
    (home / "inner").mkdir(parents=True)
    git(home, "init", "-q")
    for code in (0, 0, 1):
        (home / "inner" / "tells.py").write_text(
            f"import os, pathlib, signal\nprint(pathlib.Path.cwd())\n"
            f"pathlib.Path({str(run.folder)!r}, 'stop').exists() and os.kill(os.getppid(), signal.SIGINT)\nraise SystemExit({code})\n"
        )
        (home / "other").write_text(str(os.urandom(4)))
        git(home, "add", "-A")
        git(home, "commit", "-q", "-m", f"Ends with {code}")
    ended = inside(run, home / "inner", *_COMMITS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "FOUND: commit" in ended.stdout and "(Ends with 1)" in ended.stdout
    assert git(home, "worktree", "list").count("\n") == 1 and git(home, "status", "--porcelain") == ""
    (run.folder / "stop").touch()
    assert "still suspected: commits" in inside(run, home / "inner", *_COMMITS).stdout


@pytest.mark.parametrize(("codes", "edit", "said"), [
    ((0, 0, 1), "# a note\n", "FOUND: commit"), ((0, 0, 0), "raise SystemExit(1)\n", "FOUND: what is not committed here")
])  # fmt: skip
def test_an_edited_checkout_is_its_commits_and_then_the_edit(
    run: Run, codes: tuple[int, ...], edit: str, said: str
) -> None:
    home = run.folder / "mine"
    home.mkdir()
    git(home, "init", "-q")
    for number, code in enumerate(codes):
        (home / "tells.py").write_text(f"# {number}\nimport sys\nif {code}: sys.exit({code})\n")
        git(home, "add", "-A")
        git(home, "commit", "-q", "-m", f"Ends with {code}")
    with (home / "tells.py").open("a") as edited:
        edited.write(edit)
    ended = inside(run, home, "--good", "HEAD~2")
    assert ended.returncode == 0 and said in ended.stdout, ended.stdout + ended.stderr
    assert ("(Ends with 1)" in ended.stdout) == (codes[-1] == 1)


def test_ends_that_say_nothing_leave_nothing_to_say(run: Run) -> None:
    ended = run("raise SystemExit(125)\n")
    assert ended.returncode == 6 and "CANNOT SAY: no run of the good side could be judged" in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_command_too(run: Run, number: signal.Signals) -> None:
    started = run.folder / "started"
    program = "import pathlib, subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
    program += f"pathlib.Path({str(started)!r}).write_text(str(child.pid))\nchild.wait()\n"
    run.script.write_text(program)
    verb = subprocess.Popen(
        run.words(), cwd=run.folder, env=run.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (started.exists() and started.read_text()) and verb.poll() is None:
        time.sleep(0.05)
    verb.send_signal(number)
    said, _ = verb.communicate(timeout=60)
    assert verb.returncode == 130 and "INTERRUPTED" in said and run.record()["verdict"] == "interrupted"
    assert not _runs(started.read_text())


def _runs(process: str) -> bool:
    """Whether it does; one that has ended may wait for whoever takes its end down."""
    try:
        return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_verdict_is_said_before_a_file_that_cannot_be_written(run: Run) -> None:
    told = "import os\nraise SystemExit(os.environ['A'] == '1')\n"
    ended = run(told, "--json", "/dev/full", env={"TMPDIR": str(run.folder)})  # where the record is saved instead
    assert ended.returncode == 2 and "FOUND: A=0 -> 1" in ended.stdout
    assert "/dev/full" in ended.stderr and "Traceback" not in ended.stderr


def test_one_change_is_one(run: Run) -> None:
    ended = run("import os\nraise SystemExit(bool(os.environ.get('A')))\n", "--markdown", str(run.folder / "page.md"),
                flags=["--bad-env", "A=one; two\nthree"])  # fmt: skip
    assert "1 change\n" in ended.stdout and "1 change in 1 unit" in ended.stdout
    page = (run.folder / "page.md").read_text()
    assert page.partition("<summary>")[2].count("\n- ") == 1 and "one; two" in page
