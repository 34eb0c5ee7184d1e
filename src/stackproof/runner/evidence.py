"""A pass is earned: the check's own body ran to its end in this process, took time, and said what it saw.

What pytest reports is not asked: a plugin that answers for a check, a wrapper that swallows its error or a report that is
rewritten leaves the body's own end as it was.
"""

from __future__ import annotations

import hashlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stackproof.base.text import is_visible
from stackproof.record.checks import CheckFailed


@dataclass(frozen=True)
class Returned:
    """A body that came to its end: after so many seconds, with this value (a check returns nothing)."""

    seconds: float
    value: Any


_RETURNED = pytest.StashKey[Returned]()


def run_body(item: pytest.Function) -> None:
    """Run a check's body and keep that it returned; only this leaves the sign that a pass needs."""
    _require_own(item)
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    began = time.perf_counter()
    value = item.obj(**arguments)
    item.stash[_RETURNED] = Returned(time.perf_counter() - began, value)


def _require_own(item: pytest.Function) -> None:
    """Refuse a body that something put in the place of the one in the check's file."""
    code = getattr(item.function, "__code__", None)
    if code is None or Path(code.co_filename).resolve() != Path(item.path).resolve():
        place = code.co_filename if code else type(item.function).__name__
        raise CheckFailed(f"was replaced: its body is not the one in {item.path.name}, it comes from {place}")


def missing(item: pytest.Item, summary: str) -> str:
    """Say what a check lacks that no error ended, or nothing if its pass is earned."""
    returned = item.stash.get(_RETURNED, None)
    if returned is None:
        return "its body did not run to its end in this process: something answered for it; look for plugins and options of pytest"
    if returned.value is not None:
        kind = type(returned.value).__name__
        return f"returned a {kind}, and what runs only when somebody asks for it has shown nothing; let the check return nothing"
    if returned.seconds <= 0:
        return "took no time at all, so that nothing can have run; look for a clock that was replaced"
    return "" if is_visible(summary) else 'passed and did not say what it saw; set figures["summary"]'


def foreign_plugins(config: pytest.Config, allowed: tuple[str, ...]) -> list[str]:
    """Return the plugins of pytest that are not pytest's, ours, a suite's or named in suites.toml, with where they come from."""
    homes = [Path(pytest.__file__).parent, Path(pytest.__file__).parent.parent / "_pytest", Path(config.rootpath)]
    homes.append(Path(__file__).parents[1])
    homes += [file.parent for name in allowed if (file := _home(sys.modules.get(name)))]
    found = []
    for name, plugin in config.pluginmanager.list_name_plugin():
        home = _home(plugin)
        if plugin is not None and not any(home and home.is_relative_to(place) for place in homes):
            found.append(f"{name} ({home or 'made while running'})")
    return sorted(found)


def facts(config: pytest.Config) -> dict[str, str]:
    """Return for provenance what had a say in the checks: each conftest with the digest of its text, and plugins besides pytest's."""
    found, own, others = {}, Path(config.rootpath), []
    for name, plugin in config.pluginmanager.list_name_plugin():
        file = _file(plugin) if isinstance(plugin, ModuleType) else None
        if file is None or not file.is_file() or file.is_relative_to(Path(pytest.__file__).parents[1] / "_pytest"):
            continue
        if file.name == "conftest.py":
            place = file.relative_to(own).as_posix() if file.is_relative_to(own) else str(file)
            found[f"conftest.{place}"] = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        else:
            others.append(str(name))
    return {**found, **({"plugins": " ".join(sorted(others))} if others else {})}


def _home(plugin: Any) -> Path | None:
    """Return the file that a plugin's code is in."""
    if isinstance(plugin, ModuleType):
        return _file(plugin)
    kind = plugin if isinstance(plugin, type) else type(plugin)  # pytest registers classes of its own too
    return _file(sys.modules.get(kind.__module__))


def _file(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file else None
