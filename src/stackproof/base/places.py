"""Where everything lies: what we ship, and what we write, in a checkout and where the wheel was installed.

A checkout holds `stacks/`, `suites/` and `results/` beside `src/`. The wheel carries what is read at run time in
the package itself (`_shipped`, see pyproject.toml); what is written then goes to where the user works and caches.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path

from stackproof.base.errors import Refusal

PACKAGE = Path(__file__).resolve().parents[1]

DATA = PACKAGE / "data"
"""Tables that the product reads at run time."""

_SHIPPED = PACKAGE / "_shipped"

INSTALLED = _SHIPPED.is_dir()
"""Whether this is an installed wheel; otherwise it is a checkout."""

ROOT = _SHIPPED if INSTALLED else PACKAGE.parents[1]
"""What the relative paths of stacks and locks start from: the checkout, or what the wheel has of it."""


def _current() -> Path:
    """Return the current folder; where it is gone, the command line says so, and this module can be imported until then."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


STACKS = ROOT / "stacks"
SUITES = ROOT / "suites"
PROJECT = "STACKPROOF_PROJECT"
"""The variable that names a project's folder to every process that a run starts; empty where there is none. Unset, it is looked for."""
EXAMPLE = ROOT / "examples" / "project"
"""What `stackproof init` writes a part of."""
DOCS = ROOT / "docs"
"""The pages that sentences name."""
REFERENCE = ROOT / "results" / "reference"
"""Figures that others published."""

RESULTS = (_current() if INSTALLED else ROOT) / "results"
"""Records, of this checkout's runs or of those in the working directory."""


def home() -> Path:
    """Return the user's home; a user without an entry of the system's, as in a container, has the root as its tools have."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache")
HOME = _CACHE / "stackproof" if INSTALLED else ROOT / ".nox"
"""What we build and may be deleted: environments of stacks, tools, the trees of a gate."""


ELSEWHERE = ", or name another place for caches by XDG_CACHE_HOME" if INSTALLED else ""
"""What to do where nothing can be built there."""

SOURCE = "STACKPROOF_SOURCE"
"""Names, to the processes of an environment that several installations share, the folder of the one that started them."""

STAMP = Path(sys.prefix, "stackproof.json")
"""What is left in an environment that we built from a lock, here of this interpreter's."""

COMPILED_CODE = Path(sys.prefix, "compiled")
"""Where compiled code lies in such an environment."""

COMPILED = "PYTHONPYCACHEPREFIX"
"""Names, to Python, the folder of compiled code; in an environment of ours that is one of its own (`stackproof.__main__`)."""

FIRED = "STACKPROOF_DRILL_FIRED"
"""Names, to the processes of a drill, the folder where a fault that fired leaves a sign; beside it lies what was planted."""


def called(path: Path) -> str:
    """Return how people find a file of ours: from the top of the checkout, in an installed package by its whole path."""
    return str(path) if INSTALLED or not path.is_relative_to(ROOT) else str(path.relative_to(ROOT))


def table(name: str) -> str:
    """Return how people find a table of ours, such as `capabilities.toml`."""
    return called(DATA / name)


def page(name: str) -> str:
    """Return how people find a page of ours, such as `start.md`."""
    return called(DOCS / name)


def require_checkout(what: str) -> None:
    """Refuse what only makes sense beside the sources and their history."""
    if INSTALLED:
        raise Refusal(
            f"{what} needs a checkout of stackproof, and this is an installed package; clone it and type there "
            "`PYTHONPATH=src python -m stackproof ...`, or a session of `nox -l`"
        )


def mount_suites() -> None:
    """Make `suites` importable, ours, whatever a working directory or a path may offer under that name."""
    if "suites" in sys.modules:
        return
    file = SUITES / "__init__.py"
    spec = importlib.util.spec_from_file_location("suites", file, submodule_search_locations=[str(SUITES)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{file}: cannot be loaded")
    sys.modules["suites"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def source_for(environment: Path) -> Path:
    """Return the folder that makes `import stackproof` work in an environment, and nothing else with it.

    In a checkout that is `src/`. An installed package lies among others that are not the environment's own, so a
    folder with a link to it alone is made, one for each installation that uses the environment.
    """
    if not INSTALLED:
        return PACKAGE.parent
    folder = environment / "stackproof-source" / hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:12]
    link = folder / PACKAGE.name
    if not link.is_symlink():
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # made by a process beside this one
            link.symlink_to(PACKAGE)
    return folder
