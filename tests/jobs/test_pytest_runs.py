"""`pytest --stack NAME` on other people's tests, in an empty directory: hangs and crashes are verdicts, and the rest runs on."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.places import PACKAGE
from stackproof.record import reading
from stackproof.record.records import Verdict
from stackproof.stack import environments

_TESTS = """
import os, pytest, time

def test_good(figures):
    figures["rate"] = 12.5
    print("seen")

def test_bad():
    assert 1 == 2, "one is not two"

def test_crashes():
    os.kill(os.getpid(), 11)

@pytest.mark.deadline(3)
def test_hangs():
    time.sleep(300)

@pytest.mark.skip(reason="not today")
def test_skipped(): pass

@pytest.mark.xfail(reason="known")
def test_known():
    assert False

@pytest.mark.parametrize("n", [1, 2])
def test_after(n, request):
    assert request.config.getoption("--stack") == "cpu"
"""


_REAL = "import sys, os\nsys.path.remove(os.path.dirname(os.path.abspath(__file__)))\ndel sys.modules['torch']\nimport torch\n"
"""Steps aside for the real one."""


def _pytest(tmp_path: Path, *flags: str, text: str = _TESTS, torch: str = "") -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_theirs.py").write_text(text, encoding="utf-8")
    (tmp_path / "torch.py").write_text(torch, encoding="utf-8")  # the real one takes seconds to import
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", "pytest", "-p", "stackproof.jobs.pytest_entry", "-p", "no:cacheprovider", *flags]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)


def test_every_end_is_told_and_the_others_run(tmp_path: Path) -> None:
    ended = _pytest(tmp_path, "--stack", "cpu", "--stack-json", "r.json", "--junitxml", "j.xml")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "3 failed, 3 passed, 1 skipped, 1 xfailed" in ended.stdout
    found = {check.id.split("::")[1]: check for check in reading.read(tmp_path / "r.json").checks}
    assert found["test_crashes"].verdict is Verdict.CRASHED and "SIGSEGV" in found["test_crashes"].reason
    assert "in test_crashes" in found["test_crashes"].reason and "Extension modules" not in found["test_crashes"].reason
    assert found["test_hangs"].verdict is Verdict.HUNG
    assert (
        "no end after 3 s; it was in File" in found["test_hangs"].reason
        and "test_theirs.py" in found["test_hangs"].reason
    )
    assert found["test_bad"].verdict is Verdict.FAILED
    assert (found["test_skipped"].verdict, found["test_known"].verdict) == (Verdict.SKIPPED, Verdict.KNOWN_ISSUE)
    assert found["test_good"].figures == {"rate": 12.5}
    assert "one is not two" in ended.stdout
    suite = next(ET.parse(tmp_path / "j.xml").getroot().iter("testsuite"))
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["8", "3", "2"]


@pytest.mark.slow
def test_without_the_flag_it_is_not_there(tmp_path: Path) -> None:
    text = """
import os, sys
def test_nothing(request):
    assert not {"stackproof.record", "stackproof.stack", "torch"} & set(sys.modules)
    assert "STACKPROOF_PYTEST" not in os.environ
"""
    ended = _pytest(tmp_path, text=text)
    assert ended.returncode == 0, ended.stdout
    ended = _pytest(tmp_path, text="def test_x(figures): pass\n")
    assert "fixture 'figures' not found" in ended.stdout


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (("--stack", "cup"), 2, "there is no stack 'cup'"),
        (("--stack", "xpu"), 3, "this host has no stack 'xpu'"),
        (("--stack", "cpu", "--pdb"), 2, "leave one of them out"),
        (("--stack", "cpu", "--stack-deadline=-3"), 2, "--stack-deadline: -3.0 must be a number of seconds above 0"),
        (("--stack", "cpu", "--stack-deadline=nan"), 2, "--stack-deadline: nan must be"),
        (("--stack", "cpu", "no-such.py"), 2, "no-such.py; name files or folders that hold tests"),
        (("--stack-device", "cuda:9"), 2, "--stack-device says how tests run on a stack; name one with --stack"),
    ],
)
def test_slips_are_one_sentence(flags: tuple[str, ...], code: int, sentence: str, tmp_path: Path) -> None:
    ended = _pytest(tmp_path, *flags)
    assert ended.returncode == code
    assert sentence in ended.stdout + ended.stderr
    assert "INTERNALERROR" not in ended.stdout + ended.stderr


@pytest.mark.slow
def test_slips_that_the_other_process_sees_end_the_run(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    device = _pytest(tmp_path, "--stack", "cpu", "--stack-device", "cuda:9", text="def test(): pass\n", torch=_REAL)
    assert device.returncode == 2 and "is not of this stack, which uses 'cpu'" in device.stdout + device.stderr
    marked = "import pytest\n@pytest.mark.deadline('soon')\ndef test(): pass\n"
    deadline = _pytest(tmp_path, "--stack", "cpu", text=marked)
    assert deadline.returncode == 2 and "its mark deadline: 'soon' must be" in deadline.stdout + deadline.stderr
    assert "INTERNALERROR" not in deadline.stdout + device.stdout


@pytest.mark.slow
def test_what_pytest_is_told_holds_there_too(tmp_path: Path) -> None:
    assert "2 passed, 6 deselected" in _pytest(tmp_path, "--stack", "cpu", "-k", "after").stdout
    stopped = _pytest(tmp_path, "--stack", "cpu", "-x")
    assert "stopping after 1 failures" in stopped.stdout and "1 failed, 1 passed" in stopped.stdout
    assert "8 tests collected" in _pytest(tmp_path, "--stack", "cpu", "--collect-only", "-q").stdout
    broken = _pytest(tmp_path, "--stack", "cpu", text="import nothing_like_it\n")
    assert broken.returncode == 2 and "nothing_like_it" in broken.stdout


@pytest.mark.slow
def test_a_stack_that_cannot_be_imported_ends_the_run_at_once(tmp_path: Path) -> None:
    ended = _pytest(tmp_path, "--stack", "cpu", torch="raise ImportError('libsycl.so.8: cannot open')\n")
    assert ended.returncode == 3
    assert "libsycl.so.8" in ended.stdout + ended.stderr and "FAILED" not in ended.stdout


@pytest.mark.slow
def test_the_device_is_the_stacks(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    text = """
import torch
def test_it(device, stack_device, stack, figures):
    assert torch.ones(2, device=device).sum().item() == 2 and stack.name == "cpu"
    figures["name"] = stack_device.name()
"""
    ended = _pytest(tmp_path, "--stack", "cpu", text=text, torch=_REAL)
    assert "1 passed" in ended.stdout, ended.stdout


@pytest.mark.parametrize(("given", "python"), [([], sys.executable), (["--locked"], "built/python")])
def test_the_verb_becomes_pytest(given: list[str], python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: became.append([path, *words[1:]]))
    monkeypatch.setattr(environments, "prepare", lambda stack, say: "built/python")
    cli.main(["pytest", "--stack", "cpu", *given, "--", "tests", "-k", "words"])
    assert became[0][:3] == [python, "-m", "stackproof.jobs.pytest_entry"] and became[0][-5:] == [
        "--stack",
        "cpu",
        "tests",
        "-k",
        "words",
    ]
