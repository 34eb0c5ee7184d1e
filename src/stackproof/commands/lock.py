"""The verb `lock`: pins anew what a stack installs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stackproof.base.places import STACKS, require_checkout
from stackproof.commands import arguments
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "lock", "re-pin stacks from their requirements.in with uv", _run)
    arguments.add_named_stacks(verb, several=True)
    verb.add_argument(
        "--upgrade",
        action="store_true",
        help="move existing pins to the newest versions that the ranges allow",
    )


def _run(options: argparse.Namespace) -> int:
    from stackproof.stack import environments, relock

    chosen = [stacks.load(name) for name in options.names]
    if any(stack.folder.is_relative_to(STACKS) for stack in chosen):  # a project's own are its own to write
        require_checkout("lock of a stack of ours")
    uv = environments.find_uv()
    for stack in chosen:
        for path in relock.lock(stack, uv, upgrade=options.upgrade):
            print(f"locked {path}")  # noqa: T201
    return 0
