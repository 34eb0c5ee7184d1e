"""The step `fleet judge`: what the records of a folder say of every host; needs neither a card nor torch."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, files
from stackproof.api.command import arguments
from stackproof.extras.fleet import command_plan

if TYPE_CHECKING:
    from stackproof.api.command import Verbs
    from stackproof.extras.fleet.judgement import FleetJudgement

_STDOUT = Path("-")
_TEXTS = {
    "json": "one JSON object",
    "markdown": "a page",
    "prometheus": "Prometheus's text format",
    "picture": "the fleet as an SVG picture",
}


def add(steps: Verbs) -> None:
    """Add it to the parser of `fleet`."""
    help_ = "say of every host of a sweep whether it is proved, slow, wrong, unlike or not reached, from records alone"
    step = arguments.add(steps, "judge", help_, _run)
    step.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the folder of the sweep, in which hosts have left their records"
    )
    step.add_argument(
        "--hosts",
        metavar="LIST",
        help="who was to answer, besides those of the plan if there is one, such as 'node[01-16]'",
    )
    for name, what in _TEXTS.items():
        help_ = f"write {what} there; without FILE, instead of text"
        step.add_argument(f"--{name}", nargs="?", const=_STDOUT, type=arguments.file, metavar="FILE", help=help_)
    help_ = "pseudonyms in place of hosts in all that is written, the same from sweep to sweep; no users, homes and addresses"
    step.add_argument("--redact", action="store_true", help=help_)
    step.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="the key of the pseudonyms, made if it is not there (default: in our cache)",
    )
    step.add_argument("--stack", metavar="NAME", help="for which stack the session was called; records say their own")


def _run(options: argparse.Namespace) -> int:
    from stackproof.extras.fleet import sweep

    wanted = {name: getattr(options, name) for name in _TEXTS if getattr(options, name)}
    if list(wanted.values()).count(_STDOUT) > 1:
        raise Refusal(
            "two of --json, --markdown, --prometheus and --picture want the terminal; name a file for one of them"
        )
    if not options.folder.is_dir():
        raise Refusal(
            f"{options.folder}: {files.why_no_such(options.folder)}; name the folder of a sweep, which `fleet plan` makes"
        )
    if options.stack is not None:
        command_plan.hold_stack(options.stack, options.folder)
    _require_apart(options, wanted)
    found = sweep.judged(options.folder, options.hosts)
    shown = _redacted(options, found) if options.redact else found
    folder = "FOLDER" if options.redact else str(options.folder)
    if problem := sweep.keep(shown, options.folder):
        print(f"stackproof: {problem.replace(str(options.folder), folder)}", file=sys.stderr)  # noqa: T201
    for name, path in wanted.items():
        _write(path, _text(name, shown, folder))
    if _STDOUT not in wanted.values():
        print(_text("terminal", shown, folder))  # noqa: T201
    return found.exit_code


def _require_apart(options: argparse.Namespace, wanted: dict[str, Path]) -> None:
    """Refuse to write over what the sweep keeps, or twice into one file."""
    from stackproof.extras.fleet import sweep

    taken = {options.key.resolve(): "--key"} if options.key else {}
    for name, path in wanted.items():
        if path in (_STDOUT, Path(os.devnull)):
            continue
        if sweep.keeps(options.folder, path):
            raise Refusal(f"--{name} {path}: is what the sweep itself keeps, and would be lost; name another file")
        if other := taken.get(path.resolve()):
            raise Refusal(f"--{name} {path}: is the file of {other} too; name another for one of them")
        taken[path.resolve()] = f"--{name}"


def _redacted(options: argparse.Namespace, found: FleetJudgement) -> FleetJudgement:
    from stackproof.extras.fleet import plan, redact, sweep

    also = {*sweep.names(options.folder), *(plan.expanded(options.hosts) if options.hosts else ())}
    return redact.redacted(found, redact.key(options.key or redact.key_file()), also)


def _text(name: str, found: FleetJudgement, folder: str) -> str:
    from stackproof.extras.fleet import judgement, picture, prometheus, report

    if name in ("terminal", "markdown"):
        told: str = getattr(report, name)(found, folder)
        return told
    return {"json": judgement.as_json, "prometheus": prometheus.text, "picture": picture.svg}[name](found)


def _write(path: Path, text: str) -> None:
    from stackproof.api.base import write_atomically

    if path == _STDOUT:
        print(text, end="")  # noqa: T201
        return
    try:
        write_atomically(path, text)
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); free space or name another file") from error
