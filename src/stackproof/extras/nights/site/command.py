"""The verb `site`: what every record proves and what changed, as one folder of plain pages."""

from __future__ import annotations

import argparse
import importlib.util
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, advice, files, text
from stackproof.api.command import arguments
from stackproof.api.stack import stacks

if TYPE_CHECKING:
    from stackproof.api.command import Verbs
    from stackproof.extras.nights.site.build import SiteBuilt

_MOST_DAYS = 3650
_NEEDED = ("numpy", "jinja2")


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = "what every record proves and what changed since, as one folder of pages that open from a disk or any web server"
    verb = arguments.add(verbs, "site", help_, _run)
    verb.add_argument("out", type=arguments.folder, metavar="OUT", help="the folder to write: new, empty, or a site")
    verb.add_argument(
        "--results", type=Path, action="append", metavar="DIR", help="read records there (may be repeated)"
    )
    help_ = "for how many days a record proves anything (default: 14)"
    verb.add_argument("--days", type=_days, default=14, metavar="N", help=help_)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of days from 1 to {_MOST_DAYS}")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    for name in _NEEDED:
        if importlib.util.find_spec(name) is None:
            missing = advice.missing(name, "site")
            raise Refusal(f"`site` looks for steps and fills pages with {name}, which is not installed here; {missing}")
    from stackproof.api.runs import suites
    from stackproof.extras.nights.site import build, stack_status

    for folder in options.results or ():
        if not folder.is_dir():
            raise Refusal(f"--results {folder}: {files.why_no_such_folder(folder)}; name a folder of records")
    folders = tuple(options.results or ()) or stack_status.tops()
    order = build.SiteOrder(
        folders,
        stacks.names(),
        stacks.suites(),
        datetime.now(timezone.utc).date(),
        options.days,
        stacks.doubles(),
        suites.of_verb("verify"),
    )
    done = build.build(options.out, order)
    for line in _summary(options.out, done):
        print(text.plain(line, lines=False))  # noqa: T201
    return 0


def _summary(out: Path, done: SiteBuilt) -> list[str]:
    skipped = [f"skipped: {one}" for one in done.problems]
    if done.sentence is None:
        return [*skipped, f"{out / 'index.html'}: nothing is new, {done.files} files"]
    count = f"{done.files} files, {done.written} written, {done.removed} removed"
    return [*skipped, done.sentence, f"{out / 'index.html'}: {count}"]
