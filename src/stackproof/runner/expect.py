"""Counts what a stack's manifest says: from records of whole runs, or, for cards that nobody has here, from collection alone."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.places import SUITES
from stackproof.project import projects
from stackproof.record import reading
from stackproof.record.records import Record, Verdict
from stackproof.runner.request import Request
from stackproof.runner.suites import DEFAULT_PROFILE, counted
from stackproof.runner.supervise import command, handed_over
from stackproof.stack import capabilities, lockfile, manifest
from stackproof.stack.manifest import FileRow
from stackproof.stack.stacks import HOST, PRECISIONS, Stack, own_suites, suites

_SECONDS = 300.0
_PRECISION = re.compile(rf"(?:\[|-)({'|'.join(PRECISIONS)})(?=-|\])")


def collected(stack: Stack, theirs: bool = False) -> tuple[str, ...]:
    """Return every check of ours that pytest collects for a stack, by a process of this environment that runs none.

    `theirs`: in their place those of the project, of its own suites and of ours about its workloads.

    Raises:
        Refusal: a file cannot be collected.
    """
    project, own = projects.current(), own_suites()
    pairs = _collected(stack, SUITES, counted([name for name in suites() if name not in own]))
    if theirs and project and project.suites and own:
        pairs += _collected(stack, project.suites, own)
    return tuple(name for name, foreign in pairs if foreign is theirs)


def _collected(stack: Stack, root: Path, chosen: tuple[str, ...]) -> list[tuple[str, bool]]:
    with tempfile.TemporaryDirectory(prefix="stackproof-expect-") as folder:
        request = Request("expect", stack, chosen, folder=folder, options={"profile": DEFAULT_PROFILE}, collect=True)
        words, variables = [*command(request, root), "--collect-only"], handed_over(request)
        ended = processes.run(words, seconds=_SECONDS * processes.crowding(), environment=variables)
        path = Path(folder) / "events.jsonl"
        events = [files.parse_json(line, path) for line in path.read_bytes().splitlines()] if path.exists() else []
    wrong = [event["check"]["reason"] for event in events if event["event"] == "finished"]
    collected = [event for event in events if event["event"] == "collected"]
    names = [(name, name in event["theirs"]) for event in collected for name in event["known"]]
    if wrong or not names or not ended.ok:
        last = wrong or (ended.errors or ended.output).strip().splitlines()[-1:] or ["nothing was said"]
        absent = "; add --locked, which builds an environment that has it" if "No module named" in last[0] else ""
        raise Refusal(f"the checks of '{stack.name}' cannot be collected: {last[0]}{absent}")
    return names


def measured(stack: Stack, paths: Iterable[Path]) -> dict[str, FileRow]:
    """Return the rows that records of whole runs show; a later record of a file counts.

    Raises:
        Refusal: a record is of another stack or lock, of chosen checks, or was interrupted.
    """
    rows: dict[str, FileRow] = {}
    for path in paths:
        record = _whole(stack, path)
        ids = [check.id for check in record.checks if "::" in check.id]
        rows |= manifest.rows_of(ids, _without(record))
    return rows


def predicted(stack: Stack, names: Iterable[str], like: Record, because: str) -> dict[str, FileRow]:
    """Return rows for a card that nobody has here: what was collected, less what rows of data leave out.

    That is: precisions that the stack does not have, dtypes that torch's operator database does not list for the device, and what
    was not executed in the run of another stack for a reason that is none of that device's own. A file that the other run did not
    have has no row here, and keeps the one that it has.
    """
    known = {check.id.partition("::")[0] for check in like.checks if "::" in check.id}
    names = tuple(name for name in names if name.partition("::")[0] in known)
    elsewhere = {name: why for name, why in _without(like).items() if _here_too(why, stack)}
    dtypes = {name: word[1] for name in names if (word := _PRECISION.search(name))}
    precisions = {name: "precisions" for name, dtype in dtypes.items() if dtype not in stack.precisions}
    return manifest.rows_of(names, {**elsewhere, **_not_listed(stack, names), **precisions}, because)


def _whole(stack: Stack, path: Path) -> Record:
    record = reading.read_sealed(path)
    facts = record.provenance
    wrong = {
        f"is of the stack '{record.stack}'": record.stack != stack.name or facts.get("rehearsed") != stack.rehearsed,
        "was not run in the environment of the lock": facts.get("lock") != lockfile.own(stack).digest,
        "is of chosen checks (--only)": bool(facts.get("only")),
        "was interrupted": record.verdict is Verdict.INTERRUPTED,
    }
    if reason := next((why for why, holds in wrong.items() if holds), ""):
        raise Refusal(
            f"{path}: {reason}; a manifest of '{stack.name}' is counted in a whole run of its locked environment"
        )
    return record


def _without(record: Record) -> dict[str, str]:
    return {check.id: manifest.why_not(check) for check in record.checks if not check.verdict.executed}


def _here_too(why: str, stack: Stack) -> bool:
    """Whether what was left out on another device is left out here: by a table, a package, or a rule of this device's too."""
    rule = capabilities.rules().get(why)
    named = rule is not None and (bool(rule.needs) or stack.device in rule.absent_on)
    return named or why == "not applicable" or why.endswith(".toml")


def _not_listed(stack: Stack, names: tuple[str, ...]) -> dict[str, str]:
    import torch

    from stackproof.operators import database

    operators = database.load()
    values: dict[str, str] = {}
    for name in names:
        operator, _, dtype = name.removeprefix("operators/sweep::agrees[").removesuffix("]").rpartition("-")
        if name.startswith("operators/sweep::agrees[") and operator in operators:
            try:
                listed = operators[operator].supported_dtypes(stack.device)
            except RuntimeError:  # a device type that it does not know by name has those of the CPU
                listed = operators[operator].supported_dtypes(HOST)
            values |= {} if getattr(torch, dtype) in listed else {name: "not applicable"}
    return values


def settle(stack: Stack, rows: Mapping[str, FileRow], names: Iterable[str]) -> dict[str, FileRow]:
    """Return a row for each file that was collected: of these rows, which a run or another stack's run shows, else as it was.

    Raises:
        Refusal: the checks of a file are not those of the run, or changed since the manifest was written and no run shows them.
    """
    before = manifest.load_loosely(stack)
    settled, unseen = {}, []
    for file, row in manifest.rows_of(names, {}).items():
        known = rows.get(file) or before.get(file)
        if known is None or known.ids != row.ids:
            unseen.append(file)
        else:
            settled[file] = known
    if unseen:
        chosen = " ".join(f"--suite {suite}" for suite in dict.fromkeys(file.partition("/")[0] for file in unseen))
        raise Refusal(
            f"nobody knows what '{stack.name}' executes of {', '.join(unseen)}: the checks changed and no record that was named has them; "
            f"run `stackproof verify --stack {stack.name} {chosen}` and name its record, or another stack's with --like"
        )
    return settled
