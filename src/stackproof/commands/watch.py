"""The verb `watch`: run one job and keep its record."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.commands import arguments

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs

_EPILOG = """the exit code is the job's own, 128 and the number of a signal that ended it, 127 where there is no such program, 126 where it
cannot be started; only bad flags of ours are 2"""


_OUTPUTS = (
    ("--json", "FILE", "write the record there too"),
    ("--junit", "FILE", "write JUnit XML there"),
    ("--results", "DIR", "where records are kept (default: results/local)"),
)


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = "run one job as it is, and keep its record: provenance, figures, exit, what its log says"
    verb = arguments.add(verbs, "watch", help_, _run)
    verb.epilog = _EPILOG
    verb.usage = "stackproof watch [flags] -- python train.py ..."
    arguments.add_stack(verb)
    for flag, metavar, help_ in _OUTPUTS:  # what cannot be written is said, and the job runs: it is not refused here
        verb.add_argument(flag, type=Path, metavar=metavar, help=help_)
    verb.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the job, as you would type it; no shell is used"
    )


def _run(options: argparse.Namespace) -> int:
    given = list(options.given)
    line = given[given.index("--") + 1 :] if "--" in given else options.words  # a second one is the job's
    if "--" not in given and any(word.startswith("-") for word in line):
        raise Refusal(
            f"whose is {next(word for word in line if word.startswith('-'))}? write the job behind --, "
            f"such as: stackproof watch -- {shlex.join(line)}"
        )
    if not line:
        raise Refusal("what is watched? write the job behind --, such as: stackproof watch -- python train.py")
    from stackproof.jobs.watch import Watched, watch
    from stackproof.record.writer import LOCAL, Outputs

    outputs = Outputs(options.results or LOCAL, options.json, options.junit)
    return watch(Watched(tuple(line), outputs, options.stack or ""))
