"""In which order suites run, in how many processes, and which verb runs them: the table `suites/suites.toml`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from stackproof.base.places import SUITES
from stackproof.base.processes import cores
from stackproof.base.toml import Table
from stackproof.stack.stacks import suites

DEFAULT_VERB = "verify"
_CORES = 2
"""Cores that a process gets where the table leaves the number of processes to the host."""
DEFAULT_PROFILE = "fast"
"""The profile of benchmarks whose subjects a manifest counts."""
_FEW = 16
"""Checks that one process runs before another has imported what it needs."""


@dataclass(frozen=True)
class Stage:
    """Suites that run one after the other in each of so many processes, which share their checks."""

    suites: tuple[str, ...]
    workers: int


@dataclass(frozen=True)
class SuiteEntry:
    """What the table says of one suite."""

    name: str
    workers: int = 1
    most_workers: int = 0
    verb: str = DEFAULT_VERB
    plugins: tuple[str, ...] = ()


def of_verb(verb: str) -> tuple[str, ...]:
    """Return the suites that a verb runs when none is named, in alphabetical order."""
    rows = _rows(SUITES)
    return tuple(name for name in suites() if rows.get(name, SuiteEntry(name)).verb == verb)


def stages(chosen: tuple[str, ...], folder: Path = SUITES, only: tuple[str, ...] = ()) -> tuple[Stage, ...]:
    """Return the stages of a run, in the table's order and with its numbers of workers; other suites come last.

    `only`: the checks that are asked for, as patterns; a few single ones need one process, whatever the table says.
    """
    rows = _rows(folder)
    order = [*(name for name in rows if name in chosen), *(name for name in chosen if name not in rows)]
    few = _few(only)
    return _merged([Stage((name,), 1 if few else _workers(rows.get(name, SuiteEntry(name)))) for name in order])


def defined(root: Path = SUITES) -> tuple[str, ...]:
    """Return every check that the files of the suites define, without parameters, as records name them."""
    found = []
    for path in sorted(root.glob("*/test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        file = path.stem.removeprefix("test_").lstrip("0123456789").removeprefix("_")
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        prefix = f"{path.parent.name}/{file}::"
        found += [prefix + name.removeprefix("test_") for name in names if name.startswith("test_")]
    return tuple(found)


def _workers(row: SuiteEntry) -> int:
    """Return the table's number, or more of them where the host has cores for more."""
    return max(row.workers, min(row.most_workers, cores() // _CORES))


def _few(only: tuple[str, ...]) -> bool:
    """Whether single checks are named, and fewer than it costs to start another process."""
    plain = [pattern.replace("[[]", "") for pattern in only]
    return 0 < len(only) <= _FEW and not any(set("*?") & set(pattern) for pattern in plain)


def plugins_of(chosen: tuple[str, ...], folder: Path = SUITES) -> tuple[str, ...]:
    """Return the plugins of pytest that these suites need; every other one is switched off."""
    rows = _rows(folder)
    return tuple(dict.fromkeys(name for suite in chosen for name in rows.get(suite, SuiteEntry(suite)).plugins))


def _rows(folder: Path) -> dict[str, SuiteEntry]:
    path = folder / "suites.toml"
    if not path.exists():
        return {}
    with Table.load(path) as table:
        return {row.name: row for row in table.rows("suite", SuiteEntry)}


def _merged(found: list[Stage]) -> tuple[Stage, ...]:
    """Join neighbours that want as many processes: starting one costs seconds of imports."""
    merged: list[Stage] = []
    for stage in found:
        if merged and merged[-1].workers == stage.workers:
            merged[-1] = Stage(merged[-1].suites + stage.suites, stage.workers)
        else:
            merged.append(stage)
    return tuple(merged)
