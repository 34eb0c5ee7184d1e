"""The verb `gate`: from flags to two seats, from the board to a record and its pictures."""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console
from rich.text import Text

from .. import hosts, junit, provenance, records, runs, stacks
from ..console import plain, plain_console
from ..errors import Refusal, suggestion
from ..measuring import profile as profile_named
from ..measuring import subjects as subjects_of
from ..records import Record, Verdict
from . import plan, showing
from .cells import Board
from .gate import Contest, conclude, contend
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
        left = board.undecided()
        self.say(f"after {board.launches} launches: " + (f"open: {', '.join(left)}" if left else "all is decided"))

    def say(self, text: str) -> None:
        """Print a line with the seconds that have passed."""
        self.console.print(Text(plain(f"[{time.monotonic() - self.began:5.0f} s] {text}"), style="dim"), soft_wrap=True)


def run(options: argparse.Namespace) -> int:
    """Compare two variants and return the exit code of the contracts."""
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack)
    stack = stack.rehearse() if options.rehearsed else stack
    found = hosts.inspect(stack)
    if not found.present:
        raise found.refusal()
    outputs = runs.Outputs(options.results or runs.LOCAL, options.json, options.junit)
    outputs.prepare()
    base, head = _variants(options)
    console = plain_console()
    progress = Progress(console, time.monotonic())
    console.print(Text(plain(f"gate {stack.label}: {head.label} against {base.label}"), style="bold"))
    started = datetime.now(timezone.utc)
    record = Record("gate", stack.name, started.isoformat(timespec="milliseconds"))
    folder = Path(tempfile.mkdtemp(prefix=f"{started:%Y%m%dT%H%M%S}-gate-", dir=_base(outputs, stack)))
    seats = tuple(_seat(one, stack, options, progress) for one in (base, head))
    contest = _contest(options, stack, (seats[0], seats[1]))
    _contend(contest, record, folder, progress, base, head)
    record.provenance |= provenance.host_facts(stack)
    return _finish(record, folder, options, console)


def _contend(contest: Contest, record: Record, folder: Path, progress: Progress, base: Variant, head: Variant) -> None:
    began = time.monotonic()
    record.provenance |= {
        "base": base.label,
        "head": head.label,
        "method": f"interleaved A B B A, {1 - contest.plan.alpha:.0%} over {len(contest.plan.looks)} declared looks",
    }
    try:
        board = contend(contest, folder, progress)
    except SideEndedError as ended:
        record.checks.append(records.Check("gate/process::start-up", ended.verdict, str(ended), 0.0))
        record.verdict = ended.verdict
    except KeyboardInterrupt:
        record.checks.append(
            records.Check("gate/process::start-up", Verdict.INTERRUPTED, "interrupted from outside", 0.0)
        )
        record.verdict = Verdict.INTERRUPTED
    else:
        conclude(board, record, board.same_torch)
        record.provenance |= board.facts
    record.seconds = time.monotonic() - began


def _variants(options: argparse.Namespace) -> tuple[Variant, Variant]:
    sides = []
    for name in ("base", "head"):
        given = {key: getattr(options, f"{name}_{key}") for key in ("lock", "source", "env")}
        sides.append(
            Variant(
                name, getattr(options, name) or "", given["lock"],
                sources(given["source"], f"--{name}-source"), assignments(given["env"], f"--{name}-env"),
            )
        )  # fmt: skip
    if sides[0].label == sides[1].label and not options.same:
        raise Refusal(
            "both sides are this checkout as it is; name what differs: --base REF, --head-env NAME=VALUE, --head-lock FILE "
            "or --head-source PACKAGE=PATH (or --same to see how much noise there is)"
        )
    return sides[0], sides[1]


def _seat(variant: Variant, stack: stacks.Stack, options: argparse.Namespace, progress: Progress) -> Seat:
    if options.unpinned:
        return here(variant, stack, options.profile, options.device)
    return seat(variant, stack, options.profile, options.device, progress.say)


def _contest(options: argparse.Namespace, stack: stacks.Stack, seats: tuple[Seat, Seat]) -> Contest:
    declared = plan.load()
    known = [one.name for one in subjects_of(options.profile, stack) if one.kind not in declared.left_out]
    for name in options.only:
        if name not in known:
            raise Refusal(
                f"--only '{name}' is no subject of profile {options.profile}{suggestion(name, known)}; there are: {', '.join(known)}"
            )
    chosen = tuple(options.only or known)
    preset = profile_named(options.profile).preset
    return Contest(seats, chosen, preset, stack.device, declared, options.minutes, options.allow_unlike)


def _base(outputs: runs.Outputs, stack: stacks.Stack) -> Path:
    folder = outputs.results / stack.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _finish(record: Record, folder: Path, options: argparse.Namespace, console: Console) -> int:
    path = folder / "record.json"
    for target in filter(None, (path, options.json)):
        records.write(record, target)
    if options.junit:
        junit.write(record, options.junit)
    if options.markdown:
        records.write_atomically(options.markdown, showing.markdown(record))
    showing.picture(record, folder / "gate.svg")
    showing.show(record, console)
    console.print(Text(f"record: {path}; picture: {folder / 'gate.svg'}", style="dim"), soft_wrap=True)
    if record.verdict is Verdict.INCONCLUSIVE and options.allow_inconclusive:
        return 0
    return record.verdict.exit_code
