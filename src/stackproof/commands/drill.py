"""The verb `drill`: flags, the live table and the record."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.places import require_checkout
from stackproof.commands import arguments, locks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
    from stackproof.drill.drill import DrillRequest
    from stackproof.record.records import Record
    from stackproof.record.writer import Outputs

_NEWEST = Path()
_HELP = "(dev) inject every fault that is claimed to be caught, and see each caught by name"
_WORKERS = (
    "runs side by side; they wait a seventh of their time, so there is one more than two cores keep busy (default: 3)"
)


def add(verbs: Verbs) -> None:
    """Add the verb to the parser of the command line."""
    verb = arguments.add(verbs, "drill", _HELP, _run, *arguments.RECORD, "--deadline-scale")
    verb.add_argument("--fast", action="store_true", help="only the rows that are marked so: minutes become seconds")
    arguments.add_list(verb, "--only", "ID", "only this fault (or pattern); may be repeated")
    verb.add_argument("--workers", type=arguments.count, default=3, metavar="N", help=_WORKERS)
    help_ = "take what passed in the newest drill (or in this record of one) as it was, and run the rest"
    verb.add_argument("--continue", dest="earlier", nargs="?", type=Path, const=_NEWEST, metavar="RECORD", help=help_)
    help_ = "build the environments that the drill needs, and run in the first"
    arguments.add_shared(verb, "--locked", help=help_)


def _run(options: argparse.Namespace) -> int:
    """Run the drill and return the exit code of the contracts."""
    from stackproof.drill import table

    require_checkout("drill")
    loaded = table.load()
    if options.locked:
        from stackproof.stack import hosts, stacks

        drilled = [stacks.load(name) for name in loaded.stacks]
        return locks.again([stack for stack in drilled if hosts.inspect(stack).present], options.given)
    from stackproof.drill.drill import DrillRequest  # needs what only the environment has
    from stackproof.record import resume

    outputs = arguments.outputs(options)
    outputs.prepare()
    chosen = tuple(loaded.choose(tuple(options.only), options.fast))
    if not chosen:
        raise Refusal("no fault is chosen; leave out --fast or name other rows with --only")
    path = options.earlier
    earlier = _earlier(resume.newest(outputs.results, "drill", table.STACK) if path == _NEWEST else path)
    return _conduct(DrillRequest(loaded, chosen, options.workers, options.deadline_scale, earlier), outputs)


def _conduct(request: DrillRequest, outputs: Outputs) -> int:
    from stackproof.drill import drill
    from stackproof.record import writer
    from stackproof.record.console import plain_console

    console = plain_console()
    board = drill.LiveTable(console, request.left + 1)
    record = drill.conduct(request, board.show)
    where = writer.keep(record, outputs.folder(record) / "record.json", outputs)
    drill.close(console, record, where)
    return record.verdict.exit_code


def _earlier(path: Path | None) -> Record | None:
    """Read the record to go on from; another verb's is refused."""
    from stackproof.record import reading

    found = reading.read_verified(path) if path else None
    if found is not None and found.verb != "drill":
        raise Refusal(f"--continue {path}: is a record of `{found.verb}`; name one of `drill`")
    return found
