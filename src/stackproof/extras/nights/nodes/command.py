"""The verb `nodes`: hosts side by side, from what their doctors and their runs have written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal
from stackproof.api.command import arguments
from stackproof.extras import command_outputs

if TYPE_CHECKING:
    from stackproof.api.command import Verbs

_HELP = "one table of hosts from `doctor --json` and records, and the same for Prometheus; 1 if a host is not well"
_FORMS = {"markdown": "a page", "prometheus": "Prometheus's text format, for the node exporter's textfile collector,"}


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "nodes", _HELP, _run)
    help_ = "a record, an answer of the doctor, or a folder that holds some (default: where records are kept)"
    verb.add_argument("places", nargs="*", type=Path, metavar="PATH", help=help_)
    command_outputs.add(verb, _FORMS)


def _run(options: argparse.Namespace) -> int:
    from stackproof.api.record import store
    from stackproof.extras.nights.nodes import reading, report

    forms = command_outputs.chosen(options, _FORMS)
    places = options.places or [folder for folder in store.folders() if folder.is_dir()]
    found = reading.gather(places)
    for sentence in found.damaged:
        print(f"stackproof: passed over: {sentence}", file=sys.stderr)  # noqa: T201
    if not found.nodes:
        where = ", ".join(map(str, places)) or "results/local"
        raise Refusal(f"{where}: no record and no answer of the doctor; `stackproof doctor --json FILE` writes one")
    texts = {"markdown": report.markdown, "prometheus": report.prometheus}
    command_outputs.write({path: texts[name](found) for name, path in forms.items()}, report.text(found))
    return int(not all(node.well for node in found.nodes.values()))
