"""The verbs of the history: `asv`, `history` and `admit`."""

from __future__ import annotations

import argparse
import importlib.util
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.places import require_checkout
from stackproof.commands import arguments
from stackproof.history import leaf
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs


def add(verbs: Verbs) -> None:
    """Add them to the parser of the command line."""
    _add_asv(verbs)
    _add_history(verbs)
    _add_admit(verbs)


def _add_asv(verbs: Verbs) -> None:
    help_ = "asv over the benchmarks, in the environment of a stack: run, continuous, compare, publish, check"
    verb = arguments.add(verbs, "asv", help_, _asv)
    verb.add_argument("--stack", default="", metavar="NAME", help=f"one of: {', '.join(stacks.names())}")
    verb.add_argument("--rehearsed", action="store_true", help="the stack's rehearsal, on the CPU")
    verb.add_argument(
        "--states", action="store_true", help="by state of the stack (driver, wheels) instead of by commit"
    )
    verb.add_argument(
        "--profile", default=leaf.DEFAULT_PROFILE, metavar="NAME", help="which benchmarks: fast, regular or full"
    )
    verb.add_argument("--device", default="", help="the device to measure, such as xpu:1 (default: the first)")
    verb.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="asv's own command and arguments")


def _asv(options: argparse.Namespace) -> int:
    require_checkout("asv")
    if importlib.util.find_spec("asv") is None:
        remedy = "use `nox -s NAME-asv -- ...`, or install what benchmarks/requirements.in lists"
        raise Refusal(f"asv is not installed in {sys.prefix}; {remedy}")
    from stackproof.history.asv_command import Wish, call

    given = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    return call(Wish(options.stack, options.rehearsed, options.states, options.profile, options.device, tuple(given)))


def _add_history(verbs: Verbs) -> None:
    help_ = "what was measured, as rates: now, before, and which change made a difference"
    verb = arguments.add(verbs, "history", help_, _history)
    verb.add_argument("--stack", default="", metavar="NAME", help="only this stack")
    verb.add_argument(
        "--results", type=Path, action="append", metavar="DIR", help="read records there (may be repeated)"
    )


def _history(options: argparse.Namespace) -> int:
    from stackproof.history import terminal
    from stackproof.history.timeline import entries, histories
    from stackproof.record import store

    if options.stack:
        stacks.load(options.stack)
    for folder in options.results or ():
        _require_folder(folder)
    loaded = store.dated(store.read(store.files(options.results)) if options.results else store.load(store.folders()))
    found = [one for one in histories(entries(loaded.records)) if options.stack in ("", one.place.stack)]
    terminal.show(found, loaded.problems)
    return 0


def _require_folder(path: Path) -> None:
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            return
        why = "is no folder"
    except OSError as error:
        why = f"cannot be read ({error.strerror})"
    raise Refusal(f"--results {path}: {why}; name a folder of records")


def _add_admit(verbs: Verbs) -> None:
    help_ = (
        "put records of figures, of nights and of what proves them among the published results, for a runner to commit"
    )
    verb = arguments.add(verbs, "admit", help_, _admit)
    verb.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="files of records")


def _admit(options: argparse.Namespace) -> int:
    from stackproof.history import timeline

    for path in options.records:
        print(timeline.admit(path))  # noqa: T201
    return 0
