"""The verb `constraints`: a stack's pins for `pip install -c`, in an environment that is not ours."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from stackproof.commands import arguments
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs

_HELP = "print a stack's pins for `pip install -c`; builds of a vendor that are installed here are held as they are"


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "constraints", _HELP, _run)
    arguments.add_named_stacks(verb)


def _run(options: argparse.Namespace) -> int:
    from stackproof.stack import companions, lockfile

    stack = stacks.load(options.names)
    lock, there = lockfile.read(stack.lock), companions.installed()
    for note in companions.weaknesses(lock, there):
        print(f"stackproof: {note}", file=sys.stderr)  # noqa: T201
    print(f"# {stack.name}: `pip install -c` of this leaves the vendor's builds alone; all else is as in the lock.")  # noqa: T201
    for line in companions.constraints(lock, there):
        print(line)  # noqa: T201
    return 0
