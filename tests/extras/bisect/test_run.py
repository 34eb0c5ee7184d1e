"""The verb from its flags to its record, with commands that take no time: what it finds, what it refuses, and what is left after a stop."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.extras.bisect.verb import FIVE, Run

pytestmark = pytest.mark.slow  # seconds each: Python and its statistics are started

_PAIR = "import os, sys\nsys.exit(os.environ.get('A') == os.environ.get('C') == '1')\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return the verb in a folder."""
    return Run(tmp_path)


def test_a_pair_of_variables_is_named_and_proved(run: Run) -> None:
    ended = run(_PAIR, "--markdown", str(run.folder / "page.md"), "--junit", str(run.folder / "j.xml"))
    assert ended.returncode == 0, ended.stderr
    assert "FOUND: A=0 -> 1 + C=0 -> 1" in ended.stdout and "an interaction" in ended.stdout
    record = run.record()
    assert record["verdict"] == "passed" and record["provenance"]["remedy"] == "export A=0; export C=0"
    assert "FOUND" in (run.folder / "page.md").read_text() and (run.folder / "j.xml").exists()


def test_ends_that_are_alike_have_an_exit_code_of_their_own(run: Run) -> None:
    ended = run("raise SystemExit(0)\n")
    assert ended.returncode == 7 and "NOT REPRODUCED" in ended.stdout
    assert (
        "does not fail in 20 runs of the bad side: a failure in 14% of them or more would have shown" in ended.stdout
        and run.record()["verdict"] == "inconclusive"
    )


def test_ends_that_are_swapped_show_as_a_good_side_that_fails(run: Run) -> None:
    ended = run(_PAIR.replace("== '1'", "== '0'"))
    assert ended.returncode == 6 and "GOOD SIDE TURNED BAD: the good side failed" in ended.stdout


def test_a_good_side_that_turns_bad_ends_it_without_blame(run: Run) -> None:
    count = "import os, pathlib\npath = pathlib.Path('count'); path.write_text(path.read_text() + '.' if path.exists() else '.')\n"
    ended = run(count + "raise SystemExit(os.environ['A'] == '1' or len(path.read_text()) > 12)\n")
    assert ended.returncode == 6 and "the good side fails now too" in ended.stdout
    assert not [check for check in run.record()["checks"] if "culprit" in check["id"]]


def test_a_hang_is_found_within_the_deadline(run: Run) -> None:
    program = "import os, time\nos.environ['B'] == '1' and time.sleep(60)\nos.environ['D'] == '1' and os.abort()\n"
    ended = run(program, "--deadline", "1")
    assert ended.returncode in (0, 6), ended.stderr
    assert "B=0 -> 1: on the good side it is bad" in ended.stdout and "hung in 5 of 5 runs" in ended.stdout


@pytest.mark.parametrize("at", [1, 2, 12])
def test_ctrl_c_in_any_phase_loses_nothing(run: Run, at: int) -> None:
    stop = "import os, pathlib, signal\npath = pathlib.Path('count'); path.write_text(path.read_text() + '.' if path.exists() else '.')\n"
    stop += f"len(path.read_text()) == {at} and os.kill(os.getppid(), signal.SIGINT)\n"
    ended = run(stop + _PAIR)
    assert (
        ended.returncode == 130
        and "INTERRUPTED" in ended.stdout
        and "to go on: the same command with --continue\n" in ended.stdout
    )
    assert run.record()["verdict"] == "interrupted"
    (journal,) = run.journals()
    known = len(journal.read_text().splitlines()) - 1
    assert known == at - 1
    runs = len((run.folder / "count").read_text())
    again = run(stop + _PAIR, "--continue")
    assert again.returncode == 0 and "FOUND: A=0 -> 1 + C=0 -> 1" in again.stdout
    whole = len(run.journals()[0].read_text().splitlines()) - 1
    assert len((run.folder / "count").read_text()) == runs + whole - known + 1  # the good side at the end is always run


def test_a_kill_that_nobody_can_answer_loses_one_run(run: Run) -> None:
    stop = "import os, pathlib, signal\npath = pathlib.Path('count'); path.write_text(path.read_text() + '.' if path.exists() else '.')\n"
    stop += "len(path.read_text()) == 6 and os.kill(os.getppid(), signal.SIGKILL)\n"
    assert run(stop + _PAIR).returncode == -9 and not (run.folder / "told.json").exists()
    assert len(run.journals()[0].read_text().splitlines()) == 6
    again = run(stop + _PAIR, "--continue")
    assert again.returncode == 0 and "FOUND: A=0 -> 1 + C=0 -> 1" in again.stdout


def test_the_journal_of_another_search_is_refused(run: Run) -> None:
    run(_PAIR)
    ended = run(_PAIR, "--continue", str(run.journals()[0]), flags=[*FIVE, "--bad-env", "F=1"])
    assert ended.returncode == 2 and "cannot be continued: 'bad side' is" in ended.stderr


def test_a_search_does_not_go_on_with_another_state_of_the_code(run: Run) -> None:
    git = ["git", "-C", str(run.folder), "-c", "user.email=a@b", "-c", "user.name=n"]
    (run.folder / "code.py").write_text("one\n")
    for words in (["init", "-q"], ["add", "code.py"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    assert run(_PAIR).returncode == 0
    changed = run(_PAIR + "# another\n", "--continue")
    assert changed.returncode == 2 and "'files of the command' is '" in changed.stderr
    (run.folder / "code.py").write_text("two\n")
    dirty = run(_PAIR, "--continue")
    assert dirty.returncode == 2 and "'changes since HEAD' is '" in dirty.stderr
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    moved = run(_PAIR, "--continue")
    assert moved.returncode == 2 and "'HEAD' is '" in moved.stderr


def test_commits_of_a_project_are_searched_by_first_parent(run: Run) -> None:
    project = run.folder / "project"
    project.mkdir()
    git = ["git", "-C", str(project), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in range(1, 10):
        (project / "stackproof.toml").write_text('name = "mine"\n')
        (project / "state.py").write_text(f"code = {125 if number == 3 else int(number > 5)}\nnumber = {number}\n")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"Step {number}"], check=True)
    program = "import os, runpy\nplace = os.environ['STACKPROOF_PROJECT']\n"
    program += "raise SystemExit(runpy.run_path(os.path.join(place, 'state.py'))['code'])\n"
    ended = run(program, "--project", str(project), flags=["--good", "HEAD~8", "--bad", "HEAD"])
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert (
        "the first bad commit is" in ended.stdout
        and "(Step 6), " in ended.stdout
        and "sure among 8" in ended.stdout
        and "git revert" in ended.stdout
    )
    swapped = run(program, "--project", str(project), flags=["--good", "HEAD", "--bad", "HEAD~8"])
    assert swapped.returncode == 2 and "does not come before the bad one" in swapped.stderr


def test_a_command_that_is_not_there_is_refused(run: Run) -> None:
    words = run.words()
    words[words.index("--command") + 1] = "no-such-program"
    ended = subprocess.run(words, env=run.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2 and "'no-such-program' cannot be started" in ended.stderr
