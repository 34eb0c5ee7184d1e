"""The verb `gate`: from flags to two seats, from what was found to a record and its pictures."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console
from rich.text import Text

from .. import hosts, junit, provenance, records, runs, stacks, verify
from ..console import plain, plain_console
from ..errors import Refusal
from ..measuring import profile as profile_named
from ..records import Check, Record, Verdict
from . import drills, pages, plan, showing, stored
from .cells import BASE, HEAD, Board
from .concluding import conclude
from .gate import Contest, contend
from .live import Seat, SideEndedError
from .variants import Variant, assignments, here, seat, sources


@dataclass
class Progress:
    """Tells a person how far the gate is: one line a launch, and at each look what is still open."""

    console: Console
    began: float

    def launched(self, number: int, most: int, subject: str) -> None:
        """Say that a subject was measured."""
        self.say(f"launch {number} of at most {most}: {subject}")

    def looked(self, board: Board) -> None:
        """Say what is decided."""
        left, count = board.undecided(), len(board.launches)
        self.say(f"after {count} launches: " + (f"open: {', '.join(left)}" if left else "all is decided"))

    def say(self, text: str) -> None:
        """Print a line with the seconds that have passed."""
        self.console.print(Text(plain(f"[{time.monotonic() - self.began:5.0f} s] {text}"), style="dim"), soft_wrap=True)


def run(options: argparse.Namespace) -> int:
    """Compare two variants and return the exit code of the contracts."""
    stack = chosen_stack(options)
    base, head = _variants(options)
    record, folder, progress = opened("gate", stack, options, f"{head.label} against {base.label}")
    contest = make_contest(options, stack, base, head, progress)
    _contend(contest, record, folder, progress)
    record.provenance |= {BASE: base.label, HEAD: head.label, "method": _method(contest)}
    record.provenance |= {f"{one.name}.environment": one.proof for one in contest.seats}
    return _finish(record, folder, options, progress.console)


def chosen_stack(options: argparse.Namespace) -> stacks.Stack:
    """Return the stack that the flags name, and refuse a host without it."""
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack)
    stack = stack.rehearse() if options.rehearsed else stack
    found = hosts.inspect(stack)
    if not found.present:
        raise found.refusal()
    return stack


def opened(verb: str, stack: stacks.Stack, options: argparse.Namespace, what: str) -> tuple[Record, Path, Progress]:
    """See that all outputs can be written, say what begins, and return an empty record, a folder of its own, and who tells the progress."""
    outputs = runs.Outputs(options.results or runs.LOCAL, options.json, options.junit)
    outputs.prepare()
    progress = Progress(plain_console(), time.monotonic())
    progress.console.print(Text(plain(f"{verb} {stack.label}: {what}"), style="bold"))
    started = datetime.now(timezone.utc)
    record = Record(verb, stack.name, started.isoformat(timespec="milliseconds"))
    record.provenance |= provenance.host_facts(stack)
    return record, verify.run_folder(outputs.results / stack.name, f"{started:%Y%m%dT%H%M%S}-{verb}"), progress


def make_contest(
    options: argparse.Namespace, stack: stacks.Stack, base: Variant, head: Variant, progress: Progress
) -> Contest:
    """Choose the profile, build both environments or read the stored base, and return what is compared."""
    options.profile = options.profile or plan.load().profile(stack.device)
    preset = profile_named(options.profile).preset
    recalled = stored.load(base.record, preset) if base.record else None
    live = [head] if recalled else [base, head]
    return Contest(
        seats=tuple(_seat(one, stack, options, progress) for one in live),
        preset=preset,
        kind=stack.device,
        plan=plan.load(),
        minutes=options.minutes,
        only=tuple(options.only),
        unlike=bool(getattr(options, "unlike", False)),
        stored=recalled,
        scale=options.deadline_scale,
        host_facts=provenance.host_facts(stack),
    )


def _contend(contest: Contest, record: Record, folder: Path, progress: Progress) -> None:
    began = time.monotonic()
    try:
        outcome = contend(contest, folder, progress)
    except SideEndedError as ended:
        record.checks.append(Check("gate/process::start-up", ended.verdict, str(ended), 0.0))
        record.verdict = ended.verdict
    except KeyboardInterrupt:
        record.checks.append(Check("gate/process::start-up", Verdict.INTERRUPTED, "interrupted from outside", 0.0))
        record.verdict = Verdict.INTERRUPTED
    else:
        conclude(outcome, record, contest.preset)
    record.seconds = time.monotonic() - began


def _method(contest: Contest) -> str:
    how = "NOT INTERLEAVED, the base is a stored record" if contest.stored else "interleaved A B B A"
    drill = "; a DRILL with a planted fault" if any(one.drill for one in contest.seats) else ""
    return f"{how}, {1 - contest.plan.alpha:.0%} over {len(contest.plan.looks)} declared looks{drill}"


def _variants(options: argparse.Namespace) -> tuple[Variant, Variant]:
    base, head = (_variant(options, name) for name in (BASE, HEAD))
    if base.record and (options.base or base.lock or base.sources or base.environment):
        raise Refusal("--base-record is the whole base; leave --base, --base-lock, --base-source and --base-env out")
    if base.label == head.label and not options.same:
        raise Refusal(
            "both sides are this checkout as it is; name what differs: --base REF, --head-env NAME=VALUE, --head-lock FILE, "
            "--head-source PACKAGE=PATH or --base-record FILE (or --same to see how much noise there is)"
        )
    return base, head


def _variant(options: argparse.Namespace, name: str) -> Variant:
    given = {key: getattr(options, f"{name}_{key}") for key in ("lock", "source", "env")}
    drill = options.head_drill if name == HEAD else ""
    drills.read(drill)
    return Variant(
        name, getattr(options, name) or "", given["lock"], sources(given["source"], f"--{name}-source"),
        assignments(given["env"], f"--{name}-env"), options.base_record if name == BASE else None, drill,
    )  # fmt: skip


def _seat(variant: Variant, stack: stacks.Stack, options: argparse.Namespace, progress: Progress) -> Seat:
    if options.unpinned:
        return here(variant, stack, options.profile, options.device, options.unpinned.absolute())
    return seat(variant, stack, options.profile, options.device, progress.say)


def _finish(record: Record, folder: Path, options: argparse.Namespace, console: Console) -> int:
    path = folder / "record.json"
    for target in filter(None, (path, options.json)):
        records.write(record, target)
    if options.junit:
        junit.write(record, options.junit)
    if options.markdown:
        records.write_atomically(options.markdown, pages.markdown(record))
    pages.picture(record, folder / "gate.svg")
    showing.show(record, console)
    console.print(Text(f"record: {path}; picture: {folder / 'gate.svg'}", style="dim"), soft_wrap=True)
    if record.verdict is Verdict.INCONCLUSIVE and options.allow_inconclusive:
        return 0
    return record.verdict.exit_code
