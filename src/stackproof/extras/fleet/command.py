"""The verb `fleet`: many hosts do the same work, and the odd one out is found and named."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal
from stackproof.api.command import arguments
from stackproof.extras.fleet import command_card, command_judge, command_plan

if TYPE_CHECKING:
    from stackproof.api.command import Verbs

_HELP = "many hosts: plan a sweep, let each host leave a record, and judge them all"


def add(verbs: Verbs) -> None:
    """Add it and its steps to the parser of the command line."""
    verb = arguments.add(verbs, "fleet", _HELP, _run)
    steps = verb.add_subparsers(title="steps", metavar="STEP")
    for module in (command_plan, command_card, command_judge):
        module.add(steps)


def _run(options: argparse.Namespace) -> int:  # noqa: ARG001
    raise Refusal("which step? `stackproof fleet plan`, `run`, `card` or `judge`; `stackproof fleet --help` says more")
