"""How many checks each file of the suites has, under which names, and how many of them a stack executes: `stacks/NAME/expected.toml`.

Written by one command (`stackproof expect`) and reviewed as a diff. A file whose checks vanish, or are called otherwise, fails the
run, and so does one of which fewer are executed than the rows of data explain.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.base import advice, places
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import Table, Wrong
from stackproof.record.records import NOT_EXECUTED, Check, Verdict
from stackproof.stack import capabilities
from stackproof.stack.stacks import STACKS, Stack, suites, told

LEAST = 0.98
"""The share that must be there where the exact number cannot be known: another torch than the lock's, a card that nobody had."""

MEASURED = "measured"
"""Why a check is not executed where it found that out on the device itself, or where no earlier run was kept."""

_RULE = re.compile(r"data/capabilities\.toml, ([a-z0-9-]+):")
_MISSING = re.compile(r"\bstack\.toml(?:, missing\.([a-z0-9-]+))?:")
_TABLE = re.compile(r"data/([a-z]+\.toml)")


@dataclass(frozen=True)
class FileRow:
    """What one file of a suite has: so many checks, the digest of their sorted names, and how many are not executed, by reason."""

    checks: int
    ids: str
    without: Mapping[str, int] = field(default_factory=dict)
    because: str = ""
    """Why the number of executed checks is a bound of 98 % here and not exact; empty where it was counted in a run."""

    def __post_init__(self) -> None:
        if self.checks < 1:
            raise Wrong("checks", f"is {self.checks}; a file without checks has no row")
        if not re.fullmatch(r"[0-9a-f]{16}", self.ids):
            raise Wrong("ids", f"is {self.ids!r}; it must be the first 16 digits of a SHA-256")
        if sum(self.without.values()) > self.checks:
            raise Wrong("without", f"leaves out {sum(self.without.values())} checks of {self.checks}")

    @property
    def executed(self) -> int:
        """How many are executed; where a bound is all that is known, that bound."""
        counted = self.checks - sum(self.without.values())
        return _share(counted) if self.because else counted


@dataclass(frozen=True)
class Manifest:
    """The rows of a stack, by file: `operators/sweep`."""

    path: Path
    files: Mapping[str, FileRow]
    written: datetime.date = datetime.date.min
    """The day on which it was written: no run is earlier, whatever a clock says."""

    @property
    def name(self) -> str:
        """How people call it."""
        return told(self.path)


@dataclass(frozen=True)
class _File:
    written: datetime.date
    files: Mapping[str, FileRow]


@dataclass(frozen=True)
class Selection:
    """What a run has to show: every check that was collected, and how each ended. `exact`: in the environment of the lock."""

    collected: Iterable[str]
    checks: Iterable[Check]
    suites: tuple[str, ...]
    exact: bool = True
    more: tuple[str, ...] = ()
    """Suites that were asked for more than the manifest counts, by another profile than its own."""


def path_of(stack: Stack) -> Path:
    """Return the file of a stack, or of its rehearsal, which runs other checks."""
    return stack.folder / ("expected.rehearsal.toml" if stack.rehearsed else "expected.toml")


def load(stack: Stack) -> Manifest | None:
    """Read the manifest of a stack; None if nobody has written one.

    Raises:
        Refusal: it is broken, or speaks of a suite that does not exist: then a whole suite has vanished.
    """
    path = path_of(stack)
    return read(path, stack) if path.exists() else None


def read(path: Path, stack: Stack) -> Manifest:
    """Read a manifest: a stack's, or a project's."""
    table = Table.load(path)
    rows = table.row(_File)
    found = Manifest(path, rows.files, rows.written)
    for name in found.files:
        if (suite := name.partition("/")[0]) not in suites():
            why = f"is of the suite '{suite}', which does not exist{suggestion(suite, suites())}"
            raise table.refuse(f"files.{name}", f"{why}; bring its files back, or {remedy(path, stack)}")
    return found


def newest(folder: Path = STACKS) -> datetime.date:
    """Return the latest day on which any stack's manifest was written."""
    files = sorted(folder.glob("*/expected*.toml"))
    return max((Table.load(path).row(_File).written for path in files), default=datetime.date.min)


def load_loosely(stack: Stack) -> dict[str, FileRow]:
    """Return the rows as they stand for one who writes them anew: suites may have gone, and there may be none."""
    path = path_of(stack)
    return dict(Table.load(path).row(_File).files) if path.exists() else {}


def complaints(found: Manifest, run: Selection, stack: Stack, counted: bool = True) -> Iterator[tuple[str, str]]:
    """Yield file and sentence for each file that does not have what the manifest says.

    `counted`: hold executed checks against it too, not only what was collected.
    """
    names = by_file(run.collected)
    ended = _ended(run.checks)
    wanted = [name for name in (*found.files, *names) if name.partition("/")[0] in run.suites]
    for file in dict.fromkeys(wanted):
        row, ids, checks = found.files.get(file), names.get(file, []), ended.get(file, [])
        if row is None:
            said = _unlisted(found, file, ids, run)
        else:
            said = _otherwise(found, file, row, ids, run) or (
                _too_few(found, file, row, checks, run) if counted else ""
            )
        if said:
            yield file, f"{said}; if that is meant, {remedy(found.path, stack)}"


