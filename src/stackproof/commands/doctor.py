"""The verb `doctor`: is this box what it claims to be."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.commands import arguments

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs

_STDOUT = Path("-")


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = "is this box what it claims to be: stacks, host, cards, environments, variables; changes nothing"
    verb = arguments.add(verbs, "doctor", help_, _run)
    verb.add_argument("--stack", metavar="NAME", help="look at one stack only, and take what it lacks for a problem")
    verb.add_argument(
        "--json",
        nargs="?",
        const=_STDOUT,
        type=arguments.file,
        metavar="FILE",
        help="write one JSON object there; without FILE, instead of text",
    )
    verb.add_argument("--all", action="store_true", help="also say of every stack what it needs and what is built")
    verb.add_argument(
        "--report", action="store_true", help="print a block for an issue, without names, addresses and home folders"
    )


def _run(options: argparse.Namespace) -> int:
    from stackproof.doctor import checkup, machine, report

    here = machine.Machine()
    found = checkup.examine(options.stack, here)
    if options.json not in (None, _STDOUT):
        _write(options.json, report.as_json(found))
    if options.json == _STDOUT:
        print(report.as_json(found))  # noqa: T201
    elif options.report:
        print(report.for_an_issue(found, here))  # noqa: T201
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for line in report.terminal(found, shutil.get_terminal_size((150, 24)).columns, colour, options.all):
            print(line)  # noqa: T201
    if found.broken:
        raise found.broken
    return found.exit_code


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); name another file") from error
