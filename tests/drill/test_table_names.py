"""Code that a row plants names what there is: after a renaming it would plant nothing, and the row would be missed."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import pytest

from stackproof.drill import table
from stackproof.drill.table import Fault

_TABLE = table.load()
ROWS = [row for row in (*_TABLE.rows, *_TABLE.gates) if "stackproof" in getattr(row.injection, "code", "")]


def _path(node: ast.AST) -> list[str]:
    """Return `a.b.c` in its parts; nothing where it does not begin with a name."""
    if isinstance(node, ast.Attribute):
        return [*_path(node.value), node.attr] if _path(node.value) else []
    return [node.id] if isinstance(node, ast.Name) else []


def _imported(tree: ast.AST) -> dict[str, Any]:
    """Return what the code imports of this package, by the names that it uses."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stackproof"):
            for one in node.names:
                module = importlib.import_module(str(node.module))
                inner = f"{node.module}.{one.name}"
                found[one.asname or one.name] = getattr(module, one.name, None) or importlib.import_module(inner)
    return found


def _missing(code: str) -> list[str]:
    """Return what the code asks of a name that it imported, and that is not there."""
    tree = ast.parse(code)
    known = _imported(tree)
    asked = [_path(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _path(node.func) == ["replace"] and isinstance(node.args[1], ast.Constant):
            asked.append([*_path(node.args[0]), str(node.args[1].value)])
    return [".".join(path) for path in asked if path and path[0] in known and not _has(known[path[0]], path[1:])]


def _has(owner: Any, names: list[str]) -> bool:
    for name in names:
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
    return True


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_planted_code_names_what_there_is(row: Fault) -> None:
    assert _missing(getattr(row.injection, "code", "")) == []


def test_a_name_that_is_gone_is_seen() -> None:
    code = 'from stackproof.workloads import training\nreplace(training.Gone, "run", make)\nreplace(training, "lost", make)\n'
    assert _missing(code) == ["training.Gone", "training.Gone.run", "training.lost"]