def by_file(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of checks by their file: `operators/sweep::agrees[add]` is of `operators/sweep`."""
    found: dict[str, list[str]] = {}
    for name in names:
        file, mark, _ = name.partition("::")
        if mark and "/" in file:
            found.setdefault(file, []).append(name)
    return found


def digest(names: Iterable[str]) -> str:
    """Return what changes when a check is renamed: the first 16 digits of the SHA-256 over the sorted names."""
    return hashlib.sha256("\n".join(sorted(set(names))).encode()).hexdigest()[:16]


def why_not(check: Check) -> str:
    """Return in a word why a check was not executed: the rule of data that its reason names."""
    if check.verdict is Verdict.NOT_APPLICABLE:
        return "not applicable"
    if rule := _RULE.search(check.reason):
        return rule[1]
    if stack := _MISSING.search(check.reason):
        return f"missing.{stack[1]}" if stack[1] else "precisions"
    table = _TABLE.search(check.reason)
    return table[1] if table else MEASURED


def rows_of(collected: Iterable[str], without: Mapping[str, str], because: str = "") -> dict[str, FileRow]:
    """Return the rows for checks that were collected; `without` has, by name, why one is not executed."""
    found = {}
    for file, names in sorted(by_file(set(collected)).items()):
        left = Counter(without[name] for name in names if name in without and not _varies(without[name]))
        found[file] = FileRow(len(names), digest(names), dict(sorted(left.items())), because)
    return found


def write(path: Path, rows: Mapping[str, FileRow], stack: Stack) -> None:
    """Write a manifest; rows of files that were not looked at have to be among them."""
    lines = [
        f"# How many checks each file has, by the digest of their names, and why some are not executed on '{stack.label}'.",
        f"# Written by `python -m stackproof expect --stack {stack.name}` (docs/reading-a-verdict.md); review it as a diff.",
        f"written = {datetime.date.today().isoformat()}",
    ]
    for file, row in sorted(rows.items()):
        lines += ["", f'[files."{file}"]', f"checks = {row.checks}", f'ids = "{row.ids}"']
        if row.without:
            told = ", ".join(f"{json.dumps(why)} = {count}" for why, count in sorted(row.without.items()))
            lines.append(f"without = {{ {told} }}")
        lines += [f"because = {json.dumps(row.because)}"] if row.because else []
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); make it writable") from error


def _otherwise(found: Manifest, file: str, row: FileRow, ids: list[str], run: Selection) -> str:
    """Say in what the checks that were collected of a file are not its row's, or nothing."""
    more = file.partition("/")[0] in run.more
    least = row.checks if run.exact else _share(row.checks)
    if len(ids) < least or (run.exact and not more and len(ids) > row.checks):
        bound = "" if run.exact else f" (at least {least} with another torch)"
        return f"{len(ids)} checks of {file} were collected, {found.name} has {row.checks}{bound}"
    if run.exact and not more and digest(ids) != row.ids:
        return f"{file} has {len(ids)} checks as {found.name} says, and under other names (digest {digest(ids)}, there {row.ids})"
    return ""


def _too_few(found: Manifest, file: str, row: FileRow, checks: list[Check], run: Selection) -> str:
    """Say that fewer checks of a file were executed than its row explains, or nothing."""
    done = [check for check in checks if check.verdict not in NOT_EXECUTED]
    excused = [
        check for check in checks if check.verdict in NOT_EXECUTED and _excused(check, run.exact and not row.because)
    ]
    least = row.executed if run.exact else _share(row.executed)
    if len(done) + len(excused) >= least:
        return ""
    reasons = sorted({check.reason for check in checks if check.verdict in NOT_EXECUTED})
    why = f"; not executed: {' | '.join(reasons[:5])}" if reasons else ""
    return f"{len(done)} checks of {file} were executed, {found.name} expects at least {least}{why}"


def _unlisted(found: Manifest, file: str, ids: list[str], run: Selection) -> str:
    """Say that nobody counts on a file; another torch may have brought it."""
    return f"{found.name} has no row for {file}, whose {len(ids)} checks nobody would miss" if run.exact and ids else ""


def _excused(check: Check, exact: bool) -> bool:
    """Whether a rule says that hosts differ in this; where nobody counted a run, also what a table, a version or a backend says."""
    why = why_not(check)
    rule = capabilities.rules().get(why)
    if rule is None:
        return not exact and (why == MEASURED or why.endswith(".toml"))
    return rule.varies or (not exact and bool(rule.needs or rule.absent_over))


def _varies(why: str) -> bool:
    rule = capabilities.rules().get(why)
    return rule is not None and rule.varies


def _ended(checks: Iterable[Check]) -> dict[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in checks:
        found.setdefault(check.id.partition("::")[0], []).append(check)
    return found


def _share(count: int) -> int:
    return math.ceil(count * LEAST)


def remedy(path: Path, stack: Stack) -> str:
    """Say what writes a manifest anew: a project's where it is, ours in a checkout alone."""
    line = f"stackproof expect --stack {stack.name}{' --rehearsed' if stack.rehearsed else ''}"
    theirs = not path.is_relative_to(places.ROOT)
    return f"write it anew with {f'`{line} --locked`' if theirs else advice.in_checkout(f'python -m {line}')}"
