"""In which order suites run, in how many processes, and which verb runs them: the table `suites/suites.toml`."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path

from stackproof.base.places import SUITES
from stackproof.base.processes import cores
from stackproof.base.toml import Table
from stackproof.stack.stacks import suites

DEFAULT_VERB = "verify"
_CORES = 2
"""Cores of the host that the table's `workers` are for."""
DEFAULT_PROFILE = "fast"
"""The profile of benchmarks whose subjects a manifest counts."""
_FEW = 16
"""Checks that one process runs before another has imported what it needs."""


@dataclass(frozen=True)
class Stage:
    """Suites that run one after the other in each of so many processes, which share their checks."""

    suites: tuple[str, ...]
    """Folders of suites; of one that is cut in two, files: `smoke/test_1_bringup.py`."""
    workers: int
    apart: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """Suites or files with a process of their own for each row, which begin at once if the device has so many GiB, else afterwards."""
    held: tuple[str, ...] = ()
    """Files of `suites` that their process begins when all others have ended."""


@dataclass(frozen=True)
class SuiteEntry:
    name: str
    workers: int = 1
    most_workers: int = 0
    verb: str = DEFAULT_VERB
    plugins: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    """Files that measure: where the rest runs in several processes, they come last, in one."""
    apart: tuple[str, ...] = ()
    """Files that share what one process starts, such as ranks: where the rest runs in several processes, they have one of their own."""
    beside: tuple[str, ...] = ()
    """Files that need no other: where the rest runs in one process, they have another, for which `alone` and `apart` wait."""
    apart_gib: float = 0.0
    """From so much memory of the device on they, or the whole suite, run beside the stage; 0: never."""
    counted: bool = True
    """Whether manifests say which checks it has."""


def of_verb(verb: str) -> tuple[str, ...]:
    """Return the suites that a verb runs when none is named, in alphabetical order."""
    rows = _rows(SUITES)
    return tuple(name for name in suites() if rows.get(name, SuiteEntry(name)).verb == verb)


def counted(chosen: Sequence[str]) -> tuple[str, ...]:
    """Return the suites whose checks the manifests have."""
    rows = _rows(SUITES)
    return tuple(name for name in chosen if rows.get(name, SuiteEntry(name)).counted)


def stages(chosen: tuple[str, ...], folder: Path = SUITES, only: tuple[str, ...] = ()) -> tuple[Stage, ...]:
    """Return the stages of a run, in the table's order and with its numbers of workers; other suites come last.

    `only`: the checks that are asked for, as patterns; a few single ones need one process, whatever the table says, and what a check
    builds on must be collected with it.
    """
    rows = _rows(folder)
    order = [*(name for name in rows if name in chosen), *(name for name in chosen if name not in rows)]
    first = list[Stage]()
    for name in order:
        row = rows.get(name, SuiteEntry(name))
        workers = max(row.workers, min(row.most_workers, row.workers * cores() // _CORES))
        workers = 1 if _few(only) or (only and row.alone) else workers
        files = sorted(f"{name}/{path.name}" for path in (folder / name).glob("test_*.py"))
        kinds = (row.alone, row.apart, row.beside)
        alone, apart, beside = (tuple(f"{name}/{file}" for file in some) for some in kinds)
        if row.apart_gib and not row.apart and first and first[-1].workers > 1:
            first[-1] = replace(first[-1], apart={**first[-1].apart, (name,): row.apart_gib})
        elif workers > 1 and row.alone:
            shared = tuple(file for file in files if file not in alone + apart)
            first.append(Stage(shared, workers, {**{(file,): row.apart_gib for file in apart}, alone: math.inf}))
        elif row.beside and not only and cores() >= _CORES:
            rest = tuple(file for file in files if file not in beside)
            first.append(Stage(rest, 1, {beside: 0.0}, alone + apart))
        else:
            first.append(Stage((name,), workers))
    return _merged(first)


def _parsed(path: Path) -> tuple[str, ast.Module, list[ast.FunctionDef]]:
    """Return a file of a suite as records name it, its text as Python's tree, and its checks."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    file = path.stem.removeprefix("test_").lstrip("0123456789").removeprefix("_")
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return f"{path.parent.name}/{file}", tree, tests


def defined(root: Path = SUITES) -> tuple[str, ...]:
    """Return every check that the files of the suites define, without parameters, as records name them."""
    files = [_parsed(path) for path in sorted(root.glob("*/test_*.py"))]
    return tuple(f"{file}::{test.name.removeprefix('test_')}" for file, _, tests in files for test in tests)


def explained(suite: str, root: Path = SUITES) -> Iterator[str]:
    """Yield what a suite covers: of each file its docstring, and of each check the first line of its own."""
    for file, tree, tests in map(_parsed, sorted((root / suite).glob("test_*.py"))):
        yield f"\n{file}\n{textwrap.indent(ast.get_docstring(tree) or '', '  ')}"
        for test in tests:
            yield f"    {test.name.removeprefix('test_')}: {(ast.get_docstring(test) or '').partition(chr(10))[0]}"


def _few(only: tuple[str, ...]) -> bool:
    """Whether single checks are named, and fewer than it costs to start another process."""
    plain = [pattern.replace("[[]", "") for pattern in only]
    return 0 < len(only) <= _FEW and not any(set("*?") & set(pattern) for pattern in plain)


def plugins_of(chosen: tuple[str, ...], folder: Path = SUITES) -> tuple[str, ...]:
    """Return the plugins of pytest that these suites need; every other one is switched off."""
    rows = _rows(folder)
    suites = dict.fromkeys(word.partition("/")[0] for word in chosen)
    return tuple(dict.fromkeys(name for suite in suites for name in rows.get(suite, SuiteEntry(suite)).plugins))


def _rows(folder: Path) -> dict[str, SuiteEntry]:
    path = folder / "suites.toml"
    if not path.exists():
        return {}
    with Table.load(path) as table:
        return {row.name: row for row in table.rows("suite", SuiteEntry)}


def _merged(listed: list[Stage]) -> tuple[Stage, ...]:
    """Join neighbours that both share their checks, and those that do not: starting a process costs seconds of imports.

    One process that comes after several starts with them, and begins when they have ended. Where nothing shares processes, what would
    run beside it needs none.
    """
    merged: list[Stage] = []
    for stage in listed:
        if merged and (merged[-1].workers > 1) == (stage.workers > 1):
            last = merged[-1]
            workers = max(last.workers, stage.workers)
            merged[-1] = Stage(last.suites + stage.suites, workers, _joined(last, stage.apart), last.held + stage.held)
        else:
            merged.append(stage)
    for before, stage in list(pairwise(merged)):
        if before.suites and before.workers > 1 and not stage.apart:
            merged[merged.index(before)] = replace(before, apart=_joined(before, {stage.suites: math.inf}))
            merged.remove(stage)
    return tuple(stage if stage.suites else Stage(tuple(chain(*stage.apart)), 1) for stage in merged)


def _joined(stage: Stage, more: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """Return what runs apart from a stage, with more; all that always comes last shares a process."""
    rows = {**stage.apart, **more}
    last = tuple(chain(*(suites for suites, gib in rows.items() if gib == math.inf)))
    return {**{suites: gib for suites, gib in rows.items() if gib != math.inf}, **({last: math.inf} if last else {})}
