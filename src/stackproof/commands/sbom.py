"""The verb `sbom`: what a stack's lock installs, with licences, as a bill of materials."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from stackproof.commands import arguments
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
    from stackproof.stack.stacks import Stack

_HELP = "print what a stack's lock installs, with hashes and licences, as CycloneDX JSON (a bill of materials)"
_NAMED = 6


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "sbom", _HELP, _run)
    verb.add_argument("name", metavar="NAME", help=f"one of: {', '.join(stacks.names())}")
    verb.add_argument("--licences", action="store_true", help="print a line for each licence instead, and its packages")


def _run(options: argparse.Namespace) -> int:
    from stackproof.stack import environments, licences, lockfile, sbom

    stack = stacks.load(options.name)
    lock = lockfile.read(stack.lock)
    known = licences.known([environments.location(stack), environments.location(stack.rehearse())])
    found = sbom.summary(lock, known)
    if options.licences:
        for name, packages in found.items():
            print(f"{name}: {', '.join(packages)}")  # noqa: T201
    else:
        print(json.dumps(sbom.bill(stack, lock, known), indent=1, ensure_ascii=False))  # noqa: T201
    if lost := found.get(sbom.UNKNOWN):
        print(f"stackproof: {_unknown(stack, lost)}", file=sys.stderr)  # noqa: T201
    return 0


def _unknown(stack: Stack, lost: list[str]) -> str:
    named = ", ".join(lost[:_NAMED]) + (f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else "")
    remedy = f"they are read where packages are installed, so build the environment (`stackproof smoke --stack {stack.name} --locked`)"
    return f"licences not known: {len(lost)} ({named}); {remedy} or run this in the vendor's container"
