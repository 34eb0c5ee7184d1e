"""The verbs of a stack's pins: `lock` and `constraints`."""

from __future__ import annotations

import argparse
import sys

from stackproof.base.places import STACKS, require_checkout
from stackproof.commands import arguments
from stackproof.stack import stacks


def add(verbs: arguments.Verbs) -> None:
    """Add them to the parser of the command line."""
    verb = arguments.add(verbs, "lock", "(dev) re-pin stacks from their requirements.in with uv", _lock)
    arguments.add_named_stacks(verb, several=True)
    help_ = "move existing pins to the newest versions that the ranges allow"
    verb.add_argument("--upgrade", action="store_true", help=help_)
    help_ = "print a stack's pins for `pip install -c`; builds of a vendor that are installed here are held as they are"
    arguments.add_named_stacks(arguments.add(verbs, "constraints", help_, _constraints))


def _lock(options: argparse.Namespace) -> int:
    from stackproof.stack import environments, lockfile

    chosen = [stacks.load(name) for name in options.names]
    if any(stack.folder.is_relative_to(STACKS) for stack in chosen):  # a project's own are its own to write
        require_checkout("lock of a stack of ours")
    uv = environments.find_uv()
    for stack in chosen:
        for path in lockfile.lock(stack, uv, upgrade=options.upgrade):
            print(f"locked {path}")  # noqa: T201
    return 0


def _constraints(options: argparse.Namespace) -> int:
    from stackproof.stack import environment_proof, lockfile

    stack = stacks.load(options.names)
    lock, there = lockfile.read(stack.lock), environment_proof.installed()
    for note in environment_proof.weaknesses(lock, there):
        print(f"stackproof: {note}", file=sys.stderr)  # noqa: T201
    print(f"# {stack.name}: `pip install -c` of this leaves the vendor's builds alone; all else is as in the lock.")  # noqa: T201
    for line in environment_proof.constraints(lock, there):
        print(line)  # noqa: T201
    return 0
