"""What today's harness and the anchor's workloads import from each other: a night runs both in one process."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from stackproof.extras.nights.night import request
from stackproof.stack import stacks

ROOT = Path(__file__).parents[4]
WORKLOADS = "stackproof.workloads"
Imports = Iterator[tuple[str, str, str]]


def _git(*words: str) -> str:
    """Return what git says, nothing where it refuses."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout


@cache
def _frozen() -> str:
    """Return the anchor's commit, or skip where this clone has no such history."""
    commit = request.load_anchor(stacks.load("cpu"))
    if not _git("cat-file", "-t", commit):
        pytest.skip(f"this clone does not reach back to {commit[:12]}")
    return commit


@cache
def _source(commit: str, module: str) -> str:
    """Return a module's text at a commit, or today's without one; nothing where there is none."""
    path = "src/" + module.replace(".", "/")
    for file in (f"{path}.py", f"{path}/__init__.py"):
        if commit and (text := _git("show", f"{commit}:{file}")):
            return text
        if not commit and (ROOT / file).is_file():
            return (ROOT / file).read_text()
    return ""


@cache
def _offered(commit: str, module: str) -> frozenset[str]:
    """Return the names that a module has, of its own or by import."""
    found = set[str]()
    for node in ast.walk(ast.parse(_source(commit, module))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {one.asname or one.name for one in node.names}
    return frozenset(found)


def _asked(text: str, file: str, workloads: bool) -> Imports:
    """Yield file, module and name of what is imported from the workloads, or from all else of ours."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not (module := node.module or "").startswith("stackproof."):
            continue
        if module.startswith(WORKLOADS) is workloads:
            yield from ((file, module, one.name) for one in node.names)


def _missing(asked: Imports, commit: str) -> list[str]:
    return [
        f"{file} imports {name} of {module}"
        for file, module, name in asked
        if name not in _offered(commit, module) and not _source(commit, f"{module}.{name}")
    ]


def test_the_anchors_workloads_have_what_today_asks_of_them() -> None:
    rooms = [one for one in (ROOT / "src" / "stackproof").rglob("*.py") if "workloads" not in one.parts]
    texts = {one.name: text for one in rooms if WORKLOADS in (text := one.read_text())}
    asked = [row for name, text in texts.items() for row in _asked(text, name, workloads=True)]
    assert ("stackproof.workloads.training", "TrainingSteps") in {row[1:] for row in asked}
    assert _missing(iter(asked), _frozen()) == []


def test_today_has_what_the_anchors_workloads_ask_for() -> None:
    listed = _git("ls-tree", "-r", "--name-only", _frozen(), "src/stackproof/workloads").split()
    texts = {file: _git("show", f"{_frozen()}:{file}") for file in listed if file.endswith(".py")}
    asked = [row for file, text in texts.items() for row in _asked(text, file, workloads=False)]
    assert "stackproof.record.checks" in {row[1] for row in asked}
    assert _missing(iter(asked), "") == []


def test_a_name_that_is_gone_is_missed() -> None:
    text = "from stackproof.extras.nights.night.request import NAME, NONE\nfrom stackproof.extras.nights.night import measure\n"
    assert _missing(_asked(text, "x.py", workloads=False), "") == [
        "x.py imports NONE of stackproof.extras.nights.night.request"
    ]
