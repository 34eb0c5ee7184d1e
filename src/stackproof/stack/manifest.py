"""How many checks each file of the suites has, under which names, and why a stack may skip some: `stacks/NAME/expected.toml`.

Written by one command (`stackproof expect`) and reviewed as a diff. The stack that every host has names each file, and
another stack of ours the files that differ, so that what is the same everywhere is counted once. A file whose checks vanish,
or are called otherwise, fails the run, and so does a check that is skipped by a rule that its file's row does not name.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stackproof.base import advice, files, places
from stackproof.base.errors import suggestion
from stackproof.base.text import counted as counted_as
from stackproof.base.toml import Table
from stackproof.record.records import Check, Verdict
from stackproof.stack import capabilities
from stackproof.stack.stacks import DEVELOPMENT, STACKS, Stack, display_path, suites

_NAMED = 5
"""Checks that a complaint names at most."""

LEAST = 0.98
"""The share that must be there where the exact number cannot be known: another torch than the lock's, a card that nobody had."""

NOT_APPLICABLE = "not applicable"
MEASURED = "measured"
"""Why a check is not executed where it found that out on the device itself, or where no earlier run was kept."""

COUNTED = (NOT_APPLICABLE, MEASURED)
"""Reasons that no row of data holds: only their number says that no more checks are left out than in the run that was counted."""

_RULE = re.compile(r"data/capabilities\.toml, ([a-z0-9-]+):")
_MISSING = re.compile(r"\bstack\.toml(?:, missing\.([a-z0-9-]+))?:")
_TABLE = re.compile(r"data/([a-z]+\.toml)")


@dataclass(frozen=True)
class FileRow:
    """What one file of a suite has: so many checks, the digest of their sorted names, and what may keep some from being executed.

    How many checks a rule of data leaves out follows from the rule, so that it is named here and not counted a second time.
    """

    checks: int
    ids: str
    rules: tuple[str, ...] = ()
    """The rules of data by which checks may be skipped, as `why_not` calls them."""
    without: Mapping[str, int] = field(default_factory=dict)
    """How many checks are left out by each of `COUNTED`."""
    because: str = ""
    """Why 98 % are enough here; empty where the checks were counted in a run."""


@dataclass(frozen=True)
class Manifest:
    """The rows of a stack, by file: `operators/sweep`."""

    path: Path
    files: Mapping[str, FileRow]

    @property
    def name(self) -> str:
        return display_path(self.path)


@dataclass(frozen=True)
class _File:
    written: datetime.date
    files: Mapping[str, FileRow]
    because: str = ""
    """Of every row that has no reason of its own."""
    absent: tuple[str, ...] = ()
    """Files of the suites that the stack of every host has and this one has not."""

    def rows(self, path: Path) -> dict[str, FileRow]:
        every = {name: row for name, row in _base(path).items() if name not in self.absent} | {**self.files}
        return {name: replace(row, because=row.because or self.because) for name, row in every.items()}


def _base(path: Path) -> Mapping[str, FileRow]:
    """Return the rows from which a manifest says the differences: none for a project's, and for the base itself."""
    base = STACKS / DEVELOPMENT / path.name
    ours = path.is_relative_to(STACKS) and path != base and base.exists()
    return Table.load(base).row(_File).files if ours else {}


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
    """Read the manifest of a stack, None if nobody has written one; a suite that does not exist is refused, for it has vanished."""
    path = path_of(stack)
    return read(path, stack) if path.exists() else None


def read(path: Path, stack: Stack) -> Manifest:
    """Read a manifest: a stack's, or a project's."""
    table = Table.load(path)
    manifest = Manifest(path, table.row(_File).rows(path))
    for name in manifest.files:
        if (suite := name.partition("/")[0]) not in suites():
            why = f"is of the suite '{suite}', which does not exist{suggestion(suite, suites())}"
            raise table.refuse(f"files.{name}", f"{why}; bring its files back, or {remedy(path, stack)}")
    return manifest


def load_loosely(stack: Stack) -> dict[str, FileRow]:
    """Return the rows as they stand for one who writes them anew: suites may have gone, and there may be none."""
    path = path_of(stack)
    return Table.load(path).row(_File).rows(path) if path.exists() else {}


def complaints(manifest: Manifest, run: Selection, stack: Stack, counted: bool = True) -> Iterator[tuple[str, str]]:
    """Yield file and sentence for each file that does not have what the manifest says: what to do, and which checks it is about.

    `counted`: look at what was executed too, not only at what was collected.
    """
    names = by_file(run.collected)
    ended = defaultdict[str, list[Check]](list)
    for check in run.checks:
        ended[check.id.partition("::")[0]].append(check)
    anew = f"if that is meant, {remedy(manifest.path, stack, 'the record of this run' if counted else '')}"
    for file in dict.fromkeys(name for name in (*manifest.files, *names) if name.partition("/")[0] in run.suites):
        row, ids = manifest.files.get(file), names.get(file, [])
        if row is None:
            if run.exact and ids:
                yield file, f"{manifest.name} has no row for {file}, whose {len(ids)} checks nobody would miss; {anew}"
        elif sentence := _otherwise(manifest, file, row, ids, run):
            yield file, f"the checks of {file} are not those of {manifest.name}; {anew}: {sentence}"
        elif counted and (left := _unexplained(row, ended[file], run.exact)):
            named = "; ".join(f"{check.id.partition('::')[2]} ({check.reason})" for check in left[:_NAMED])
            more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
            allowed = ", ".join([*row.rules, *(f"{count} {why}" for why, count in row.without.items())]) or "nothing"
            number = counted_as(len(left), "check")
            why = f"find out why {number} of {file} did not run, or, {anew}: {named}{more}"
            yield file, f"{why}; {manifest.name} excuses {allowed}"


