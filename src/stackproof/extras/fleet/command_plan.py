"""The steps `fleet plan` and `fleet run`: who is asked; and under Slurm, asking them."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, advice, plain
from stackproof.api.command import arguments
from stackproof.api.stack import stacks

if TYPE_CHECKING:
    from stackproof.api.command import Verbs
    from stackproof.extras.fleet.plan import FleetPlan

_PROFILES = ("tiny", "full")


def add(steps: Verbs) -> None:
    """Add them to the parser of `fleet`."""
    help_ = "say which hosts are swept, and write that into a folder that they share; no host is asked yet"
    step = arguments.add(steps, "plan", help_, _plan)
    step.add_argument(
        "folder", type=arguments.folder, metavar="FOLDER", help="a new folder on a disk that all hosts share"
    )
    arguments.add_stack(step, required=True)
    step.add_argument("--hosts", metavar="LIST", help="who, as schedulers write it: 'node[01-16],login1'")
    step.add_argument("--hosts-file", type=Path, metavar="FILE", help="who, a name a line")
    step.add_argument("--profile", choices=_PROFILES, help="how much (default: tiny on a CPU, else full)")
    help_ = "leave this out on every host: doctor, smoke, a subject or a kernel of the replay; may be repeated"
    step.add_argument("--without", action="append", default=[], metavar="PART", help=help_)
    help_ = "so many cards on each host; fewer is incomplete (default: as many as it says that it has)"
    step.add_argument("--cards", type=arguments.count, default=0, metavar="N", help=help_)
    _add_run(steps)


def _add_run(steps: Verbs) -> None:
    step = arguments.add(
        steps, "run", "ask the hosts of a plan, under Slurm: an array with a task pinned to each host", _run
    )
    step.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of the plan")
    arguments.add_stack(step)
    help_ = (
        "the interpreter on the hosts (default: this one where torch is, else that of the stack's lock, which is built)"
    )
    step.add_argument("--python", type=arguments.word, metavar="PATH", help=help_)
    step.add_argument(
        "--container",
        default="",
        metavar="WORDS",
        help="runs a command in an image, such as 'apptainer exec --nv stack.sif'",
    )
    arguments.add_list(
        step, "--sbatch", "OPTION", "an option for sbatch, such as --sbatch=--partition=gpu; may be repeated"
    )
    help_ = "so many hosts at the same time, where they share a file server or a fuse (default: all)"
    step.add_argument("--at-once", type=arguments.count, default=0, metavar="N", help=help_)
    help_ = "wait for so long, cancel what then still waits for a dead host, and judge"
    step.add_argument("--wait", type=arguments.minutes, default=0.0, metavar="MINUTES", help=help_)
    arguments.add_deadline_scale(step)


def _plan(options: argparse.Namespace) -> int:
    from stackproof.extras.fleet import plan, rules

    stack = stacks.load(options.stack)
    profile = options.profile or rules.usual(stack.device)
    made = plan.make(
        options.folder.absolute().name,
        stack.name,
        profile,
        _hosts(options),
        without=options.without,
        cards=options.cards,
    )
    path = made.keep(options.folder.absolute())
    made = plan.load(path.parent)  # an equal one that was there stays as it is
    print(f"{len(made.hosts)} hosts, profile {profile}: {path}")  # noqa: T201
    folder = str(path.parent)
    print(f"next: {advice.step(stack.name, 'fleet', 'run', folder)}")  # noqa: T201
    card = shlex.join(["python", "-m", "stackproof", "fleet", "card", folder, "--host", "HOST"])
    print(f"or, where there is no Slurm, once on each host: {card}")  # noqa: T201
    print(f"then, at any time: {advice.step(stack.name, 'fleet', 'judge', folder)}")  # noqa: T201
    return 0


def _hosts(options: argparse.Namespace) -> list[str]:
    from stackproof.api.base import files
    from stackproof.extras.fleet import plan

    found = plan.expanded(options.hosts) if options.hosts else []
    if options.hosts_file:
        text = files.read_bytes(options.hosts_file, "name a file with a host a line").decode("utf-8", errors="replace")
        found += [name for line in text.splitlines() for name in plan.expanded(line.partition("#")[0])]
    return found


def _run(options: argparse.Namespace) -> int:
    from stackproof.extras.fleet import slurm, sweep

    folder = options.folder.absolute()
    made = plan_of(options, folder)
    slurm.require()
    terms = slurm.SlurmTerms(
        python_of(options, made.stack),
        options.container,
        tuple(options.sbatch),
        options.deadline_scale,
        options.at_once,
    )
    jobs = slurm.submit(made, folder, terms, _say)
    if not options.wait:
        judge = advice.step(made.stack, "fleet", "judge", str(folder))
        print(f"nothing waits for them here; at any time: {judge}")  # noqa: T201
        return 0
    if not slurm.finished(jobs, options.wait, _say):
        _say("the time is over; what still waits is cancelled")
        slurm.cancel(jobs)
    from stackproof.extras.fleet import report

    found = sweep.judged(folder)
    sweep.keep(found, folder)
    print(report.terminal(found, str(folder)))  # noqa: T201
    return found.exit_code


def plan_of(options: argparse.Namespace, folder: Path) -> FleetPlan:
    """Return the plan of a sweep, whose stack is the one that was named, if one was."""
    from stackproof.extras.fleet import plan

    if options.stack is not None:
        hold_stack(options.stack, folder)
    return plan.load(folder)


def hold_stack(named: str, folder: Path) -> None:
    """Refuse a stack that is unknown, or not that of a sweep's plan; where there is no plan, records say their own."""
    from stackproof.extras.fleet import plan

    stack = stacks.load(named).name
    if (folder / plan.NAME).exists() and (own := plan.load(folder).stack) != stack:
        raise Refusal(
            f"--stack {stack}: the plan of this sweep is of '{own}'; leave --stack out, or name a sweep of '{stack}'"
        )


def python_of(options: argparse.Namespace, stack: str) -> Path:
    """Return the interpreter of the hosts: what was named, this one in a vendor's container, or the lock's, which is built here once."""
    if options.python:
        return Path(options.python)
    if options.container:
        return Path("python3")
    if importlib.util.find_spec("torch"):
        return Path(sys.executable)
    from stackproof.api.environment import environments

    return environments.prepare(stacks.load(stack), _say)


def _say(sentence: str) -> None:
    print(plain(sentence, lines=False), flush=True)  # noqa: T201
