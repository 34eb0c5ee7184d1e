"""The verb `expect`: writes how many checks each file of the suites has for a stack, or says in what the manifest is not so."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.places import require_checkout
from stackproof.commands import arguments, locks
from stackproof.project import projects
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
    from stackproof.project.projects import Project
    from stackproof.stack.stacks import Stack

_HELP = "(dev) write what a stack's runs must execute, file by file (stacks/NAME/expected.toml), for review as a diff"


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "expect", _HELP, _run, "--locked", "--rehearsed")
    arguments.add_shared(verb, "--stack", required=True)
    help_ = (
        "no card is at hand: leave out what this record of another stack left out on every device, and bound the rest"
    )
    verb.add_argument("--like", type=Path, metavar="RECORD", help=help_)
    help_ = "write nothing; fail where collection is not the manifest"
    verb.add_argument("--check", action="store_true", help=help_)
    help_ = "records of whole runs, in which executed checks are counted"
    verb.add_argument("records", nargs="*", type=Path, metavar="RECORD", help=help_)


def _run(options: argparse.Namespace) -> int:
    project = projects.current()
    if project is None:
        require_checkout("expect")
    stack = stacks.load(options.stack)
    stack = stack.rehearse() if options.rehearsed else stack
    if options.records and options.like:
        raise Refusal(
            "--like is for stacks without a record of their own; name records of the stack, or another's with --like"
        )
    if options.locked:
        # Collecting needs no card, and vendors' wheels may be out of reach: the rehearsal has the same versions from upstream.
        return locks.again([stack if stack.rehearsed else stack.rehearse()], options.given)
    if project is not None:
        if options.records or options.like or options.check:
            raise Refusal("of a project, checks are collected; leave out records, --like and --check")
        return _write_theirs(project, stack)
    return _check(stack) if options.check else _write(stack, options.records, options.like)


def _write_theirs(project: Project, stack: Stack) -> int:
    """Write how many checks there are of the project's workloads and suites: its own manifest, beside its own file."""
    from stackproof.runner import expect
    from stackproof.stack import manifest

    rows = manifest.rows_of(expect.collected(stack, theirs=True), {})
    path = project.folder / "expected.toml"
    manifest.write(path, rows, stack)
    print(f"{path}: {sum(row.checks for row in rows.values())} checks in {len(rows)} files")  # noqa: T201
    return 0


def _write(stack: Stack, shown_by: Sequence[Path], another: Path | None) -> int:
    from stackproof.record import reading
    from stackproof.runner import expect
    from stackproof.stack import manifest

    rows = expect.measured(stack, shown_by)
    like = reading.read(another) if another else None
    names = expect.collected(stack)
    if like:
        why = f"no run on the hardware of '{stack.name}': left out as on '{like.stack}', and by torch's lists for '{stack.device}'"
        rows = expect.predicted(stack, names, like, why)
    settled = expect.settle(stack, rows, names)
    manifest.write(manifest.path_of(stack), settled, stack)
    total = sum(row.checks for row in settled.values())
    print(f"{manifest.path_of(stack)}: {total} checks in {len(settled)} files, {len(rows)} of them by what was run")  # noqa: T201
    return 0


def _check(stack: Stack) -> int:
    from stackproof.runner import expect
    from stackproof.stack import manifest

    found = manifest.load(stack)
    if found is None:
        raise Refusal(f"{manifest.path_of(stack)}: does not exist; {manifest.remedy(manifest.path_of(stack), stack)}")
    run = manifest.Selection(expect.collected(stack), (), stacks.suites())
    wrong = [said for _, said in manifest.complaints(found, run, stack, counted=False)]
    for sentence in wrong:
        print(sentence)  # noqa: T201
    return 1 if wrong else 0
