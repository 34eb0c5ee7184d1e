"""The verb `drift`: did a figure step in the last nights, who is the likeliest cause, and what confirms it."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, advice
from stackproof.api.command import arguments
from stackproof.api.stack import stacks

if TYPE_CHECKING:
    from stackproof.api.command import Verbs


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = "did a figure step in the last nights: confirmed and suspected steps, their likeliest cause, and what confirms them"
    verb = arguments.add(verbs, "drift", help_, _run)
    verb.add_argument("--stack", default="", metavar="NAME", help="only this stack")
    verb.add_argument(
        "--results", type=Path, action="append", metavar="DIR", help="read records there (may be repeated)"
    )


def _run(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("numpy") is None:
        raise Refusal(
            f"the scan of `drift` needs numpy, which is not installed here; {advice.missing('numpy', 'drift')}"
        )
    from stackproof.api.record import store
    from stackproof.extras.nights.drift import findings, report

    if options.stack:
        stacks.load(options.stack)
    for folder in options.results or ():
        if not folder.is_dir():
            raise Refusal(
                f"{folder}: is no folder, and --results reads the records in one; name the folder of the records"
            )
    found = findings.look(options.results or store.folders(), options.stack)
    print(report.terminal(found).rstrip("\n"))  # noqa: T201
    return found.exit_code
