"""Workloads: the objects that the suites verify and the benchmarks time.

A workload is a file: every module in this package that has a tuple `WORKLOADS` adds to the list, and every one that has a
mapping `KINDS` adds to the kinds of work that `data/benchmarks.toml` can name. Modules are
imported when somebody asks for names, and import ultralytics (AGPL-3.0) or transformers only inside the
functions that need them, so that a listing is cheap.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from stackproof import workloads
from stackproof.base.errors import Refusal, suggestion
from stackproof.workloads.base import Workload
from stackproof.workloads.work import Maker


def _modules() -> list[ModuleType]:
    return [
        importlib.import_module(f"{workloads.__name__}.{found.name}")
        for found in pkgutil.iter_modules(workloads.__path__)
    ]


@cache
def _known() -> dict[str, Workload]:
    known: dict[str, Workload] = {}
    for module in _modules():
        for workload in getattr(module, "WORKLOADS", ()):
            if workload.name in known:
                raise Refusal(f"{module.__file__}: the workload '{workload.name}' exists already; give it another name")
            known[workload.name] = workload
    return known


@cache
def kinds() -> dict[str, Maker]:
    """Return the kinds of repeatable work by name."""
    found: dict[str, Maker] = {}
    for module in _modules():
        for name, maker in getattr(module, "KINDS", {}).items():
            if name in found:
                raise Refusal(f"{module.__file__}: the kind of work '{name}' exists already; give it another name")
            found[name] = maker
    return found


def names() -> tuple[str, ...]:
    """Return the names of all workloads, sorted."""
    return tuple(sorted(_known()))


def get(name: str) -> Workload:
    """Return a workload by name, or refuse and suggest the nearest."""
    if name not in _known():
        raise Refusal(f"no workload '{name}'{suggestion(name, names())}; there are: {', '.join(names())}")
    return _known()[name]
