"""The verbs of what was kept: `asv` and `admit`."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from stackproof.base.errors import Refusal
from stackproof.base.places import require_checkout
from stackproof.commands import arguments
from stackproof.runner.suites import DEFAULT_PROFILE


def add(verbs: arguments.Verbs) -> None:
    """Add them to the parser of the command line."""
    help_ = "asv over the benchmarks, in the environment of a stack: run, continuous, compare, publish, check"
    verb = arguments.add(verbs, "asv", help_, _asv, "--device", "--rehearsed")
    arguments.add_shared(verb, "--stack")
    help_ = "by state of the stack (driver, wheels) instead of by commit"
    verb.add_argument("--states", action="store_true", help=help_)
    help_ = "which benchmarks: fast, regular or full"
    verb.add_argument("--profile", default=DEFAULT_PROFILE, metavar="NAME", help=help_)
    verb.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="asv's own command and arguments")
    help_ = "(dev) put records of figures, of nights and of what proves them among the published results, for a runner to commit"
    verb = arguments.add(verbs, "admit", help_, _admit)
    verb.add_argument("records", nargs="+", type=arguments.place, metavar="RECORD", help="files of records")


def _asv(options: argparse.Namespace) -> int:
    require_checkout("asv")
    if importlib.util.find_spec("asv") is None:
        remedy = "use `nox -s NAME-asv -- ...`, or install what benchmarks/requirements.in lists"
        raise Refusal(f"asv is not installed in {sys.prefix}; {remedy}")
    from stackproof.history.asv_command import call

    value = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    return call(
        value, stack=options.stack or "", rehearsed=options.rehearsed, states=options.states, subjects=options.profile,
        device=options.device,
    )  # fmt: skip


def _admit(options: argparse.Namespace) -> int:
    from stackproof.history import timeline

    for path in options.records:
        print(timeline.admit(path))  # noqa: T201
    return 0
