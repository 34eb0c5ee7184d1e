"""The verb `triage`: what is wrong with a run, from its logs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stackproof.commands import arguments

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = "what is wrong with a run, from its logs: root cause first; proves or refutes claims about it"
    verb = arguments.add(verbs, "triage", help_, _run)
    verb.add_argument("logs", nargs="+", metavar="LOG", help="files (also gzip), folders, or - for standard input")
    verb.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="NAME",
        help="prove a claim about the run, such as efa or rdma; may be repeated (an unknown name lists all)",
    )
    verb.add_argument("--together", action="store_true", help="all logs are of one run, whatever their names")
    verb.add_argument("--stack", default="unknown", metavar="NAME", help="the stack that the record is filed under")
    verb.add_argument("--json", type=arguments.file, metavar="FILE", help="write the record there")


def _run(options: argparse.Namespace) -> int:
    from stackproof.triage import verb as running

    logs, expected = tuple(options.logs), tuple(options.expect)
    return running.triage(running.Question(logs, expected, options.together, options.json, options.stack))
