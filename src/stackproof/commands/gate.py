"""The verbs that compare variants: `gate` and `sweep`.

What they need besides (rich, scipy) is imported when they run.
"""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stackproof.base import advice
from stackproof.base.errors import Refusal
from stackproof.base.places import ROOT
from stackproof.commands import arguments
from stackproof.project import projects

if TYPE_CHECKING:
    from stackproof.gate.variants import CommandGateRequest, GateRequest, Variant
    from stackproof.jobs.metrics import Metric

_GRID = "OMP_NUM_THREADS=1,2"
_OF_STACKS = ("base_lock", "base_source", "head_lock", "head_source", "profile", "only", "head_drill", "unpinned",
              "rehearsed", "device")  # fmt: skip
"""Flags that belong to a gate of stacks."""


def add(verbs: arguments.Verbs) -> None:
    """Add them to the parser of the command line."""
    _add_gate(verbs)
    _add_sweep(verbs)


def _add_gate(verbs: arguments.Verbs) -> None:
    help_ = (
        "is the head worse than the base: two variants side by side, interleaved, with a verdict that can block a merge"
    )
    verb = arguments.add(verbs, "gate", help_, _gate)
    for side in ("base", "head"):
        add_side(verb, side, f"{side}: a commit, branch or tag (default: what is here, as it is)")
    add_common(verb)
    arguments.add_shared(verb, *arguments.REPORTS)
    verb.add_argument("--same", action="store_true", help="compare what is here with itself: shows the noise")
    help_ = "plant a fault in the head, to see the gate find it (an unknown kind lists all)"
    verb.add_argument("--head-drill", default="", metavar="KIND=VALUE", help=help_)
    help_ = "the sides may compute different things from equal seeds, because the change is meant; the page says so"
    verb.add_argument("--accept-changed", action="store_true", help=help_)
    help_ = "do not end at once where something exact is worse, such as a loss; ask how fast both are too"
    verb.add_argument("--go-on", action="store_true", help=help_)
    help_ = "judge only what has no noise, such as counters and losses, and time nothing: for shared runners"
    verb.add_argument("--exact", action="store_true", help=help_)
    verb.add_argument("--allow-inconclusive", action="store_true", help="an inconclusive gate passes")
    _add_command(verb)


def _gate(options: argparse.Namespace) -> int:
    sides = (f"{side}{part}" for side in ("base", "head") for part in ("", "_dir", "_lock", "_source", "_env"))
    if options.same and (other := next((name for name in sides if getattr(options, name)), "")):
        other = other.replace("_", "-")
        raise Refusal(f"--same compares what is here with itself, and --{other} names another; leave one out")
    if options.command is not None:  # its commits are of its own repository
        asked = _command_request(options)
        need_statistics("gate")
        from stackproof.gate.command import run_command_gate

        return run_command_gate(asked)
    request = _gate_request(options)
    need_statistics("gate")
    from stackproof.gate.gate import run_gate

    return run_gate(request)


def _gate_request(options: argparse.Namespace) -> GateRequest:
    """Refuse what is wrong with the words themselves, before anything is looked for or built."""
    from stackproof.bench.subjects import require_named
    from stackproof.gate import planted, variants

    both, project = common(options), projects.current()
    base, head = (variant(options, side) for side in ("base", "head"))
    for side in (base, head):
        variants.require_known(side.environment, f"--{side.name}-env")
        variants.resolved(side.commit, project.folder if project else ROOT)
    if options.stack:
        require_named(options.only)
    planted.read(options.head_drill)
    return variants.GateRequest(
        **both, **_judged(options), base=base, head=replace(head, drill=options.head_drill),
    )  # fmt: skip


