"""The verbs that compare variants: `gate` and `sweep`.

What they need besides (rich, scipy) is imported when they run.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base import advice, files
from stackproof.base.errors import Refusal
from stackproof.commands import arguments, gate_command

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs

_GRID = "OMP_NUM_THREADS=1,2"


def add(verbs: Verbs) -> None:
    """Add them to the parser of the command line."""
    _add_gate(verbs)
    _add_sweep(verbs)


def _add_gate(verbs: Verbs) -> None:
    help_ = (
        "is the head worse than the base: two variants side by side, interleaved, with a verdict that can block a merge"
    )
    verb = arguments.add(verbs, "gate", help_, _gate)
    for side in ("base", "head"):
        add_side(verb, side, f"{side}: a commit, branch or tag (default: what is here, as it is)")
    add_common(verb)
    add_outputs(verb)
    verb.add_argument(
        "--base-record",
        action=arguments.Once,
        names="a record",
        kind=Path,
        metavar="FILE",
        help="base: a record of an earlier gate or bench; nothing is interleaved then",
    )
    verb.add_argument("--same", action="store_true", help="compare what is here with itself: shows the noise")
    verb.add_argument(
        "--head-drill",
        default="",
        metavar="KIND=VALUE",
        help="plant a fault in the head, to see the gate find it (an unknown kind lists all)",
    )
    verb.add_argument("--unlike", action="store_true", help="compare although the devices or drivers differ")
    verb.add_argument(
        "--accept-changed",
        action="store_true",
        help="the sides may compute different things from equal seeds, because the change is meant; the page says so",
    )
    verb.add_argument("--allow-inconclusive", action="store_true", help="an inconclusive gate passes")
    gate_command.add_options(verb)


def _gate(options: argparse.Namespace) -> int:
    gate_command.check(options)
    if options.command is None:  # a command's commits are of its own repository
        _check(options)
    need_statistics("gate")
    if options.command is not None:
        from stackproof.gate.command_run import run_command_gate

        return run_command_gate(options)
    from stackproof.gate.run import run_gate

    return run_gate(options)


def _check(options: argparse.Namespace) -> None:
    """Refuse what is wrong with the words themselves, before anything is looked for or built."""
    from stackproof.bench.subjects import profile, require_named
    from stackproof.gate import commits, planted, variants
    from stackproof.record import chain
    from stackproof.stack import stacks

    stacks.load(options.stack) if options.stack else None
    profile(options.profile) if options.profile else None
    for side in ("base", "head"):
        variants.require_known(variants.assignments(getattr(options, f"{side}_env"), f"--{side}-env"), f"--{side}-env")
        variants.sources(getattr(options, f"{side}_source"), f"--{side}-source")
        lock = getattr(options, f"{side}_lock")
        if lock and not options.unpinned and (why := files.why_unreadable(lock)):
            raise Refusal(f"--{side}-lock {lock}: {why}; name a file made by {advice.relock('NAME')}")
        if commit := getattr(options, side):
            commits.require_commit(commit)
    if options.stack and not options.base_record and options.command is None:  # a stored base may have one of its own
        require_named(options.only)
    planted.read(options.head_drill)
    alone = not (options.base or options.base_lock or options.base_source or options.base_env)
    if options.base_record and alone:
        chain.whole(options.base_record)
    if options.unpinned:
        variants.require_interpreter(options.unpinned)


def _add_sweep(verbs: Verbs) -> None:
    help_ = "which setting is faster than the defaults: a grid of variables and backends, each interleaved with the defaults"
    verb = arguments.add(verbs, "sweep", help_, _sweep)
    add_common(verb)
    add_outputs(verb)
    arguments.add_list(verb, "--env", "NAME=V1,V2", "a variable and its values; may be repeated")
    arguments.add_list(verb, "--backend", "B1,B2", "what ranks talk over, such as gloo,nccl")


def _sweep(options: argparse.Namespace) -> int:
    from stackproof.gate.variants import assignments, require_interpreter, require_known
    from stackproof.stack import stacks

    stacks.load(options.stack) if options.stack else None
    require_interpreter(options.unpinned) if options.unpinned else None
    named = assignments(options.env, "--env", _GRID, _GRID)
    if empty := next((name for name, told in named.items() if not told), ""):
        raise Refusal(f"--env {empty}= names no value; write for instance --env {_GRID}")
    require_known(named, "--env")
    need_statistics("sweep")
    from stackproof.gate.run import run_sweep

    return run_sweep(options)


def need_statistics(verb: str) -> None:
    """Refuse where scipy is not installed, before anything is built."""
    if importlib.util.find_spec("scipy") is None:
        raise Refusal(
            f"the statistics of `{verb}` need scipy, which is not installed here; "
            f"{advice.missing('scipy', f'NAME-{verb}')}"
        )


def add_side(verb: argparse.ArgumentParser, side: str, help_: str, metavar: str = "REF") -> None:
    """Add how a side of a comparison is named."""
    verb.add_argument(f"--{side}", action=arguments.Once, names="a side", metavar=metavar, help=help_)
    verb.add_argument(
        f"--{side}-lock", action=arguments.Once, names="a lock", kind=Path, metavar="FILE",
        help=f"{side}: this lock in place of the stack's",
    )  # fmt: skip
    source = f"{side}: a checkout of a package, installed over the lock"
    arguments.add_list(verb, f"--{side}-source", "PACKAGE=PATH", source)
    arguments.add_list(verb, f"--{side}-env", "NAME=VALUE", f"{side}: an environment variable")


def add_common(verb: argparse.ArgumentParser) -> None:
    """Add what every verb that compares has: where, what, and how long."""
    arguments.add_stack(verb)
    verb.add_argument(
        "--rehearsed", action="store_true", help="on the CPU, with upstream builds of the stack's versions"
    )
    arguments.add_unpinned(
        verb,
        "both sides in an environment that is not ours, such as a vendor's container (default: this interpreter's)",
    )
    verb.add_argument(
        "--profile",
        action=arguments.Once,
        names="a profile",
        default="",
        metavar="NAME",
        help="which subjects: fast, regular or full (default: fast on a CPU, full on an accelerator)",
    )
    arguments.add_list(verb, "--only", "SUBJECT", "only this subject; may be repeated")
    device = "such as xpu:1 (default: the first)"
    verb.add_argument("--device", action=arguments.Once, names="a device", default="", help=device)
    verb.add_argument(
        "--minutes",
        type=arguments.minutes,
        default=10.0,
        help="start no more launches after so long; of a sweep, all settings together",
    )
    arguments.add_deadline_scale(verb)


def add_outputs(verb: argparse.ArgumentParser) -> None:
    """Add where the verdict is written to."""
    arguments.add_markdown(verb)
    arguments.add_outputs(verb)
