"""The verbs that compare variants: `gate` and `sweep`.

What they need besides (rich, scipy) is imported when they run.
"""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stackproof.base import advice, files
from stackproof.base.errors import Refusal
from stackproof.commands import arguments, gate_command

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
    from stackproof.gate.request import GateRequest
    from stackproof.gate.variants import Variant

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
    arguments.add_shared(verb, *arguments.REPORTS)
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
    if options.command is not None:  # its commits are of its own repository
        need_statistics("gate")
        from stackproof.gate.command import run_command_gate

        return run_command_gate(gate_command.request(options))
    request = _gate_request(options)
    need_statistics("gate")
    from stackproof.gate.run import run_gate

    return run_gate(request)


def _gate_request(options: argparse.Namespace) -> GateRequest:
    """Refuse what is wrong with the words themselves, before anything is looked for or built."""
    from stackproof.bench.subjects import require_named
    from stackproof.gate import commits, planted, variants
    from stackproof.gate.request import GateRequest
    from stackproof.record import reading

    both = common(options)
    base, head = (variant(options, side) for side in ("base", "head"))
    for side in (base, head):
        variants.require_known(side.environment, f"--{side.name}-env")
        if side.commit:
            commits.require_commit(side.commit)
    if options.stack and not options.base_record:  # a stored base may have subjects of its own
        require_named(options.only)
    planted.read(options.head_drill)
    if options.base_record and base == variants.Variant("base"):
        reading.read_verified(options.base_record)
    return GateRequest(
        **both, base=replace(base, record=options.base_record), head=replace(head, drill=options.head_drill), unlike=options.unlike,
        same=options.same, accept_changed=options.accept_changed, allow_inconclusive=options.allow_inconclusive,
    )  # fmt: skip


def common(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the requests of all verbs that compare have in common, refused where a stack or a profile is unknown."""
    from stackproof.bench.subjects import profile
    from stackproof.gate.variants import require_interpreter
    from stackproof.stack import stacks

    stacks.load(options.stack) if options.stack else None
    profile(options.profile) if options.profile else None
    if options.unpinned:
        require_interpreter(options.unpinned)
    return {
        "stack": options.stack or "", "rehearsed": options.rehearsed, "profile": options.profile, "only": tuple(options.only),
        "unpinned": options.unpinned.absolute() if options.unpinned else None, "device": options.device,
        "minutes": options.minutes, "deadline_scale": options.deadline_scale, "outputs": arguments.outputs(options),
    }  # fmt: skip


def variant(options: argparse.Namespace, side: str) -> Variant:
    """Return a side as its flags name it; a lock that cannot be read is refused, and so is what is no checkout of a package."""
    from stackproof.gate.variants import Variant, assignments, sources

    environment = assignments(getattr(options, f"{side}_env"), f"--{side}-env")
    packages = sources(getattr(options, f"{side}_source"), f"--{side}-source")
    lock = getattr(options, f"{side}_lock")
    if lock and not options.unpinned and (why := files.why_unreadable(lock)):
        raise Refusal(f"--{side}-lock {lock}: {why}; name a file made by {advice.relock('NAME')}")
    return Variant(side, getattr(options, side) or "", lock, packages, environment)


def _add_sweep(verbs: Verbs) -> None:
    help_ = "which setting is faster than the defaults: a grid of variables and backends, each interleaved with the defaults"
    verb = arguments.add(verbs, "sweep", help_, _sweep)
    add_common(verb)
    arguments.add_shared(verb, *arguments.REPORTS)
    arguments.add_list(verb, "--env", "NAME=V1,V2", "a variable and its values; may be repeated")
    arguments.add_list(verb, "--backend", "B1,B2", "what ranks talk over, such as gloo,nccl")


def _sweep(options: argparse.Namespace) -> int:
    from stackproof.gate.request import SweepRequest
    from stackproof.gate.variants import assignments, require_known

    both = common(options)
    named = assignments(options.env, "--env", _GRID, _GRID)
    if empty := next((name for name, values in named.items() if not values), ""):
        raise Refusal(f"--env {empty}= names no value; write for instance --env {_GRID}")
    require_known(named, "--env")
    need_statistics("sweep")
    from stackproof.gate.sweep import run_sweep

    return run_sweep(SweepRequest(**both, variables=tuple(options.env), backends=tuple(options.backend)))


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
    arguments.add_shared(verb, "--stack", "--rehearsed", "--only", "--deadline-scale")
    help_ = "both sides in an environment that is not ours, such as a vendor's container (default: this interpreter's)"
    arguments.add_shared(verb, "--unpinned", help=help_)
    arguments.add_shared(verb, "--device", action=arguments.Once, names="a device")
    help_ = "which subjects: fast, regular or full (default: fast on a CPU, full on an accelerator)"
    once: Any = {"action": arguments.Once, "names": "a profile", "default": ""}
    verb.add_argument("--profile", metavar="NAME", help=help_, **once)
    help_ = "start no more launches after so long; of a sweep, all settings together"
    arguments.add_shared(verb, "--minutes", help=help_)