def _add_command(verb: argparse.ArgumentParser) -> None:
    about = "whole launches of base and head in turn; nothing is verified but the figures that you name"
    group = verb.add_argument_group("a command of your own", about)
    help_ = "what is launched, such as 'python train.py --steps 50'; no shell is used"
    group.add_argument("--command", action=arguments.Once, metavar="'WORDS'", help=help_)
    metric = (
        "what is judged: a regular expression with one group around the number, a rate such as it/s (tqdm's), a path into JSON such as "
        "'$.train.samples_per_second' (of the last line that has it) or 'out.json:$.speed', steps (of our callbacks), "
        "or time (the default: the whole command's); may be repeated"
    )
    figure = "a figure that both sides must give alike, such as 'loss: ([0-9.]+)'; all its values are compared"
    for flag, help_ in (
        ("--metric", metric),
        ("--metric-higher", "a metric of which more is better, where its name does not say so"),
        ("--metric-lower", "a metric of which less is better"),
        ("--figure", figure),
    ):
        arguments.add_list(group, flag, "METRIC", help_)
    help_ = "how far figures may differ (default: not in one digit)"
    group.add_argument("--figure-within", type=_percent, default=0.0, metavar="PERCENT", help=help_)
    folder: Any = {"action": arguments.Once, "names": "a folder", "kind": Path, "metavar": "DIR"}
    for side in ("base", "head"):
        group.add_argument(f"--{side}-dir", **folder, help=f"{side}: the folder that it runs in (default: this one)")
    help_ = "from which difference on a metric counts (default: 5%% on a CPU, 2%% on an accelerator)"
    group.add_argument("--effect", type=_percent, metavar="PERCENT", help=help_)
    help_ = (
        "a first launch that takes longer hangs; later ones hang after ten times what the first took (default: 3600)"
    )
    group.add_argument("--deadline", type=arguments.seconds, default=3600.0, metavar="S", help=help_)
    help_ = "do not run Python commands once more to count operators"
    group.add_argument("--no-counters", dest="counters", action="store_false", help=help_)
    own = [flag for action in group._group_actions for flag in action.option_strings if flag != "--command"]
    arguments.add_needs(verb, own, "--command")
    arguments.add_needs(verb, ["--figure-within"], "--figure")


def _percent(text: str) -> float:
    return float(arguments.positive(text.removesuffix("%").strip()))


def _command_request(options: argparse.Namespace) -> CommandGateRequest:
    """Return what a gate of a command is asked; flags of a gate of stacks are refused."""
    from stackproof.gate.variants import CommandGateRequest
    from stackproof.jobs import metrics

    if foreign := next((name for name in _OF_STACKS if getattr(options, name)), ""):
        raise Refusal(
            f"--{foreign.replace('_', '-')} is for stacks and says nothing of a command; of a command compare folders (--base-dir, "
            "--head-dir), commits of its repository (--base REF) or variables (--head-env NAME=VALUE)"
        )
    wanted = _metrics(options)
    known = tuple(metrics.parse(text, "lower", "--figure") for text in options.figure)
    return CommandGateRequest(
        **common(options), **_judged(options), base=_command_side(options, "base"), head=_command_side(options, "head"),
        words=words(options), metrics=wanted, figures=known, within=options.figure_within / 100,
        effect=options.effect / 100 if options.effect else None, deadline=options.deadline, counters=options.counters,
    )  # fmt: skip


def _judged(options: argparse.Namespace) -> dict[str, Any]:
    names = ("same", "accept_changed", "go_on", "exact", "allow_inconclusive")
    return {name: getattr(options, name) for name in names}


