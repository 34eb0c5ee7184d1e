"""The verb `verify-record`: is a record still what was written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.text import plain
from stackproof.commands import arguments

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = "is a record still what was written: its digests and its logs"
    verb = arguments.add(verbs, "verify-record", help_, _verify)
    verb.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="files of records")


def _verify(options: argparse.Namespace) -> int:
    """Print a sentence for each record; 1 if one is not what was written."""
    from stackproof.record import reading

    code = 0
    for path in options.records:
        record = reading.read(path)
        said = next(reading.broken_logs(record, path.parent), None)
        if reading.RECORD not in record.digests:
            said = "holds no digests: it was written before records had them, so that an edit does not show"
        if said:
            print(f"stackproof: {plain(f'{path}: {said}')}", file=sys.stderr)  # noqa: T201
            code = 1
        else:
            print(plain(f"{path}: equals its own digests; it {record.verdict.value}"))  # noqa: T201
    return code
