"""The flags of the verb `gate`; what it needs besides (rich, scipy) is imported when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import stacks
from ..errors import Refusal


def _run(options: argparse.Namespace) -> int:
    try:
        import scipy  # noqa: F401
    except ImportError:
        raise Refusal(
            "the gate's statistics need scipy, which is not installed here; use `nox -s NAME-gate`, or `python -m pip install scipy`"
        ) from None
    from .verb import run

    return run(options)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the verb."""
    parser.add_argument("--stack", metavar="NAME", help=f"one of: {', '.join(stacks.names())}")
    for side in ("base", "head"):
        parser.add_argument(
            f"--{side}", metavar="REF", help=f"{side}: a commit, branch or tag (default: this checkout as it is)"
        )
        parser.add_argument(
            f"--{side}-lock", type=Path, metavar="FILE", help=f"{side}: this lock in place of the stack's"
        )
        parser.add_argument(
            f"--{side}-source",
            action="append",
            default=[],
            metavar="PACKAGE=PATH",
            help=f"{side}: a checkout of a package, installed over the lock",
        )
        parser.add_argument(
            f"--{side}-env", action="append", default=[], metavar="NAME=VALUE", help=f"{side}: an environment variable"
        )
    parser.add_argument(
        "--rehearsed", action="store_true", help="on the CPU, with upstream builds of the stack's versions"
    )
    parser.add_argument(
        "--unpinned", action="store_true", help="both sides in this interpreter's environment (a vendor's container)"
    )
    parser.add_argument("--same", action="store_true", help="compare this checkout with itself: shows the noise")
    parser.add_argument(
        "--profile", default="fast", help="which subjects, from fixtures/benchmarks.toml (default: fast)"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="SUBJECT", help="only this subject; may be repeated"
    )
    parser.add_argument("--device", default="", help="such as xpu:1 (default: the first)")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="start no more launches after so long (default: 10)"
    )
    parser.add_argument("--allow-unlike", action="store_true", help="compare although the devices or drivers differ")
    parser.add_argument("--allow-inconclusive", action="store_true", help="an inconclusive gate passes")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a comment for a pull request there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there too")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML there")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where records are kept (default: results/local)")
    parser.set_defaults(run=_run)