def by_file(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of checks by their file: `operators/sweep::agrees[add]` is of `operators/sweep`."""
    groups: dict[str, list[str]] = {}
    for name in names:
        file, mark, _ = name.partition("::")
        if mark and "/" in file:
            groups.setdefault(file, []).append(name)
    return groups


def digest(names: Iterable[str]) -> str:
    """Return what changes when a check is renamed: the first 16 digits of the SHA-256 over the sorted names."""
    return hashlib.sha256("\n".join(sorted(set(names))).encode()).hexdigest()[:16]


def why_not(check: Check) -> str:
    """Return in a word why a check was not executed: the rule of data that its reason names."""
    if check.verdict is Verdict.NOT_APPLICABLE:
        return NOT_APPLICABLE
    if rule := _RULE.search(check.reason):
        return rule[1]
    if stack := _MISSING.search(check.reason):
        return f"missing.{stack[1]}" if stack[1] else "precisions"
    table = _TABLE.search(check.reason)
    return table[1] if table else MEASURED


def rows_of(collected: Iterable[str], without: Mapping[str, str], because: str = "") -> dict[str, FileRow]:
    """Return the rows for checks that were collected; `without` has, by name, why one is not executed."""
    file_rows = {}
    for file, names in sorted(by_file(set(collected)).items()):
        left = Counter(without[name] for name in names if name in without)
        rules = tuple(sorted(why for why in left if why not in COUNTED and not _varies(why)))
        counts = {why: left[why] for why in COUNTED if why in left}
        file_rows[file] = FileRow(len(names), digest(names), rules, counts, because)
    return file_rows


def write(path: Path, rows: Mapping[str, FileRow], stack: Stack) -> None:
    """Write a manifest, a line for each file; rows of files that were not looked at have to be among them."""
    reasons, base = {row.because for row in rows.values()}, _base(path)
    common = next(iter(reasons)) if len(reasons) == 1 else ""
    same = {name for name, row in rows.items() if name in base and row == replace(base[name], because=common)}
    lines = [
        f"# How many checks each file has, by the digest of their names, and why some may not be executed on '{stack.label}'.",
        f"# Written by `python -m stackproof expect --stack {stack.name}` (CONTRIBUTING.md, Add a check); review it as a diff.",
        f"written = {datetime.date.today().isoformat()}",
        *([f"because = {json.dumps(common)}"] if common else []),
        *([f"absent = {json.dumps(sorted(base.keys() - rows.keys()))}"] if base.keys() - rows.keys() else []),
        *([f"# Files that are not named are as on '{DEVELOPMENT}'."] if base else []),
        "",
        "[files]",
    ]
    for file, row in sorted((file, row) for file, row in rows.items() if file not in same):
        counts = ", ".join(f"{json.dumps(why)} = {count}" for why, count in row.without.items())
        words = [f"checks = {row.checks}", f'ids = "{row.ids}"']
        words += [f"rules = {json.dumps(row.rules)}"] if row.rules else []
        words += [f"without = {{ {counts} }}"] if counts else []
        words += [f"because = {json.dumps(row.because)}"] if row.because != common else []
        lines.append(f'"{file}" = {{ {", ".join(words)} }}')
    with files.writing(path, "make it writable"):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _otherwise(manifest: Manifest, file: str, row: FileRow, ids: list[str], run: Selection) -> str:
    """Say in what the checks that were collected of a file are not its row's, or nothing."""
    more = file.partition("/")[0] in run.more
    least = row.checks if run.exact else math.ceil(row.checks * LEAST)
    if len(ids) < least or (run.exact and not more and len(ids) > row.checks):
        bound = "" if run.exact else f" (at least {least} with another torch)"
        return f"{len(ids)} checks of {file} were collected, {manifest.name} has {row.checks}{bound}"
    if run.exact and not more and digest(ids) != row.ids:
        return f"{file} has {len(ids)} checks as {manifest.name} says, and under other names (digest {digest(ids)}, there {row.ids})"
    return ""


def _unexplained(row: FileRow, checks: list[Check], exact: bool) -> list[Check]:
    """Return the checks that were not executed and that nothing excuses; another torch and cards that nobody had excuse more."""
    known = exact and not row.because
    room, left = Counter(row.without), []
    for check in checks:
        if check.verdict.executed:
            continue
        why = why_not(check)
        if why in row.rules or _varies(why, elsewhere=not known):
            continue
        room[why] -= 1
        if room[why] < 0:
            left.append(check)
    return left if known or len(left) > row.checks - math.ceil(row.checks * LEAST) else []


def _varies(why: str, elsewhere: bool = False) -> bool:
    """Whether hosts of the stack differ in it; `elsewhere`: or versions, backends and devices other than those that were counted."""
    rule = capabilities.rules().get(why)
    if rule is None:
        return elsewhere and (why == MEASURED or why.endswith(".toml"))
    return rule.varies or (elsewhere and bool(rule.needs or rule.absent_over))


def remedy(path: Path, stack: Stack, record: str = "") -> str:
    """Say what writes a manifest anew: a project's where it is, ours in a checkout alone; where no record is named, what leaves one too."""
    line = f"--stack {stack.name}{' --rehearsed' if stack.rehearsed else ''} --locked"
    if not path.is_relative_to(places.ROOT):
        return f"write it anew with `stackproof expect {line}`"
    whole = advice.words(stack.name, "rehearse" if stack.rehearsed else "verify", "--suite", "all", session=True)
    record = record or f"what `{' '.join(whole)}` leaves"
    return f"write it anew with {advice.in_checkout(f'nox -s expect -- {line} RECORD')}, where RECORD is {record}"
