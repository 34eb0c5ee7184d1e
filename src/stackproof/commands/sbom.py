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
    from stackproof.stack.lockfile import Lock
    from stackproof.stack.stacks import Stack

_HELP = "print what a stack's lock installs, with hashes and licences, as CycloneDX JSON (a bill of materials)"
_NAMED = 6


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "sbom", _HELP, _run)
    arguments.add_named_stacks(verb)
    verb.add_argument("--licences", action="store_true", help="print a line for each licence instead, and its packages")


def _run(options: argparse.Namespace) -> int:
    from stackproof.stack import environments, licences, lockfile, sbom

    stack = stacks.load(options.names)
    lock = lockfile.read(stack.lock)
    known = licences.known([environments.location(stack), environments.location(stack.rehearse())])
    found = sbom.summary(lock, known)
    if options.licences:
        for name, packages in found.items():
            print(f"{name}: {', '.join(packages)}")  # noqa: T201
    else:
        print(json.dumps(sbom.bill(stack, lock, known), indent=1, ensure_ascii=False))  # noqa: T201
    if lost := found.get(sbom.UNKNOWN):
        print(f"stackproof: {_unknown(stack, lock, lost)}", file=sys.stderr)  # noqa: T201
    return 0


def _unknown(stack: Stack, lock: Lock, lost: list[str]) -> str:
    """Say why each is not known: it is for other platforms, its own metadata is silent, or it is installed nowhere yet."""
    from stackproof.stack import environments, hosts, licences

    here = licences.installed([environments.location(stack), environments.location(stack.rehearse())])
    elsewhere = [pin.name for pin in lock.pins if pin.name in lost and not pin.for_linux(stack.pythons)]
    silent = [pin.name for pin in lock.pins if pin.name in lost and (pin.name, pin.version) in here]
    left = [name for name in lost if name not in elsewhere and name not in silent]
    build = f"build the environment (`{hosts.proof(stack)}`) or run this in the vendor's container"
    told = {
        "(never installed on this platform, so that the licence binds nobody here)": elsewhere,
        "(installed, and its own metadata names no licence: look at its page)": silent,
        f"(not installed here, and that is where licences are read: {build})": left,
    }
    return f"licences not known: {len(lost)}; " + "; ".join(
        f"{_named(names)} {why}" for why, names in told.items() if names
    )


def _named(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
