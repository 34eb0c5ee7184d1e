"""The verbs of what was kept: `asv`, `admit` and `verify-record`."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from stackproof.base.errors import Refusal
from stackproof.base.places import require_checkout
from stackproof.base.text import plain
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
    admit = "(dev) put records of figures, of nights and of what proves them among the published results, for a runner to commit"
    verify = "is a record still what was written: its digests and its logs"
    for name, help_, run in (("admit", admit, _admit), ("verify-record", verify, _verify_record)):
        verb = arguments.add(verbs, name, help_, run)
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


def _verify_record(options: argparse.Namespace) -> int:
    from stackproof.record import reading

    code = 0
    for path in options.records:
        record = reading.read(path)
        if text := reading.weakness(record, path.parent):
            print(f"stackproof: {plain(f'{path}: {text}')}", file=sys.stderr)  # noqa: T201
            code = 1
        else:
            print(plain(f"{path}: equals its own digests; it {record.verdict.value}"))  # noqa: T201
    return code