def words(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the words of the command that was named; none where none was."""
    from stackproof.jobs.launch import split_command

    return tuple(split_command(options.command)) if options.command is not None else ()


def _command_side(options: argparse.Namespace, side: str) -> Variant:
    from stackproof.gate.variants import Variant, assignments

    commit, folder = getattr(options, side), getattr(options, f"{side}_dir")
    if commit and folder:
        raise Refusal(f"--{side} names a commit and --{side}-dir a folder; a side is one of the two")
    folder = (folder or Path.cwd()).resolve()
    if not folder.is_dir():
        why = (
            "is a file; name the folder that holds it"
            if folder.is_file()
            else "there is no such folder; make it, or name another"
        )
        raise Refusal(f"--{side}-dir {folder}: {why}")
    environment = assignments(getattr(options, f"{side}_env"), f"--{side}-env")
    return Variant(side, commit or "", environment=environment, folder=folder)


def _metrics(options: argparse.Namespace) -> tuple[Metric, ...]:
    """Return what is judged; without any it is the time of the whole command."""
    from stackproof.jobs import metrics

    listed = (("", options.metric), ("higher", options.metric_higher), ("lower", options.metric_lower))
    judged = tuple(
        metrics.parse(text, better, f"--metric-{better}".rstrip("-")) for better, texts in listed for text in texts
    )
    names = [metric.name for metric in judged]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise Refusal(f"two metrics are called '{twice}'; give each a name of its own, as in '(?P<name>[0-9.]+)'")
    return judged or (metrics.parse(metrics.TIME),)


def common(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the requests of all verbs that compare have in common, refused where a stack or a profile is unknown."""
    from stackproof.bench.subjects import profile
    from stackproof.device.names import require_of
    from stackproof.gate.variants import require_interpreter
    from stackproof.stack import stacks

    if options.stack:
        stack = stacks.load(options.stack, rehearsed=options.rehearsed)
        require_of(options.device, stack.device) if options.device else None
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
    from stackproof.stack import lockfile, stacks

    environment = assignments(getattr(options, f"{side}_env"), f"--{side}-env")
    packages = sources(getattr(options, f"{side}_source"), f"--{side}-source")
    lock = getattr(options, f"{side}_lock")
    if lock and not options.unpinned and options.stack:
        lock = lockfile.adopt_side(lock, stacks.load(options.stack, rehearsed=options.rehearsed))
    return Variant(side, getattr(options, side) or "", lock, packages, environment)


def _add_sweep(verbs: arguments.Verbs) -> None:
    help_ = "which setting is faster than the defaults: a grid of variables and backends, each interleaved with the defaults"
    verb = arguments.add(verbs, "sweep", help_, _sweep)
    add_common(verb)
    arguments.add_shared(verb, *arguments.REPORTS)
    arguments.add_list(verb, "--env", "NAME=V1,V2", "a variable and its values; may be repeated")
    arguments.add_list(verb, "--backend", "B1,B2", "what ranks talk over, such as gloo,nccl")


def _sweep(options: argparse.Namespace) -> int:
    from stackproof.bench.subjects import require_named
    from stackproof.gate.variants import CompareRequest, assignments, require_known
    from stackproof.stack import stacks

    both = common(options)
    named = assignments(options.env, "--env", _GRID, _GRID)
    for name, values in named.items():
        for value in map(str.strip, values.split(",")):
            if not value:
                raise Refusal(f"--env {name}={values} has an empty value; write for instance --env {_GRID}")
            require_known({name: value}, "--env")
    backends = [name for word in options.backend for name in word.split(",") if name]
    if len({*backends}) < len(backends):
        raise Refusal(f"--backend '{','.join(backends)}' names a backend twice; each is measured once")
    if options.stack:
        require_named(options.only)
        stack = stacks.load(options.stack, rehearsed=options.rehearsed)
        if other := set(backends).difference(stack.backends):
            raise Refusal(f"--backend {min(other)}: {options.stack} has {', '.join(stack.backends)}")
        if backends == [stack.backend] and not named:
            raise Refusal(f"--backend {stack.backend} is the default already; name another, or variables with --env")
    need_statistics("sweep")
    from stackproof.gate.sweep import grid, run_sweep

    return run_sweep(CompareRequest(**both), grid(named, backends))


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
        help=f"{side}: this lock in place of the stack's, or what `pip freeze` or `uv pip compile` printed, or an environment's folder",
    )  # fmt: skip
    source = f"{side}: a checkout of a package, installed over the lock"
    arguments.add_list(verb, f"--{side}-source", "PACKAGE=PATH", source)
    arguments.add_list(verb, f"--{side}-env", "NAME=VALUE", f"{side}: an environment variable")


def add_common(verb: argparse.ArgumentParser) -> None:
    """Add what every verb that compares has: where, what, and how long."""
    arguments.add_shared(verb, "--stack", "--rehearsed", "--only", "--deadline-scale")
    help_ = "both sides in an environment that is not ours, such as a vendor's container (default: this interpreter's)"
    arguments.add_shared(verb, "--unpinned", help=help_)
    arguments.add_shared(verb, "--device")
    help_ = "which subjects: fast, regular or full (default: fast on a CPU, full on an accelerator)"
    once: Any = {"action": arguments.Once, "names": "a profile", "default": ""}
    verb.add_argument("--profile", metavar="NAME", help=help_, **once)
    help_ = (
        "how long both sides may take (default: 10), from when their environments are ready; what was seen until then is concluded; "
        "of a sweep, all settings together"
    )
    arguments.add_shared(verb, "--minutes", help=help_)
