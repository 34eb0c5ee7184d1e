"""The doctor as people type it: in a bare Python, into a file, into an issue, with its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .. import fakes

CARD = '\n[[host]]\nwhat = "a card that nobody has"\npaths = ["/nonexistent/card"]\n'
COUNTS = ("PROBLEM  ", "NO PROBLEM  ")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the stacks 'tiny', which any host has, and 'card', which none has."""
    root = fakes.checkout(tmp_path_factory.mktemp("doctor") / "checkout")
    fakes.lock(fakes.stack(root), "torch==9.1.0\n")
    fakes.stack(root, "card", fakes.TINY + CARD)
    return root


def doctor(
    root: Path, *arguments: str, python: str = sys.executable, path: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the verb in a process of its own."""
    command = [python, "-m", "stackproof", "doctor", *arguments]
    return fakes.attempt(command, env={"PYTHONPATH": f"{root / 'src'}:{path}", **env}, cwd=root)


def only(folder: Path, *names: str) -> Path:
    """Return a folder for PYTHONPATH with no more than these packages."""
    for link in fakes.borrowed(folder).iterdir():
        if link.name not in names:
            link.unlink()
    return folder


def test_a_bare_python_is_enough(checkout: Path, tmp_path: Path) -> None:
    python = fakes.venv(tmp_path / "bare")
    borrowed = only(tmp_path / "borrowed", "packaging", "tomli")
    ended = doctor(checkout, "--stack", "tiny", python=str(python), path=str(borrowed))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "tiny: present" in ended.stdout
    assert ended.stdout.startswith("NO PROBLEM  ")


def test_what_is_not_installed_is_a_sentence(checkout: Path, tmp_path: Path) -> None:
    python = fakes.venv(tmp_path / "bare")
    ended = doctor(checkout, python=str(python), path=str(only(tmp_path / "borrowed", "tomli")))
    assert ended.returncode == 2
    assert "'packaging' is not installed here; run `" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_stack_that_is_not_here_is_exit_code_1(checkout: Path) -> None:
    named = doctor(checkout, "--stack", "card")
    assert named.returncode == 1
    assert "problem  cards: this host has no stack 'card': it lacks a card that nobody has" in named.stdout
    assert doctor(checkout).returncode == 0


def test_a_bad_variable_is_exit_code_1(checkout: Path) -> None:
    ended = doctor(checkout, OMP_NUM_THREADS="0")
    assert ended.returncode == 1
    assert "OMP_NUM_THREADS='0' is not a number of threads" in ended.stdout
    assert ended.stdout.startswith("PROBLEM  1 problem")


def test_json_on_its_own_and_in_a_file(checkout: Path, tmp_path: Path) -> None:
    whole = json.loads(doctor(checkout, "--json").stdout)
    assert (whole["schema"], whole["present"]) == ("stackproof.doctor/2", ["tiny"])
    path = tmp_path / "out.json"
    ended = doctor(checkout, "--json", str(path))
    assert ended.stdout.startswith(COUNTS)
    assert json.loads(path.read_text(encoding="utf-8"))["facts"]


@pytest.mark.parametrize("place", ["/nonexistent/folder/x.json", "/"])
def test_a_file_that_cannot_be_written(checkout: Path, place: str) -> None:
    ended = doctor(checkout, "--json", place)
    assert ended.returncode == 2
    assert place in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_report_is_one_block(checkout: Path) -> None:
    lines = doctor(
        checkout, "--report", HOME="/home/grace", USER="grace", NCCL_TOPO_FILE="/home/grace/t"
    ).stdout.splitlines()
    assert (lines[0], lines[-1]) == ("```text", "```")
    assert "  NCCL_TOPO_FILE=~/t" in lines
    assert not any("grace" in line for line in lines)


def test_no_colour_in_a_pipe(checkout: Path) -> None:
    assert "\x1b" not in doctor(checkout).stdout
