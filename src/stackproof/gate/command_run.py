"""The verb `gate --command`: from flags to a plan, from what was seen to a record and its pictures."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stackproof.base import git
from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.gate import command_checks, commands, plan
from stackproof.gate.cells import BASE, HEAD
from stackproof.gate.commands import CommandPlan, CommandSide
from stackproof.gate.run import finish, opened
from stackproof.gate.variants import assignments
from stackproof.jobs import metrics, words
from stackproof.jobs.metrics import Metric
from stackproof.stack import hosts, stacks

_FOREIGN = ("lock", "source")
_NOT_HERE = ("profile", "only", "base_record", "head_drill", "unpinned", "rehearsed", "device")


def run_command_gate(options: argparse.Namespace) -> int:
    """Compare two launches of a command, many times, and return the exit code of the contracts."""
    _refuse_foreign(options)
    line = words.split(options.command)
    wanted = _metrics(options)
    known = tuple(metrics.parse(text, "lower") for text in options.figure)
    stack = stacks.load(options.stack) if options.stack else _host()
    with _sides(options) as sides:
        compared = CommandPlan(
            words=tuple(line), sides=sides, metrics=wanted, figures=known, plan=plan.load(),
            effect=options.effect / 100 if options.effect else plan.load().effect(commands.SUBJECT, stack.device),
            minutes=options.minutes, deadline=options.deadline * options.deadline_scale,
            exact=options.exact, python=words.python_call(line) if options.counters else None,
        )  # fmt: skip
        record, folder, progress = opened(
            "gate", stack, options, f"{words.told(line)}: {sides[1].label} against {sides[0].label}"
        )
        began = time.monotonic()
        found = commands.compare(compared, folder, progress.say)
        if not options.counters:
            found.uncounted = "--no-counters leaves them out"
    command_checks.conclude(found, record, accepted=options.accept_changed, within=options.figure_within / 100)
    record.seconds = time.monotonic() - began
    looks = f"{1 - compared.design.alpha:.0%} over {len(compared.design.looks)} declared looks"
    method = "what is exact, nothing was timed" if compared.exact else f"whole launches in turn, {looks}"
    record.provenance |= {
        BASE: sides[0].label,
        HEAD: sides[1].label,
        "method": method,
        "command": words.told(line),
        "pinned": False,
    }
    return finish(record, folder, options, progress.console)


def _refuse_foreign(options: argparse.Namespace) -> None:
    """Refuse flags of a gate of stacks: a command has no lock, no profile and no subject."""
    given = [f"--{side}-{name}" for side in (BASE, HEAD) for name in _FOREIGN if getattr(options, f"{side}_{name}")]
    given += [f"--{name.replace('_', '-')}" for name in _NOT_HERE if getattr(options, name)]
    if given:
        raise Refusal(
            f"{given[0]} is for stacks and says nothing of a command; of a command compare folders (--base-dir, --head-dir), "
            "commits of its repository (--base REF) or variables (--head-env NAME=VALUE)"
        )


def _metrics(options: argparse.Namespace) -> tuple[Metric, ...]:
    """Return what is judged; without any it is the time of the whole command."""
    given = (("", options.metric), ("higher", options.metric_higher), ("lower", options.metric_lower))
    found = tuple(metrics.parse(text, better) for better, texts in given for text in texts)
    names = [metric.name for metric in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise Refusal(f"two metrics are called '{twice}'; give each a name of its own, as in '(?P<name>[0-9.]+)'")
    return found or (metrics.parse(metrics.TIME),)


def _host() -> stacks.Stack:
    """Return the stack that this host has, whose device and driver the record tells of."""
    try:
        return hosts.preferred().stack
    except Refusal as refusal:
        raise StackUnavailableError(f"{refusal}; or name one with --stack") from refusal


@contextmanager
def _sides(options: argparse.Namespace) -> Iterator[tuple[CommandSide, CommandSide]]:
    """Yield base and head, each in its folder; commits are laid out for as long as the gate takes."""
    with tempfile.TemporaryDirectory(prefix="stackproof-gate-") as home:
        trees: list[Path] = []
        try:
            base, head = (_side(options, name, Path(home), trees) for name in (BASE, HEAD))
            if (base.folder, dict(base.environment)) == (head.folder, dict(head.environment)) and not options.same:
                raise Refusal(
                    "both sides are the same command in the same folder; name what differs: --base-dir A --head-dir B, --base REF, "
                    "or --head-env NAME=VALUE (or --same to see how much noise there is)"
                )
            yield base, head
        finally:
            for tree in trees:
                _git("worktree", "remove", "--force", str(tree))


def _side(options: argparse.Namespace, name: str, home: Path, trees: list[Path]) -> CommandSide:
    commit, given = getattr(options, name), getattr(options, f"{name}_dir")
    if commit and given:
        raise Refusal(f"--{name} names a commit and --{name}-dir a folder; a side is one of the two")
    if commit:
        folder = _laid_out(commit, home / name, trees)
    else:
        folder = (given or Path.cwd()).resolve()
        if not folder.is_dir():
            why = "is a file; name the folder that holds it" if folder.is_file() else "there is no such folder"
            raise Refusal(f"--{name}-dir {folder}: {why}")
    own = assignments(getattr(options, f"{name}_env"), f"--{name}-env")
    label = ", ".join((commit or str(folder), *(f"{key}={value}" for key, value in own.items())))
    return CommandSide(name, folder, own, label)


def _laid_out(commit: str, tree: Path, trees: list[Path]) -> Path:
    """Lay a commit of the repository around the working directory out, and return the same directory there."""
    inner = _git("rev-parse", "--show-prefix").strip()
    try:
        found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}").strip()
    except Refusal:
        raise Refusal(
            f"'{commit}' is no commit, branch or tag of this repository; `git fetch` it, or check its name"
        ) from None
    _git("worktree", "add", "--detach", "--quiet", str(tree), found)
    trees.append(tree)
    folder = tree / inner
    if not folder.is_dir():
        raise Refusal(f"'{commit}' has no folder {inner}; run the gate where both commits have it")
    return folder


def _git(*arguments: str) -> str:
    try:
        return git.output(Path.cwd(), *arguments)
    except Refusal as refusal:
        raise Refusal(f"{refusal}; or compare two folders by --base-dir and --head-dir") from None
