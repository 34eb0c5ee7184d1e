"""The surface for plug-ins: what each module needs installed, words for every name, and no name that nobody asks for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from inspect import isclass, isfunction, ismodule

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
MOST, MOST_THROUGH = 46, 200
"""Names that there are today, and what the extras reach through those of them that are modules; a surface that grows is no surface."""
EXTRAS = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.glob("extras/**/*.py")]


def names(module: str) -> set[str]:
    """Return what a module of the surface lists."""
    tree = ast.parse((PACKAGE / "api" / f"{module}.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def asked(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Return the names that a module of an extra imports, each with the module of the surface and how it is called there."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname or alias.name: ((node.module or "").rpartition(".")[2], alias.name)
        for node in imports
        if (node.module or "").startswith("stackproof.api.")
        for alias in node.names
    }


def listed() -> dict[tuple[str, str], object]:
    """Return every name of the surface with what it is, but for those that need more than the tests have."""
    every = [(module, name) for module in MODULES for name in names(module)]
    light = [name for name in every if name[0] not in ("comparison", "device")]
    return {
        (module, name): getattr(importlib.import_module(f"stackproof.api.{module}"), name) for module, name in light
    }


def reached(modules: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what the extras use of the modules of the surface."""
    for tree in EXTRAS:
        known = asked(tree)
        for node in ast.walk(tree):
            owner = node.value if isinstance(node, ast.Attribute) else None
            name = known.get(owner.id) if isinstance(owner, ast.Name) else None
            if name in modules and isinstance(node, ast.Attribute):
                yield name[1], node.attr


@pytest.mark.parametrize("module", [name for name in MODULES if name != "device"])
def test_a_module_imports_what_it_says_that_it_needs(module: str) -> None:
    pytest.importorskip("scipy") if module == "comparison" else None
    code = f"import sys, stackproof.api.{module}; print(*set({HEAVY!r}) & sys.modules.keys())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()) <= NEEDS.get(module, {"packaging"} if module in PACKAGING else set())


def test_every_name_has_somebody_who_asks_for_it() -> None:
    surface = {(module, name) for module in MODULES for name in names(module)}
    assert 30 < len(surface) <= MOST
    imported = {name for tree in EXTRAS for name in asked(tree).values()}
    assert not EXTRAS[1:] or not surface ^ imported, "no extra imports these names: take them out of stackproof.api"


def test_every_name_has_words_and_stands_there_once() -> None:
    surface = listed()
    for (module, name), thing in surface.items():
        assert thing.__doc__ or not (isfunction(thing) or isclass(thing)), f"{module}.{name} says nothing of itself"
    modules = {name: thing for name, thing in surface.items() if ismodule(thing)}
    origins = {thing.__name__ for thing in modules.values()}
    twice = [name for name, thing in surface.items() if isfunction(thing) and thing.__module__ in origins]
    assert twice == [], "a function comes through its module or by itself, not both"
    assert len({*reached(set(modules))}) <= MOST_THROUGH
