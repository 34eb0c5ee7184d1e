"""The steps `fleet duel`, which confirms or refutes, and `fleet side`, which it starts on each of two hosts."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.text import counted, plain
from stackproof.commands import arguments
from stackproof.extras.fleet import command_plan
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
    from stackproof.extras.fleet.duel import Duel
    from stackproof.extras.fleet.judgement import FleetJudgement

_SLURM = "srun --nodes=1 --ntasks=1 --exclusive --unbuffered --nodelist={host}"


def add(steps: Verbs) -> None:
    """Add them to the parser of `fleet`."""
    help_ = "put each suspect beside healthy hosts, turn by turn, and list those that are confirmed with what would drain them"
    step = arguments.add(steps, "duel", help_, _duel)
    step.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the folder of the sweep, with its plan and its records"
    )
    arguments.add_stack(step)
    help_ = f"how a command is run on a host, {{host}} in its place (default: '{_SLURM}')"
    step.add_argument("--launch", default=_SLURM, metavar="WORDS", help=help_)
    step.add_argument(
        "--python",
        type=arguments.word,
        metavar="PATH",
        help="the interpreter on the hosts (default: as `fleet run` has it)",
    )
    arguments.add_list(step, "--host", "NAME", "only this suspect; may be repeated")
    step.add_argument(
        "--most",
        type=arguments.count,
        default=16,
        metavar="N",
        help="suspects at most, the oddest first (default: 16)",
    )
    step.add_argument(
        "--start",
        type=arguments.seconds,
        default=300.0,
        metavar="SECONDS",
        help="what a host may take to come up (default: 300)",
    )
    step.add_argument("--drain", action="store_true", help="also take the confirmed out of service, by scontrol")
    arguments.add_deadline_scale(step)
    _add_side(steps)


def _add_side(steps: Verbs) -> None:
    step = arguments.add(steps, "side", "what `duel` starts on a host; it answers on its standard output", _side)
    arguments.add_stack(step, required=True)
    step.add_argument("--profile", choices=("tiny", "full"), required=True, help="as the plan has it")
    step.add_argument("--host", required=True, metavar="NAME", help="who this is")
    step.add_argument("--card", type=arguments.seed, default=0, metavar="N", help="which card")


def _duel(options: argparse.Namespace) -> int:
    from stackproof.extras.fleet import draining, duel, report, sweep
    from stackproof.extras.fleet.launcher import Launcher

    folder = options.folder.absolute()
    made = command_plan.plan_of(options, folder)
    if options.drain:
        draining.require()
    python = str(command_plan.python_of(options, made.stack))
    launcher = Launcher.of(options.launch, python, made.stack, made.profile, options.deadline_scale, options.start)
    before = sweep.judged(folder)
    suspects = [one for one in report.open_suspects(before) if not options.host or one.host in options.host]
    if strangers := sorted(set(options.host or ()) - {one.host for one in suspects}):
        raise Refusal(
            f"--host {plain(strangers[0], 60)}: is no open suspect of this sweep; `fleet judge {folder.name}` lists them"
        )
    duel.prepared(folder)
    chosen = list(duel.challenges(before, made.hosts, suspects[: options.most]))
    open_ = f"{len(chosen)} of {counted(len(suspects), 'open suspect')}, each beside healthy hosts of its state"
    _say(open_ if chosen else "no host of the plan is an open suspect, so nobody has a duel")
    for number, challenge in enumerate(chosen):
        with _kept(duel.Duel(challenge, launcher, folder, _say, made.id), f"{number} of {len(chosen)}") as one:
            one.fight()
    found = sweep.judged(folder)
    if problem := sweep.keep(found, folder):
        _say(problem)
    print(report.terminal(found, str(folder)))  # noqa: T201
    drained = _drain(found, options.host) if options.drain else True
    return _exit_code(found) if drained else 1


def _exit_code(found: FleetJudgement) -> int:
    """Return the judgement's, but for what duels have left open: that is undecided, and nobody is bad by it."""
    from stackproof.extras.fleet.judgement import BAD
    from stackproof.record.records import Verdict

    bad = [host for host in found.hosts if host.standing in BAD]
    if found.links or not bad or any(host.confirmed or not host.undecided for host in bad):
        return found.exit_code
    return Verdict.INCONCLUSIVE.exit_code


@contextlib.contextmanager
def _kept(one: Duel, before: str) -> Iterator[Duel]:
    """Keep what a duel has said, also one that is broken off, and say it."""
    from stackproof.base import processes
    from stackproof.extras.fleet import duel, duels

    try:
        yield one
    except KeyboardInterrupt:
        _say(
            f"broken off in the duel of {one.host}, after {before} suspects; what was decided is kept, and the same words go on"
        )
        raise
    finally:
        with processes.undisturbed():
            duel.keep(one.record, one.folder)
        for check in one.record.checks:
            word = duels.word(check)
            _say(f"{one.host}: {check.subject}: {'' if word == duels.OPEN else f'{word}: '}{check.reason}")


def _drain(found: FleetJudgement, named: Sequence[str]) -> bool:
    """Drain the confirmed, of those that were named if any were; return whether all are."""
    from stackproof.extras.fleet import draining, slurm

    failed = list[str]()
    chosen = [host for host in draining.drained(found) if not named or host.host in named]
    for host in chosen:
        try:
            slurm.call(*draining.command(host))
            _say(f"drained: {host.host}")
        except Refusal as refusal:
            failed.append(host.host)
            _say(f"not drained: {host.host}: {refusal}")
    if not chosen:
        _say("no duel has confirmed anybody, so nobody is drained")
    return not failed


def _side(options: argparse.Namespace) -> int:
    from stackproof.extras.fleet import card, rules

    stack = stacks.load(options.stack)
    device = f"{stack.device}:{options.card}" if options.card else ""
    told = {"stack": stack.name, "profile": options.profile, "device": device, "host": rules.host(options.host)}
    os.environ.update(card.defaults(stack))
    sys.stdout.flush()
    command = [sys.executable, "-m", "stackproof.extras.fleet.side", json.dumps(told)]
    try:
        os.execv(sys.executable, command)  # noqa: S606 - no shell; torch is to be imported under the stack's variables
    except OSError as error:
        raise Refusal(f"{sys.executable}: cannot be started ({error.strerror})") from error


def _say(sentence: str) -> None:
    print(plain(sentence, lines=False), flush=True)  # noqa: T201
