"""The verbs `sign` and `verify-record`: who vouches for a record, and whether it is still what was vouched for."""

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
    """Add them to the parser of the command line."""
    made = arguments.add(verbs, "sign", "vouch for a record: an in-toto statement in a DSSE envelope beside it", _sign)
    made.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="files of records")
    made.add_argument("--key", type=Path, required=True, metavar="FILE", help="an ed25519 private key (PEM)")
    help_ = "is a record still what was written and signed: its digests, its logs, the signature beside it"
    seen = arguments.add(verbs, "verify-record", help_, _verify)
    seen.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="files of records")
    seen.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="the signer's ed25519 key (PEM, public or private); without it digests only",
    )


def require_signed(verb: argparse.ArgumentParser, what: str) -> None:
    """Add the flag of verbs that may insist on signatures."""
    verb.add_argument(
        "--require-signed", type=Path, metavar="KEY", help=f"{what} that the holder of this key has signed"
    )


def _sign(options: argparse.Namespace) -> int:
    from stackproof.record import signing

    key = signing.KeyFile.load(options.key)
    for path in options.records:
        print(signing.sign(path, key))  # noqa: T201
    return 0


def _verify(options: argparse.Namespace) -> int:
    """Print a sentence for each record; 1 if one is not what was signed."""
    from stackproof.record import signing

    key = signing.KeyFile.load(options.key) if options.key else None
    code = 0
    for path in options.records:
        try:
            print(plain(signing.verify(path, key) if key else signing.unedited(path)))  # noqa: T201
        except signing.NotSignedError as refusal:
            print(f"stackproof: {plain(str(refusal))}", file=sys.stderr)  # noqa: T201
            code = 1
    return code
