"""The verb `doctor`: is this box what it claims to be."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Refusal
from . import arguments

if TYPE_CHECKING:
    from .arguments import Verbs


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
    verb.add_argument(
        "--report", action="store_true", help="print a block for an issue, without names, addresses and home folders"
    )


def _run(options: argparse.Namespace) -> int:
    from .. import doctor

    machine = doctor.Machine()
    found = doctor.examine(options.stack, machine)
    if options.json not in (None, _STDOUT):
        _write(options.json, doctor.as_json(found))
    if options.json == _STDOUT:
        print(doctor.as_json(found))  # noqa: T201
    elif options.report:
        print(doctor.for_an_issue(found, machine))  # noqa: T201
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for line in doctor.terminal(found, shutil.get_terminal_size((150, 24)).columns, colour):
            print(line)  # noqa: T201
    if found.broken:
        raise found.broken
    return found.exit_code


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); name another file") from error
