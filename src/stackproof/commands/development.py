"""The verbs of stackproof's own development: `drill`, and `expect`, which counts what a stack's runs must execute."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.places import require_checkout
from stackproof.commands import arguments
from stackproof.project import projects
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.project.projects import Project

_WORKERS = (
    "runs side by side; they wait a seventh of their time, so there is one more than two cores keep busy (default: 3)"
)


def add(verbs: arguments.Verbs) -> None:
    """Add them to the parser of the command line."""
    help_ = "(dev) inject every fault that is claimed to be caught, and see each caught by name"
    verb = arguments.add(verbs, "drill", help_, _drill, *arguments.RECORD, "--deadline-scale")
    verb.add_argument("--fast", action="store_true", help="only the rows that are marked so: minutes become seconds")
    arguments.add_list(verb, "--only", "ID", "only this fault (or pattern); may be repeated")
    verb.add_argument("--workers", type=arguments.count, default=3, metavar="N", help=_WORKERS)
    arguments.add_shared(verb, "--locked", help="build the environments that the drill needs, and run in the first")
    help_ = (
        "(dev) write what a stack's runs must execute, file by file (stacks/NAME/expected.toml), for review as a diff"
    )
    verb = arguments.add(verbs, "expect", help_, _expect, "--locked", "--rehearsed")
    arguments.add_shared(verb, "--stack", required=True)
    help_ = (
        "no card is at hand: leave out what this record of another stack left out on every device, and bound the rest"
    )
    verb.add_argument("--like", type=arguments.place, metavar="RECORD", help=help_)
    verb.add_argument("--check", action="store_true", help="write nothing; fail where collection is not the manifest")
    help_ = "records of whole runs, in which executed checks are counted"
    verb.add_argument("records", nargs="*", type=arguments.place, metavar="RECORD", help=help_)


def _drill(options: argparse.Namespace) -> int:
    from stackproof.drill import table

    require_checkout("drill")
    loaded = table.load()
    if options.locked:
        from stackproof.stack import hosts

        drilled = [stacks.load(name) for name in loaded.stacks]
        return arguments.again([stack for stack in drilled if hosts.inspect(stack).present], options.typed)
    from stackproof.drill import drill  # needs what only the environment has
    from stackproof.record import console, writer

    outputs = arguments.outputs(options)
    outputs.prepare()
    chosen = tuple(loaded.choose(tuple(options.only), options.fast))
    if not chosen:
        raise Refusal("no fault is chosen; leave out --fast or name other rows with --only")
    request = drill.DrillRequest(loaded, chosen, options.workers, options.deadline_scale)
    with console.Terminal().watching(f"drill: {len(chosen)} faults") as terminal:
        terminal.collected(len(chosen) + len(drill.cleans(chosen)) + 1)
        record = drill.conduct(request, terminal.finished)
    where = writer.keep(record, outputs.folder(record) / "record.json", outputs)
    console.show(record, where)
    return record.verdict.exit_code


def _expect(options: argparse.Namespace) -> int:
    project = projects.current()
    if project is None:
        require_checkout("expect")
    stack = stacks.load(options.stack, rehearsed=options.rehearsed)
    if options.records and options.like:
        raise Refusal(
            "--like is for stacks without a record of their own; name records of the stack, or another's with --like"
        )
    if options.check and (options.like or options.records):
        raise Refusal(
            "--check writes nothing, and records and --like are of what is written; leave them out, or --check"
        )
    if options.locked:
        # Collecting needs no card, and vendors' wheels may be out of reach: the rehearsal has the same versions from upstream.
        return arguments.again([stack if stack.rehearsed else stack.rehearse()], options.typed)
    if project is not None:
        if options.records or options.like or options.check:
            raise Refusal("of a project, checks are collected; leave out records, --like and --check")
        return _write_theirs(project, stack)
    return _check(stack) if options.check else _write(stack, options.records, options.like)


def _write_theirs(project: Project, stack: stacks.Stack) -> int:
    """Write how many checks there are of the project's workloads and suites: its own manifest, beside its own file."""
    from stackproof.runner import expect
    from stackproof.stack import manifest

    rows = manifest.rows_of(expect.collected(stack, theirs=True), {})
    path = project.folder / "expected.toml"
    manifest.write(path, rows, stack)
    print(f"{path}: {sum(row.checks for row in rows.values())} checks in {len(rows)} files")  # noqa: T201
    return 0


def _write(stack: stacks.Stack, shown_by: Sequence[Path], another: Path | None) -> int:
    from stackproof.record import reading
    from stackproof.runner import expect
    from stackproof.stack import manifest

    rows = expect.measured(stack, shown_by)
    like = reading.read_sealed(another) if another else None
    names = expect.collected(stack)
    if like:
        why = f"no run on the hardware of '{stack.name}': left out as on '{like.stack}', and by torch's lists for '{stack.device}'"
        rows = expect.predicted(stack, names, like, why)
    settled = expect.settle(stack, rows, names)
    manifest.write(manifest.path_of(stack), settled, stack)
    total = sum(row.checks for row in settled.values())
    print(f"{manifest.path_of(stack)}: {total} checks in {len(settled)} files, {len(rows)} of them by what was run")  # noqa: T201
    return 0


def _check(stack: stacks.Stack) -> int:
    from stackproof.runner import expect
    from stackproof.stack import manifest

    counted = manifest.load(stack)
    if counted is None:
        raise Refusal(f"{manifest.path_of(stack)}: does not exist; {manifest.remedy(manifest.path_of(stack), stack)}")
    run = manifest.Selection(expect.collected(stack), (), stacks.suites())
    wrong = [text for _, text in manifest.complaints(counted, run, stack, counted=False)]
    print("\n".join(wrong) or f"{manifest.path_of(stack)}: names every check that there is")  # noqa: T201
    return 1 if wrong else 0
