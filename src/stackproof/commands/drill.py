"""The verb `drill`: flags, the live table and the record."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.places import require_checkout
from stackproof.commands import arguments, locked

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
    from stackproof.drill.table import Faults
    from stackproof.record.records import Record

_HELP = "inject every fault that is claimed to be caught, and see each caught by name"
_WORKERS = (
    "runs side by side; they wait a seventh of their time, so there is one more than two cores keep busy (default: 3)"
)


def add(verbs: Verbs) -> None:
    """Add the verb to the parser of the command line."""
    verb = arguments.add(verbs, "drill", _HELP, _run)
    verb.add_argument("--fast", action="store_true", help="only the rows that are marked so: minutes become seconds")
    arguments.add_list(verb, "--only", "ID", "only this fault (or pattern); may be repeated")
    verb.add_argument("--workers", type=arguments.count, default=3, metavar="N", help=_WORKERS)
    arguments.add_deadline_scale(verb)
    verb.add_argument(
        "--afresh",
        action="store_true",
        help="start every process by itself; without it, those of most suites are forked from one that has imported torch",
    )
    verb.add_argument(
        "--continue",
        dest="earlier",
        type=Path,
        metavar="RECORD",
        help="take what passed in this record of the drill as it was, and run the rest",
    )
    verb.add_argument(
        locked.FLAG, action="store_true", help="build the environments that the drill needs, and run in the first"
    )
    arguments.add_outputs(verb, junit=False)


def _run(options: argparse.Namespace) -> int:
    """Run the drill and return the exit code of the contracts."""
    from stackproof.drill import table

    require_checkout("drill")
    loaded = table.load()
    if options.locked:
        from stackproof.stack import hosts, stacks

        drilled = [stacks.load(name) for name in loaded.stacks]
        return locked.again([stack for stack in drilled if hosts.inspect(stack).present], options.given)
    return _drill(options, loaded)


def _drill(options: argparse.Namespace, loaded: Faults) -> int:
    """Run what is chosen, in the environment that the drill needs."""
    from stackproof.drill import drill, report
    from stackproof.record import writer
    from stackproof.record.console import plain_console

    outputs = writer.Outputs(options.results or writer.LOCAL, options.json)
    outputs.prepare()
    chosen = loaded.choose(tuple(options.only), options.fast)
    if not chosen:
        raise Refusal("no fault is chosen; leave out --fast or name other rows with --only")
    earlier = _earlier(options.earlier)
    console = plain_console()
    left = len(chosen) + len(drill.cleans(chosen)) - len(drill.standing(earlier, chosen))
    board = report.LiveTable(console, left + 1)
    record = drill.conduct(loaded, chosen, options.workers, options.deadline_scale, board.told, earlier, options.afresh)
    where = writer.keep(record, outputs.folder(record) / "record.json", outputs)
    report.close(console, record, where)
    return record.verdict.exit_code


def _earlier(path: Path | None) -> Record | None:
    """Read the record to go on from; another verb's is refused."""
    from stackproof.record import reading

    found = reading.read_verified(path) if path else None
    if found is not None and found.verb != "drill":
        raise Refusal(f"--continue {path}: is a record of `{found.verb}`; name one of `drill`")
    return found
