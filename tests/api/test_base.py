"""The surface for plug-ins: what each module needs installed, words for every name, and no name that nobody asks for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from inspect import isclass, isfunction

import pytest

from stackproof.base.places import PACKAGE

MODULES = sorted(path.stem for path in PACKAGE.glob("api/[a-z]*.py"))
HEAVY = ("torch", "numpy", "scipy", "rich", "packaging", "fastjsonschema", "pytest")
NEEDS = {
    "device": set(HEAVY),
    "comparison": {"scipy", "numpy", "packaging", "rich", "fastjsonschema"},
    "pages": {"rich"},
}
PACKAGING = {"doctor", "environment", "gate", "runs"}
MOST = 170
"""Names that there are today; a surface that grows is no surface."""


def names(module: str) -> set[str]:
    """Return what a module of the surface lists."""
    tree = ast.parse((PACKAGE / "api" / f"{module}.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    return {alias.name for node in found for alias in node.names}


@pytest.mark.parametrize("module", [name for name in MODULES if name != "device"])
def test_a_module_imports_what_it_says_that_it_needs(module: str) -> None:
    pytest.importorskip("scipy") if module == "comparison" else None
    code = f"import sys, stackproof.api.{module}; print(*set({HEAVY!r}) & sys.modules.keys())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()) <= NEEDS.get(module, {"packaging"} if module in PACKAGING else set())


def test_every_name_has_words_and_somebody_who_asks_for_it() -> None:
    listed = {(module, name) for module in MODULES for name in names(module)}
    assert 40 < len(listed) <= MOST
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.glob("extras/**/*.py")]
    asked = {
        ((node.module or "").rpartition(".")[2], alias.name)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stackproof.api.")
        for alias in node.names
    }
    assert not trees[1:] or not listed ^ asked, "no extra imports these names: take them out of stackproof.api"
    for module, name in listed - {("command", "Verbs")}:
        if module not in ("comparison", "device"):
            thing = getattr(importlib.import_module(f"stackproof.api.{module}"), name)
            assert thing.__doc__ or not (isfunction(thing) or isclass(thing)), f"{module}.{name} says nothing of itself"
