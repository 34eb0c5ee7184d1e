"""Which checks of the suites no fault covers: each has a reason in the table, or is a failure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ..records import Check, Verdict
from ..stacks import SUITES
from .table import Faults, matches

NAME = "coverage"


def checks(root: Path = SUITES) -> tuple[str, ...]:
    """Return every check that the files of the suites define, without parameters, as records name them."""
    found = []
    for path in sorted(root.glob("*/test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        file = path.stem.removeprefix("test_").lstrip("0123456789").removeprefix("_")
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        prefix = f"{path.parent.name}/{file}::"
        found += [prefix + name.removeprefix("test_") for name in names if name.startswith("test_")]
    return tuple(found)


def judge(table: Faults, known: tuple[str, ...]) -> Check:
    """Return the check that every check is covered by a fault, or excused, and that no excuse is stale."""
    patterns = {pattern.split("[")[0] for row in table.rows for pattern in row.expected.red if "::" in pattern}
    covered = {name for name in known if any(matches(name, pattern) for pattern in patterns)}
    wrong = list(_uncovered(table, known, covered)) + list(_stale(table, known, covered))
    reason = "; ".join(wrong) or f"{len(covered)} of {len(known)} checks of the suites have a fault here"
    if not wrong and table.excuses:
        reason += f", and the others a reason: {len(table.excuses)} rows"
    excused = {row.checks: row.reason for row in table.excuses}
    return Check(NAME, Verdict.FAILED if wrong else Verdict.PASSED, reason, 0.0, {**excused})


def _uncovered(table: Faults, known: tuple[str, ...], covered: set[str]) -> Iterator[str]:
    for name in known:
        if name not in covered and not any(matches(name, row.checks) for row in table.excuses):
            yield f"no fault covers {name}"


def _stale(table: Faults, known: tuple[str, ...], covered: set[str]) -> Iterator[str]:
    for row in table.excuses:
        meant = [name for name in known if matches(name, row.checks)]
        if not [name for name in meant if name not in covered]:
            why = "a fault covers it" if meant else "there is no such check"
            yield f"the row '{row.checks}' of 'uncovered' is stale: {why}; delete it"
