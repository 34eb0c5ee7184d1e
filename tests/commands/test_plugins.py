"""Plug-ins: anybody's verb and sessions, the extras in the same form, broken ones in one sentence, and a core without any."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.toml import read_toml
from stackproof.commands import plugins

from .. import fakes

WORKS = """
def add(verbs):
    from stackproof.api.command import arguments
    verb = arguments.add(verbs, "hello", "say who is there", lambda options: print("hello") or 0)
"""
SESSION = '[[verb]]\nname = "hello"\nruns = "judges"\nsummary = "Greet {}"\n'
HALF_WAY = "def add(verbs):\n    verbs.add_parser('hello')\n    raise RuntimeError('100 % broken')\n"


def installed(folder: Path, code: str, *rows: str, table: str = SESSION) -> dict[str, str]:
    """Install a package with entry points into a folder, and return the variables that put it on the path."""
    (folder / "hi_stackproof").mkdir(parents=True)
    (folder / "hi_stackproof" / "__init__.py").write_text(code, encoding="utf-8")
    (folder / "hi_stackproof" / plugins.TABLE).write_text(table, encoding="utf-8")
    about = folder / "hi_stackproof-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hi-stackproof\nVersion: 1.0\n", encoding="utf-8")
    verbs = "\n".join(rows or ("hello = hi_stackproof:add",))
    text = f"[stackproof.verbs]\n{verbs}\n[stackproof.sessions]\nhello = hi_stackproof\n"
    (about / "entry_points.txt").write_text(text, encoding="utf-8")
    return {"PYTHONPATH": f"{ROOT / 'src'}:{folder}"}


def stackproof(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Type a verb."""
    return fakes.attempt([sys.executable, "-m", "stackproof", *words], env=env)


def test_a_verb_of_another_package_is_one_of_ours(tmp_path: Path) -> None:
    env = installed(tmp_path, WORKS)
    assert stackproof(env, "hello").stdout == "hello\n"
    assert "say who is there" in stackproof(env, "--help").stdout
    listed = fakes.attempt([*fakes.nox(), "--nocolor", "-l", "--", "extras"], env=env, cwd=ROOT)
    assert "- hello [extras] -> Greet a stack" in listed.stdout


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("", "AttributeError"),
        ("def add(verbs): verbs.add_parser('smoke')", "it adds smoke, not 'hello'"),
        (HALF_WAY, "100 % broken"),
    ],
)
def test_a_broken_one_is_a_sentence_and_spoils_no_other_verb(tmp_path: Path, code: str, words: str) -> None:
    env = installed(tmp_path, code)
    ended = stackproof(env, "hello", "--stack", "cpu")
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)
    assert ended.stderr.startswith("stackproof: the verb 'hello' of the plug-in 'hi-stackproof' cannot be loaded")
    assert words in ended.stderr
    fine = stackproof(env, "doctor", "--help")
    assert (fine.returncode, fine.stderr) == (0, "")


def test_a_name_that_is_taken_stays_whose_it_was(tmp_path: Path) -> None:
    env = installed(tmp_path, WORKS, "smoke = hi_stackproof:add")
    ended = stackproof(env, "smoke", "--stack", "cpuu")
    assert "'hi-stackproof' brings a verb 'smoke' too" in ended.stderr and "no stack 'cpuu'" in ended.stderr


def test_broken_sessions_are_a_sentence(tmp_path: Path) -> None:
    env = installed(tmp_path, WORKS, table="= 1")
    listed = fakes.attempt([*fakes.nox(), "--nocolor", "-l"], env=env, cwd=ROOT)
    assert "'hi-stackproof' brings no sessions" in listed.stderr and "smoke" in listed.stdout


def test_the_extras_are_what_the_metadata_say() -> None:
    points = read_toml(ROOT / "pyproject.toml")["project"]["entry-points"]
    tables = {path.parent.name: read_toml(path) for path in plugins.tables()}
    there = {name: value for table in tables.values() for name, value in table["verbs"].items()}
    known = points["stackproof.verbs"].items()
    assert there == {name: value for name, value in known if name not in fakes.absent_verbs()}
    assert {f"stackproof.extras.{name}" for name in tables} <= set(points["stackproof.sessions"].values())


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout without the extras and their tests."""
    root = tmp_path_factory.mktemp("bare")
    left_out = shutil.ignore_patterns("__pycache__", "extras", ".nox", ".git", "local", ".mypy_cache", "wheels")
    return Path(shutil.copytree(ROOT, root / "checkout", ignore=left_out, symlinks=True))


def test_without_extras_the_core_works(bare: Path) -> None:
    env = {"PYTHONPATH": str(bare / "src"), "NOX_ENV_DIR": "", "NOXSESSION": ""}
    shown = stackproof(env, "--help")
    assert (shown.returncode, shown.stderr) == (0, "") and "smoke" in shown.stdout
    assert "invalid choice: 'bisect'" in stackproof(env, "bisect").stderr
    listed = fakes.attempt([*fakes.nox(), "--nocolor", "-l", "--", "all"], env=env, cwd=bare)
    assert listed.returncode == 0 and "cpu-gate" in listed.stdout
    assert not [
        name for name in ("extras", "bisect", "fleet", "night", "history", "site") if f"- {name}" in listed.stdout
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--collect-only", "tests"],
        [
            "-m",
            "not slow and not live",
            "tests/test_cli.py",
            "tests/test_cli_bad_input.py",
            "tests/test_cli_documented.py",
        ],
        [
            "-m",
            "not slow and not live",
            "tests/test_layout.py",
            "tests/test_noxfile.py",
            "tests/record",
            "tests/commands",
        ],
    ],
)
def test_without_extras_the_tests_of_the_core_pass(bare: Path, words: list[str]) -> None:
    env = {"PYTHONPATH": f"{bare / 'src'}:{bare}", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:benchmark", "-n", "0", *words]
    ended = fakes.attempt(command, env=env, cwd=bare, seconds=900)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-2000:]
