"""What could answer in place of our code: start-up code, search paths, and the variables of Python and pytest.

What is not ours is switched off in every process that runs checks, or refused; what was found stands in the record's provenance.
Nothing here imports torch, and nothing that is judged is run.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from stackproof import ROOT
from stackproof.base import files
from stackproof.base.places import COMPILED, COMPILED_CODE, FIRED
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

# These change how Python speaks, not what it computes; every other variable of Python or pytest is switched off.
_HARMLESS = (
    "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONMALLOC", "PYTHONNOUSERSITE",
    "PYTHONPATH", COMPILED,  # have rules of their own
    "PYTHONSAFEPATH", "PYTHONUNBUFFERED", "PYTHONUTF8",
)  # fmt: skip
_OF_A_TEST = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_")
"""What pytest itself sets, for what runs below one of our own tests."""
_STARTED = ("sitecustomize", "usercustomize")
_OURS = ("stackproof", "suites", "pytest", "_pytest", "pluggy")
_IMPORTABLE = tuple(importlib.machinery.all_suffixes())


def switched_off(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that change what Python or pytest runs, by name; a child does not get them."""
    names = [name for name in environ if name.startswith(("PYTHON", "PYTEST_")) and name not in _HARMLESS]
    return tuple(sorted(name for name in names if environ[name] and not name.startswith(_OF_A_TEST)))


def guarded(stack: Stack, environ: Mapping[str, str], pinned: bool) -> dict[str, str]:
    """Return the variables of a process that runs checks: nothing of pytest's, Python's own paths, no plugin by entry point.

    An empty text is what Python takes for unset, so that it also replaces what is inherited.
    """
    off = dict.fromkeys((name for name in environ if name.startswith("PYTEST_") or name in switched_off(environ)), "")
    path = os.pathsep.join(str(entry) for entry in search_path(stack, environ, pinned))
    safe = {"PYTHONNOUSERSITE": "1", COMPILED: str(COMPILED_CODE)} if pinned else {COMPILED: ""}
    return {**off, **safe, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def search_path(stack: Stack, environ: Mapping[str, str], pinned: bool) -> tuple[Path, ...]:
    """Return what stays of PYTHONPATH: what is ours; of an environment that nobody pinned, the vendor's as well."""
    paths = entries(environ)
    kept = [entry for entry in paths if _is_ours(entry, stack, environ) or not pinned]
    return (*kept, *(path for path in map(Path, stack.packages) if path not in kept))


def foreign_path(stack: Stack, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the entries of PYTHONPATH that are not ours."""
    return tuple(entry for entry in entries(environ) if not _is_ours(entry, stack, environ))


def entries(environ: Mapping[str, str]) -> tuple[Path, ...]:
    return tuple(Path(text) for text in environ.get("PYTHONPATH", "").split(os.pathsep) if text)


def planted(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of what a drill planted on purpose."""
    return Path(environ[FIRED]).parent / "planted" if environ.get(FIRED) else None


def _is_ours(entry: Path, stack: Stack, environ: Mapping[str, str]) -> bool:
    ours = {ROOT, ROOT / "src", *map(Path, stack.packages)}
    return entry in ours or entry.resolve() in ours or entry == planted(environ)


def shadows(folder: Path, site: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the modules in a folder that would be imported in place of the environment's, Python's or ours."""
    known = {*_OURS, *sys.stdlib_module_names, *(name for place in site for name in modules(place))}
    return tuple(sorted(modules(folder) & known))


def modules(folder: Path) -> set[str]:
    """Return the names that can be imported from a folder."""
    try:
        rows = list(os.scandir(folder))
    except OSError:
        return set()
    packages = {row.name for row in rows if files.exists(Path(row, "__init__.py"))}
    return packages | {row.name.partition(".")[0] for row in rows if row.name.endswith(_IMPORTABLE)}


def started(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the start-up modules that this Python finds, but for the drill's and those that came with Python itself."""
    paths = []
    for name in _STARTED:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            continue
        origin = Path(spec.origin)
        if origin.parent not in (planted(environ), Path(sysconfig.get_path("stdlib"))):
            paths.append(origin)
    return tuple(paths)


def complaints(stack: Stack, environ: Mapping[str, str], site: tuple[Path, ...]) -> list[str]:
    """Say what runs before our code, or would be imported in its place, a line each."""
    wrong = [f"! {path} runs whenever Python starts; remove it" for path in started(environ)]
    here = [] if getattr(sys.flags, "safe_path", False) else [Path.cwd()]  # Python 3.10 has no such flag
    for folder in (*foreign_path(stack, environ), *(place for place in here if not _is_ours(place, stack, environ))):
        if names := shadows(folder, site):
            shown = ", ".join(names[:5])
            wrong.append(f"! {shown} would be imported from {folder}, not from the environment; take it off the path")
    return wrong


def facts(stack: Stack, environ: Mapping[str, str]) -> dict[str, Figure]:
    """Return what was found, for a record's provenance."""
    figures: dict[str, Figure] = {}
    if off := switched_off(environ):
        figures["switched off"] = " ".join(f"{name}={environ[name]}" for name in off)
    if others := foreign_path(stack, environ):
        figures["PYTHONPATH besides ours"] = os.pathsep.join(map(str, others))
    if place := planted(environ):
        figures["drilled"] = str(place.name)
    stdlib = Path(sysconfig.get_path("stdlib")) / "sitecustomize.py"
    return figures | ({"start-up code of Python itself": str(stdlib)} if stdlib.exists() else {})
