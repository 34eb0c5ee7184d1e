"""The verb `ranks`: one rank of a group that somebody else started."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.text import indented
from stackproof.commands import arguments
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = (
        "be one rank of a group that torchrun, srun or mpirun started, on any number of hosts; rank 0 writes the record"
    )
    verb = arguments.add(verbs, "ranks", help_, _run)
    arguments.add_shared(verb, "--stack", required=True)
    help_ = "on the CPU, with upstream builds of the stack's versions"
    verb.add_argument("--rehearse", action="store_true", help=help_)
    help_ = "logs and the record; best on a disk that all hosts share"
    verb.add_argument("--folder", type=arguments.folder, required=True, metavar="DIR", help=help_)
    help_ = "what every rank runs (default: bring-up, collectives, DDP)"
    verb.add_argument("--program", metavar="MODULE:FUNCTION", help=help_)
    help_ = "where the ranks meet: file:///FOLDER or tcp://HOST:PORT (default: MASTER_ADDR and MASTER_PORT)"
    verb.add_argument("--rendezvous", default="", metavar="URL", help=help_)
    help_ = "names this run in a folder of rendezvous"
    verb.add_argument("--run", dest="run_name", default="", metavar="NAME", help=help_)
    help_ = "when all ranks are ended (default: 300)"
    verb.add_argument("--deadline", type=arguments.seconds, default=300.0, metavar="S", help=help_)
    help_ = "let ranks share cards over the stack's other backend, and say so"
    verb.add_argument("--oversubscribe", action="store_true", help=help_)
    help_ = "form the group also where it cannot work"
    verb.add_argument("--no-preflight", dest="preflight", action="store_false", help=help_)


def _run(options: argparse.Namespace) -> int:
    from stackproof.ranks import join
    from stackproof.ranks.launchers import Spec
    from stackproof.record import console

    stack = stacks.load(options.stack)
    stack = stack.rehearse() if options.rehearse else stack
    if options.program and not re.fullmatch(r"[\w.]+:\w+", options.program):
        raise Refusal(f"--program '{options.program}': is no MODULE:FUNCTION, such as 'mine.training:main'")
    spec = Spec(
        options.program or join.PROVE, stack.name, stack.rehearsed, stack.backend, (), {}, options.folder.absolute(),
        options.deadline, checked=options.preflight, oversubscribe=options.oversubscribe,
    )  # fmt: skip
    outcome = join.take_part(stack, spec, options.rendezvous, options.run_name)
    if outcome.record and outcome.path:
        console.show(outcome.record, outcome.path)
    if outcome.refused:
        raise Refusal(outcome.reason)
    if outcome.reason and not outcome.record:
        print(f"stackproof: {indented(outcome.reason)}", file=sys.stderr)  # noqa: T201
    return outcome.verdict.exit_code
