"""The verb `calibrate`: runs what is still missing of a calibration, and puts its tables and figures into the documentation."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from rich.text import Text

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.gate import plan
from stackproof.gate.gate import Contest
from stackproof.gate.run import Progress, chosen_stack, make_contest
from stackproof.gate.variants import Variant
from stackproof.record.console import plain_console
from tools.gate_calibration import calibrate, others, page
from tools.gate_calibration.side_by_side import Crew

TRIALS = ROOT / "results" / "calibration" / "gate-cpu.jsonl"


def run(options: argparse.Namespace) -> int:
    """Run gates until all are there or the time is over, then write what there is; returns 0 whatever the figures say."""
    others.require()
    declared, console = plan.load().calibration, plain_console()
    progress = Progress(console, time.monotonic())
    done = calibrate.read(options.trials)
    if done and not options.resume and not options.report:
        raise Refusal(
            f"{options.trials} has {len(done)} gates already; add --continue, or name another file with --trials"
        )
    if not options.report:
        contest = _contest(options, progress)
        done += _run(options, contest, done, progress)
    curve = page.drawn(declared, done)
    text = page.tables(declared, done, curve)
    if options.page:
        page.put(options.page, text)
        drawn = page.draw(declared, done, options.page.parent / "figures" / "gate-power", curve)
        for path in drawn:
            console.print(Text(f"drawn: {path}"))
    console.print(Text(plain(text)), soft_wrap=True)
    return 0


def _contest(options: argparse.Namespace, progress: Progress) -> Contest:
    declared = plan.load().calibration
    base, head = Variant("base"), Variant("head")
    options.only = options.only or list(declared.subjects)
    contest = make_contest(options, chosen_stack(options), base, head, progress)
    without_counters = replace(contest.plan, counts=0)  # they are exact: what is calibrated is what has noise
    return replace(contest, minutes=declared.minutes, plan=without_counters)


def _run(
    options: argparse.Namespace, contest: Contest, done: list[calibrate.Trial], progress: Progress
) -> list[calibrate.Trial]:
    """Run what the schedule says until the minutes are over, and keep each gate as soon as it has ended."""
    fresh = list[calibrate.Trial]()

    def keep(trial: calibrate.Trial) -> None:
        calibrate.append(options.trials, trial)
        fresh.append(trial)
        progress.say(
            f"{trial.dose}, gate {trial.number + 1}: {trial.verdict} after {trial.launches} launches, {trial.seconds:.0f} s"
        )

    jobs = calibrate.schedule(plan.load().calibration, done, options.gates)
    try:
        Crew(contest, jobs, time.monotonic() + 60 * options.minutes, keep).run(options.side_by_side)
    except KeyboardInterrupt:
        progress.say("stopped; --continue goes on from here")
    return fresh
