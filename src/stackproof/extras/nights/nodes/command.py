"""The verb `nodes`: hosts side by side, from what their doctors and their runs have written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal
from stackproof.api.command import arguments

if TYPE_CHECKING:
    from stackproof.api.command import Verbs

_HELP = "one table of hosts from `doctor --json` and records; 1 if a host is not well"


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "nodes", _HELP, _run)
    help_ = "a record, an answer of the doctor, or a folder that holds some (default: where records are kept)"
    verb.add_argument("places", nargs="*", type=Path, metavar="PATH", help=help_)


def _run(options: argparse.Namespace) -> int:
    from stackproof.api.record import store
    from stackproof.extras.nights.nodes import reading

    places = options.places or [folder for folder in store.folders() if folder.is_dir()]
    found = reading.gather(places)
    for sentence in found.damaged:
        print(f"stackproof: passed over: {sentence}", file=sys.stderr)  # noqa: T201
    if not found.nodes:
        where = ", ".join(map(str, places)) or "results/local"
        raise Refusal(f"{where}: no record and no answer of the doctor; `stackproof doctor --json FILE` writes one")
    print(reading.text(found).rstrip("\n"))  # noqa: T201
    return int(not all(node.well for node in found.nodes.values()))
