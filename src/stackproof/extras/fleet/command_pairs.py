"""The step `fleet pairs`: rounds of pairs of hosts, so that a slow link is told from a slow host."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.text import plain, set_in
from stackproof.commands import arguments
from stackproof.extras.fleet import command_plan

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs

_SLURM = "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --exclusive --kill-on-bad-exit=0 --nodelist={first},{second}"


def add(steps: Verbs) -> None:
    """Add it to the parser of `fleet`."""
    help_ = "let hosts of a plan meet in pairs, each with another partner in every round: which link is slow, and which host"
    step = arguments.add(steps, "pairs", help_, _run)
    step.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of the plan")
    arguments.add_stack(step)
    step.add_argument(
        "--rounds", type=arguments.count, default=6, metavar="N", help="so many partners of each host (default: 6)"
    )
    help_ = f"how two ranks are started, {{first}} and {{second}} in place of the hosts (default: '{_SLURM}')"
    step.add_argument("--launch", default=_SLURM, metavar="WORDS", help=help_)
    step.add_argument(
        "--python",
        type=arguments.word,
        metavar="PATH",
        help="the interpreter on the hosts (default: as `fleet run` has it)",
    )
    help_ = "when a round ends, whoever has not answered (default: 10)"
    step.add_argument("--minutes", type=arguments.minutes, default=10.0, metavar="MINUTES", help=help_)


def _run(options: argparse.Namespace) -> int:
    from stackproof.extras.fleet import links, pairing, report, sweep
    from stackproof.record.records import Verdict

    folder = options.folder.absolute()
    made = command_plan.plan_of(options, folder)
    launcher = pairing.PairLauncher.of(
        options.launch, str(command_plan.python_of(options, made.stack)), options.minutes
    )
    pairing.measure(made, folder, options.rounds, launcher, lambda text: print(plain(text, lines=False), flush=True))  # noqa: T201
    found = sweep.judged(folder)
    sweep.keep(found, folder)
    print(report.terminal(found, str(folder)))  # noqa: T201
    if why := links.unsaid(folder):
        print(f"CANNOT SAY: {set_in(why)}")  # noqa: T201
        return max(found.exit_code, Verdict.INCONCLUSIVE.exit_code) if not found.links else found.exit_code
    return found.exit_code
