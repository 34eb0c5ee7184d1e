"""How often does the gate cry for nothing, and what does it find: hundreds of gates of this checkout against itself.

`python -m tools.gate_calibration --stack cpu` (`nox -s gate-calibration`) runs what is still missing, and puts tables into
the documentation. A laboratory: the product never imports it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.base.processes import HostLoad
from stackproof.base.text import plain
from stackproof.commands import arguments
from stackproof.commands.gate import add_common, common
from stackproof.gate.gate import Comparison, GateProgress, chosen_stack, make_comparison
from stackproof.gate.interleave import SideEndedError
from stackproof.gate.variants import CompareRequest, Variant
from stackproof.record.console import plain_console
from tools.gate_calibration import calibrate, doses, others, page

TRIALS = ROOT / "results" / "calibration" / "gate-cpu.jsonl"


def main(words: Sequence[str] | None = None) -> int:
    """Read the flags and run; a refusal is one sentence."""
    parser = argparse.ArgumentParser(prog="python -m tools.gate_calibration", description=__doc__, allow_abbrev=False)
    add_common(parser)
    parser.add_argument("--gates", type=int, metavar="N", help="at most so many of each dose (default: by doses.toml)")
    parser.add_argument("--continue", dest="resume", action="store_true", help="add to the gates that the file has")
    parser.add_argument("--report", action="store_true", help="run nothing: tables from the file")
    parser.add_argument(
        "--trials", type=arguments.file, default=TRIALS, metavar="FILE", help=f"gates, a line each ({TRIALS})"
    )
    parser.add_argument("--page", type=arguments.file, metavar="FILE", help="put tables there (docs/how-good.md)")
    parser.set_defaults(minutes=480.0, results=None, json=None, junit=None, markdown=None)
    try:
        return run(parser.parse_args(words))
    except Refusal as refusal:
        print(f"gate-calibration: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code


def run(options: argparse.Namespace) -> int:
    """Run gates until all are there or the time is over, then write what there is; returns 0 whatever the figures say."""
    others.require()
    declared, console = doses.load(), plain_console()
    progress = GateProgress(console, time.monotonic())
    done = calibrate.read(options.trials)
    if done and not options.resume and not options.report:
        raise Refusal(
            f"{options.trials} has {len(done)} gates already; add --continue, or name another file with --trials"
        )
    if not options.report:
        comparison = _comparison(options, progress)
        done += _run(options, comparison, done, progress)
    text = page.tables(declared, done)
    if options.page:
        page.put(options.page, text)
    console.print(Text(plain(text)), soft_wrap=True)
    return 0


def _comparison(options: argparse.Namespace, progress: GateProgress) -> Comparison:
    declared = doses.load()
    base, head = Variant("base"), Variant("head")
    chosen = {"only": tuple(options.only) or tuple(declared.gate.subjects), "minutes": declared.gate.minutes}
    request = CompareRequest(**{**common(options), **chosen})
    comparison = make_comparison(request, chosen_stack(request), base, head, progress)
    without_counters = replace(
        comparison.plan, count=replace(comparison.plan.count, launches=0)
    )  # they are exact: what is calibrated is what has noise
    return replace(comparison, plan=without_counters)


def _run(
    options: argparse.Namespace, comparison: Comparison, done: list[calibrate.Trial], progress: GateProgress
) -> list[calibrate.Trial]:
    """Run what the schedule says until the minutes are over, and keep each gate as soon as it has ended."""
    fresh = list[calibrate.Trial]()
    until = time.monotonic() + 60 * options.minutes
    try:
        for dose, number in calibrate.schedule(doses.load(), done, options.gates):
            if time.monotonic() > until:
                break
            load = HostLoad()
            with tempfile.TemporaryDirectory(prefix="calibration-", ignore_cleanup_errors=True) as folder:
                trial = calibrate.attempt(comparison, dose, number, Path(folder))
            fresh.append(replace(trial, facts={**trial.facts, "load": load.share()}))
            calibrate.append(options.trials, fresh[-1])
            progress.say(
                f"{dose.name}, gate {number + 1}: {trial.verdict} after {trial.launches} launches, {trial.seconds:.0f} s"
            )
    except SideEndedError as error:
        raise Refusal(f"a gate could not be run: {error}") from error
    except KeyboardInterrupt:
        progress.say("stopped; --continue goes on from here")
    return fresh


if __name__ == "__main__":
    sys.exit(main())
