"""The flags of `gate --command`: a command of the user's own, what it says, and where each side runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.commands import arguments

if TYPE_CHECKING:
    from stackproof.gate.request import CommandGateRequest
    from stackproof.gate.variants import Variant
    from stackproof.jobs.metrics import Metric

_ONLY_HERE = (
    "metric",
    "metric_higher",
    "metric_lower",
    "figure",
    "base_dir",
    "head_dir",
    "effect",
    "figure_within",
    "exact",
)
_OF_STACKS = ("base_lock", "base_source", "head_lock", "head_source", "profile", "only", "base_record", "head_drill", "unpinned",
              "rehearsed", "device")  # fmt: skip


def add_options(verb: argparse.ArgumentParser) -> None:
    """Add them as a group of their own."""
    group = verb.add_argument_group(
        "a command of your own",
        "whole launches of base and head in turn; nothing is verified but the figures that you name",
    )
    group.add_argument(
        "--command", action=arguments.Once, metavar="'WORDS'",
        help="what is launched, such as 'python train.py --steps 50'; no shell is used",
    )  # fmt: skip
    metric = (
        "what is judged: a regular expression with one group around the number, a rate such as it/s (tqdm's), a path into JSON such as "
        "'$.train.samples_per_second' (of the last line that has it) or 'out.json:$.speed', steps (of our callbacks), "
        "or time (the default: the whole command's); may be repeated"
    )
    _list(group, "--metric", "METRIC", metric)
    _list(group, "--metric-higher", "METRIC", "a metric of which more is better, where its name does not say so")
    _list(group, "--metric-lower", "METRIC", "a metric of which less is better")
    _list(
        group,
        "--figure",
        "METRIC",
        "a figure that both sides must give alike, such as 'loss: ([0-9.]+)'; all its values are compared",
    )
    group.add_argument(
        "--figure-within",
        type=_percent,
        default=0.0,
        metavar="PERCENT",
        help="how far figures may differ (default: not in one digit)",
    )
    for side in ("base", "head"):
        group.add_argument(
            f"--{side}-dir", action=arguments.Once, names="a folder", kind=Path, metavar="DIR",
            help=f"{side}: the folder that it runs in (default: this one)",
        )  # fmt: skip
    group.add_argument(
        "--effect",
        type=_percent,
        metavar="PERCENT",
        help="from which difference on a metric counts (default: 5%% on a CPU, 2%% on an accelerator)",
    )
    group.add_argument(
        "--deadline", type=arguments.seconds, default=3600.0, metavar="S",
        help="a first launch that takes longer hangs; later ones hang after ten times what the first took (default: 3600)",
    )  # fmt: skip
    exact = "judge only what has no noise, counters and figures, and time nothing: for shared runners"
    group.add_argument("--exact", action="store_true", help=exact)
    group.add_argument(
        "--no-counters",
        dest="counters",
        action="store_false",
        help="do not run Python commands once more to count operators",
    )


def _list(group: argparse._ArgumentGroup, flag: str, metavar: str, help_: str) -> None:
    group.add_argument(flag, action="append", default=[], metavar=metavar, help=help_.replace("%", "%%"))


def _percent(text: str) -> float:
    """Read a percentage above 0 and below 1000."""
    return arguments.positive(text.removesuffix("%").strip())


def check(options: argparse.Namespace) -> None:
    """Refuse flags of a command where there is none."""
    if options.command is None:
        given = next((name for name in _ONLY_HERE if getattr(options, name)), "")
        if given or not options.counters:
            flag = f"--{(given or 'no-counters').replace('_', '-')}"
            raise Refusal(
                f"{flag} belongs to a command of your own; add --command 'python train.py ...', or leave it out"
            )


def request(options: argparse.Namespace) -> CommandGateRequest:
    """Return what a gate of a command is asked; flags of a gate of stacks are refused."""
    from stackproof.gate.request import CommandGateRequest
    from stackproof.jobs import launch, metrics
    from stackproof.stack import stacks

    if given := next((name for name in _OF_STACKS if getattr(options, name)), ""):
        raise Refusal(
            f"--{given.replace('_', '-')} is for stacks and says nothing of a command; of a command compare folders (--base-dir, "
            "--head-dir), commits of its repository (--base REF) or variables (--head-env NAME=VALUE)"
        )
    line = tuple(launch.split_command(options.command))
    wanted = _metrics(options)
    known = tuple(metrics.parse(text, "lower") for text in options.figure)
    stacks.load(options.stack) if options.stack else None
    return CommandGateRequest(
        stack=options.stack or "", minutes=options.minutes, deadline_scale=options.deadline_scale, outputs=arguments.outputs(options),
        base=_variant(options, "base"), head=_variant(options, "head"), same=options.same, accept_changed=options.accept_changed,
        allow_inconclusive=options.allow_inconclusive, words=line, metrics=wanted, figures=known, within=options.figure_within / 100,
        effect=options.effect / 100 if options.effect else None, deadline=options.deadline, exact=options.exact,
        counters=options.counters,
    )  # fmt: skip


def _variant(options: argparse.Namespace, side: str) -> Variant:
    from stackproof.gate.variants import Variant, assignments

    commit, folder = getattr(options, side), getattr(options, f"{side}_dir")
    if commit and folder:
        raise Refusal(f"--{side} names a commit and --{side}-dir a folder; a side is one of the two")
    folder = (folder or Path.cwd()).resolve()
    if not folder.is_dir():
        why = "is a file; name the folder that holds it" if folder.is_file() else "there is no such folder"
        raise Refusal(f"--{side}-dir {folder}: {why}")
    environment = assignments(getattr(options, f"{side}_env"), f"--{side}-env")
    return Variant(side, commit or "", environment=environment, folder=folder)


def _metrics(options: argparse.Namespace) -> tuple[Metric, ...]:
    """Return what is judged; without any it is the time of the whole command."""
    from stackproof.jobs import metrics

    given = (("", options.metric), ("higher", options.metric_higher), ("lower", options.metric_lower))
    found = tuple(metrics.parse(text, better) for better, texts in given for text in texts)
    names = [metric.name for metric in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise Refusal(f"two metrics are called '{twice}'; give each a name of its own, as in '(?P<name>[0-9.]+)'")
    return found or (metrics.parse(metrics.TIME),)
