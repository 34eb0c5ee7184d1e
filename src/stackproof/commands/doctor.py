"""The verbs of what is already there: `doctor` of a box, `triage` of logs, `watch` of somebody's job, `pytest` of their tests."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.commands import arguments

_STDOUT = Path("-")
_EXIT_OF_JOB = (
    "the exit code is the job's own, 128 and the number of a signal that ended it, 127 where there is no such program, "
    "126 where it cannot be started; only bad flags of ours are 2"
)


def add(verbs: arguments.Verbs) -> None:
    """Add them to the parser of the command line."""
    help_ = "is this box what it claims to be: stacks, host, cards, environments, variables; changes nothing"
    verb = arguments.add(verbs, "doctor", help_, _doctor)
    arguments.add_shared(verb, "--stack", help="look at one stack only, and take what it lacks for a problem")
    help_ = "write one JSON object there; without FILE, instead of text"
    arguments.add_shared(verb, "--json", nargs="?", const=_STDOUT, help=help_)
    verb.add_argument("--all", action="store_true", help="also say of every stack what it needs and what is built")
    help_ = "print a block for an issue, without names, addresses and home folders"
    verb.add_argument("--report", action="store_true", help=help_)
    _add_triage(verbs)
    help_ = "run one job as it is, and keep its record: provenance, figures, exit, what its log says"
    verb = arguments.add(verbs, "watch", help_, _watch, "--stack", "--json", "--junit", "--results")
    verb.epilog, verb.usage = _EXIT_OF_JOB, "stackproof watch [flags] -- python train.py ..."
    help_ = "the job, as you would type it; no shell is used"
    verb.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help=help_)
    help_ = "run your own tests on a stack, each under a deadline, in a process that may hang or crash"
    verb = arguments.add(verbs, "pytest", help_, _pytest, "--locked")
    verb.usage = "stackproof pytest --stack NAME [--locked] [-- tests/ -k words ...]"
    arguments.add_shared(verb, "--stack", required=True)
    verb.add_argument("words", nargs=argparse.REMAINDER, metavar="-- WORDS", help="what pytest gets besides")


_UNKNOWN = "unknown"


def _add_triage(verbs: arguments.Verbs) -> None:
    help_ = "what is wrong with a run, from its logs: root cause first; proves or refutes claims about it"
    verb = arguments.add(verbs, "triage", help_, _triage, "--json")
    verb.add_argument("logs", nargs="+", metavar="LOG", help="files (also gzip), folders, or - for standard input")
    help_ = "prove a claim about the run, such as efa or rdma; may be repeated (an unknown name lists all)"
    arguments.add_list(verb, "--expect", "NAME", help_)
    verb.add_argument("--together", action="store_true", help="all logs are of one run, whatever their names")
    arguments.add_shared(verb, "--stack", default=_UNKNOWN, help="the stack that the record is filed under")
    arguments.add_needs(verb, ["--stack"], "--json")


def _doctor(options: argparse.Namespace) -> int:
    from stackproof.doctor import checkup, machine, report

    if options.json and options.report:
        raise Refusal("--json and --report are two forms of one answer; leave one out")
    if options.all and (options.json or options.report):
        raise Refusal("--all adds to what a terminal shows, and the other forms say all; leave it out")
    here = machine.Machine()
    seen = checkup.examine(options.stack, here)
    if options.json not in (None, _STDOUT):
        _write(options.json, report.as_json(seen))
    if options.json == _STDOUT:
        print(report.as_json(seen))  # noqa: T201
    elif options.report:
        print(report.for_an_issue(seen, here))  # noqa: T201
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for line in report.terminal(seen, shutil.get_terminal_size((150, 24)).columns, colour, options.all):
            print(line)  # noqa: T201
    if seen.presence.broken:
        raise seen.presence.broken
    return seen.exit_code


def _write(path: Path, text: str) -> None:
    with files.writing(path, "name another file"):
        path.write_text(f"{text}\n", encoding="utf-8")


def _triage(options: argparse.Namespace) -> int:
    from stackproof.stack import stacks
    from stackproof.triage import verb as running

    if options.stack != _UNKNOWN:
        stacks.load(options.stack)
    return running.triage(
        options.logs, options.expect, together=options.together, json=options.json, stack=options.stack
    )


def _watch(options: argparse.Namespace) -> int:
    values = list(options.typed)
    line = values[values.index("--") + 1 :] if "--" in values else options.words  # a second one is the job's
    if "--" not in values and any(word.startswith("-") for word in line):
        raise Refusal(
            f"whose is {next(word for word in line if word.startswith('-'))}? write the job behind --, "
            f"such as: stackproof watch -- {shlex.join(line)}"
        )
    if not line:
        raise Refusal("what is watched? write the job behind --, such as: stackproof watch -- python train.py")
    from stackproof.jobs.watch import watch
    from stackproof.stack import stacks

    return watch(line, arguments.outputs(options), stacks.load(options.stack) if options.stack else None)


_ENTRY = "stackproof.jobs.pytest_entry"


def _pytest(options: argparse.Namespace) -> NoReturn:
    """Become pytest, here or in the environment of the stack's lock, where no entry point names our plugin."""
    from stackproof.stack import stacks

    stack = stacks.load(options.stack)
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    known = [] if options.locked else importlib.metadata.entry_points(group="pytest11")
    plugin = [] if any(entry_point.value == _ENTRY for entry_point in known) else ["-p", _ENTRY]
    python = arguments.prepared([stack]) if options.locked else sys.executable
    arguments.become(python, _ENTRY, *plugin, "--stack", stack.name, *words)
