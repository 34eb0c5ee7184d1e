"""The verbs of a stack's pins, `lock` and `constraints`, and what `--locked` does: the same command in the environment of a lock."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from stackproof.base import places
from stackproof.base.places import STACKS, require_checkout
from stackproof.commands import arguments
from stackproof.project import projects
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.stack.stacks import Stack

FLAG = "--locked"


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
        _say(note)
    print(f"# {stack.name}: `pip install -c` of this leaves the vendor's builds alone; all else is as in the lock.")  # noqa: T201
    for line in environment_proof.constraints(lock, there):
        print(line)  # noqa: T201
    return 0


def again(chosen: Sequence[Stack], words: Sequence[str]) -> NoReturn:
    """Become the same command in the environment of the first of these stacks, with all of them built.

    Raises:
        StackUnavailableError: the host lacks what the stack needs; nothing was downloaded.
        Refusal: the environment cannot be built.
    """
    become(prepared(chosen), "stackproof", *(word for word in words if word != FLAG))


def prepared(chosen: Sequence[Stack]) -> str:
    """Build the environments of these stacks, and return the interpreter of the first."""
    from stackproof.stack import environments, hosts  # need packages that a bare Python lacks

    python, *_ = [str(environments.prepare(hosts.require(stack), _say)) for stack in chosen]
    if behind := projects.carry():
        _say(
            f"the environment of a lock holds no package besides, so {', '.join(behind)} and its workloads take no part; "
            f"a project's do ({places.page('your-project.md')}), or run without {FLAG} where the package is installed"
        )
    return python


def become(python: str, *words: str) -> NoReturn:
    """Go on as a module in an interpreter: it is this process that goes on, so that signals and exit code are its own."""
    sys.stderr.flush()
    os.execv(python, [python, "-m", *words])  # noqa: S606 - no shell


def _say(sentence: str) -> None:
    print(f"stackproof: {sentence}", file=sys.stderr)  # noqa: T201
