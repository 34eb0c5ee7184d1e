"""The verb `bisect`: which part of the change between two sides made something worse."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, files, suggestion
from stackproof.api.command import arguments
from stackproof.api.sides import gate
from stackproof.api.stack import stacks

if TYPE_CHECKING:
    from stackproof.extras.bisect.endpoints import BisectRequest

NEWEST = "."
"""What `--continue` alone stands for: the newest search."""
_SIDE = "a commit, a lock or a record (default: this checkout as it is)"


def add(verbs: arguments.Verbs) -> None:
    help_ = (
        "which part of a change made something worse: a package, a variable, a commit, or several that must meet; "
        "every test runs beside the good side"
    )
    verb = arguments.add(verbs, "bisect", help_, _bisect)
    verb.epilog = f"{arguments.EPILOG}, 7 not reproduced: both ends are alike"
    for side in ("good", "bad"):
        gate.add_side(verb, side, f"{side}: {_SIDE}", "SIDE")
    help_ = (
        "what is worse: a subject such as gemm-float32, a cell such as gemm-float32::time, a counter such as operators, or a check such "
        "as smoke/ddp::ranks_equal (default: whatever is, what is exact first)"
    )
    once, of = arguments.Once, "a subject, a check or a counter"
    verb.add_argument("--what", action=once, names=of, metavar="SUBJECT|CHECK|COUNTER", help=help_)
    help_ = "the failure of a check or a command always comes, so that one run tells, as for `git bisect`"
    verb.add_argument("--always", action="store_true", help=help_)
    help_ = "a check or a command hangs after so long"
    verb.add_argument("--deadline", type=arguments.seconds, default=600.0, metavar="S", help=help_)
    gate.add_common(verb)
    arguments.add_shared(verb, *arguments.REPORTS)
    help_ = "go on where a search of the same ends was stopped (default: the newest)"
    verb.add_argument(
        "--continue", dest="go_on", nargs="?", action=once, names="a journal", kind=Path, const=NEWEST, metavar="JOURNAL", help=help_
    )  # fmt: skip
    help_ = (
        "a command that tells, such as 'python train.py'; as for `git bisect run`, 0 is good, 125 says nothing, any other exit code "
        "is bad; no shell is used"
    )
    verb.add_argument("--command", action=once, metavar="'WORDS'", help=help_)
    arguments.add_needs(verb, ["--always", "--deadline"], "--command", "--what")


def _bisect(options: argparse.Namespace) -> int:
    request = _request(options)
    gate.need_statistics("bisect")
    from stackproof.extras.bisect.run import run_bisect

    return run_bisect(request)


def _request(options: argparse.Namespace) -> BisectRequest:
    """Refuse what is wrong with the words themselves, before anything is looked for or built."""
    from stackproof.api.runs import bench_subjects
    from stackproof.extras.bisect import endpoints

    if options.command is not None and not options.stack and not (options.good_lock or options.bad_lock):
        options.stack, options.unpinned = (
            stacks.HOST,
            options.unpinned or Path(shutil.which("python") or sys.executable),
        )
    both = gate.common(options)
    foreign = ("what", "device", "only", "profile") if options.command is not None else ()
    if option := next((name for name in foreign if getattr(options, name)), ""):
        raise Refusal(f"--command says what is worse and where it is run, and so does --{option}; leave one out")
    if options.always and options.command is None and "/" not in (options.what or ""):
        raise Refusal("--always speaks of a check or a command; name one with --what or --command")
    command = gate.words(options)
    of = endpoints.repository(bool(command))
    good, bad = (gate.variant(options, side) for side in ("good", "bad"))
    for side in (good, bad):
        endpoints.check(side.commit, side.name, of) if side.commit else None
    if good == replace(bad, name="good"):
        raise Refusal(
            f"both ends are {good.label}; name what differs: --good REF, --bad-env NAME=VALUE, --bad-lock FILE, "
            "--bad-source PACKAGE=PATH, or a record for --good or --bad"
        )
    if options.go_on not in (None, endpoints.NEWEST) and (why := files.why_unreadable(options.go_on)):
        raise Refusal(f"--continue {options.go_on}: {why}; name the journal.jsonl of an earlier bisect")
    if options.stack:
        check_what(options.what) if options.what else None
        bench_subjects.require_named(options.only)
    return endpoints.BisectRequest(
        **both, good=good, bad=bad, what=options.what or "", command=command, deadline=options.deadline,
        always=options.always, journal=options.go_on,
    )  # fmt: skip


def check_what(what: str) -> None:
    """Refuse what is no check, no counter and no subject of any profile; which parameters a check has is known only where it runs."""
    from stackproof.api.gate import plan
    from stackproof.api.runs import bench_subjects, suites
    from stackproof.api.stack import projects

    subject, _, aspect = what.partition("::")
    counters, project = plan.load().count.names, projects.current()
    aspects = ("time", "runs", "computed", *counters, *plan.load().quantities)
    if "/" in what:
        theirs = suites.defined(project.suites) if project and project.suites else ()
        known, name = (*suites.defined(), *theirs), what.partition("[")[0]
        if name not in known:
            near = suggestion(name, known)
            raise Refusal(f"--what {what}: is no check{near}; `verify --explain SUITE` lists those of a suite")
    elif aspect and aspect not in aspects:
        near = suggestion(aspect, aspects)
        raise Refusal(f"--what {what}: '{aspect}' is nothing that is compared{near}; there are: {', '.join(aspects)}")
    elif subject != "process" and (aspect or subject not in counters):
        bench_subjects.require_named([subject], "--what")
