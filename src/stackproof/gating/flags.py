"""The flags of the verb `gate`; what it needs besides (rich, scipy) is imported when it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import stacks
from ..errors import Refusal

_HELP = "is the head worse than the base: two variants side by side, interleaved, with a verdict that can block a merge"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Add the verb."""
    parser = verbs.add_parser("gate", help=_HELP, description=_HELP, epilog=epilog, allow_abbrev=False)
    add_sides(parser)
    add_common(parser)
    parser.add_argument(
        "--base-record",
        type=Path,
        metavar="FILE",
        help="base: a record of an earlier gate or bench; nothing is interleaved then",
    )
    parser.add_argument("--same", action="store_true", help="compare this checkout with itself: shows the noise")
    parser.add_argument(
        "--head-drill",
        default="",
        metavar="KIND=VALUE",
        help="plant a fault in the head, to see the gate find it (an unknown one lists all)",
    )
    parser.add_argument("--unlike", action="store_true", help="compare although the devices or drivers differ")
    parser.add_argument("--allow-inconclusive", action="store_true", help="an inconclusive gate passes")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    need_statistics("gate")
    from .verb import run

    return run(options)


def need_statistics(verb: str) -> None:
    """Refuse where scipy is not installed, before anything is built."""
    try:
        import scipy  # noqa: F401
    except ImportError:
        raise Refusal(
            f"the statistics of `{verb}` need scipy, which is not installed here; use `nox -s NAME-{verb}`, "
            "or `python -m pip install scipy`"
        ) from None


def add_sides(parser: argparse.ArgumentParser) -> None:
    """Add what the two sides may differ in."""
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


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add what every verb that compares has: where, what, how long, and where to write."""
    parser.add_argument("--stack", metavar="NAME", help=f"one of: {', '.join(stacks.names())}")
    parser.add_argument(
        "--rehearsed", action="store_true", help="on the CPU, with upstream builds of the stack's versions"
    )
    parser.add_argument(
        "--unpinned",
        nargs="?",
        type=Path,
        const=Path(sys.executable),
        metavar="PYTHON",
        help="both sides in an environment that is not ours, such as a vendor's container (default: this interpreter's)",
    )
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
    parser.add_argument(
        "--deadline-scale", type=_scale, default=1.0, metavar="X", help="multiply every deadline, for slow hosts"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a comment for a pull request there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there too")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML there")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where records are kept (default: results/local)")


def _scale(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0 and below 1000")
    return value
