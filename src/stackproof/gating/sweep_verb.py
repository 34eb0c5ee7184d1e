"""The verb `sweep`: from flags to a grid, from its results to a ranked table."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import junit, records
from ..console import plain
from ..measuring import subjects
from ..records import Check, Record, Verdict
from ..stacks import Stack
from ..units import shown
from . import pages, sweep
from .gate import Contest
from .gate_verb import chosen_stack, make_contest, opened
from .showing import sees, strip, word
from .variants import Variant


def run(options: argparse.Namespace) -> int:
    """Measure the grid and return the exit code of the contracts."""
    stack = chosen_stack(options)
    settings = sweep.grid(options.env, options.backend)
    record, folder, progress = opened("sweep", stack, options, f"{len(settings)} settings against the defaults")
    base, head = Variant("base"), Variant("head")
    contest = _ranked(make_contest(options, stack, base, head, progress), stack, options.only)
    began = time.monotonic()
    results, defaults = sweep.sweep(contest, settings, folder, progress)
    sweep.conclude(results, defaults, record)
    record.seconds = time.monotonic() - began
    record.provenance["settings"] = "; ".join(setting.label for setting in settings)
    _write(record, folder / "record.json", options)
    show(record, progress.console)
    progress.console.print(Text(f"record: {folder / 'record.json'}", style="dim"), soft_wrap=True)
    return record.verdict.exit_code


def _ranked(contest: Contest, stack: Stack, only: list[str]) -> Contest:
    """Let kinds that take ranks take part; without --only, they alone."""
    left_out = tuple(kind for kind in contest.plan.left_out if kind not in sweep.RANKED)
    kinds = () if only else tuple({one.kind for one in subjects(contest.seats[0].profile, stack)} - set(sweep.RANKED))
    return replace(contest, plan=replace(contest.plan, left_out=(*left_out, *kinds)))


def show(record: Record, console: Console) -> None:
    """Print the settings that were ignored first, then by subject all settings, the fastest first."""
    for check in record.checks:
        if check.reason.startswith("IGNORED") or check.verdict.exit_code not in (0, Verdict.INCONCLUSIVE.exit_code):
            console.print(
                Text(plain(f"{check.id.removeprefix('sweep/')}: {check.reason}"), style="bold red"), soft_wrap=True
            )
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("subject", "setting", "against the defaults", "better  <  same  >  worse", "rate", "sees from"):
        table.add_column(title, no_wrap=title != "setting")
    for row in _rows(record):
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)


def _rows(record: Record) -> list[tuple[str, ...]]:
    ignored = {sweep.label_of_effect(check) for check in record.checks if check.reason.startswith("IGNORED")}
    return [
        (
            sweep.subject_of(check),
            sweep.label_of(check) + (" (IGNORED)" if sweep.label_of(check) in ignored else ""),
            f"{word(check)} {_change(check)}".strip(),
            strip(check),
            _rate(check),
            sees(check),
        )
        for check in sweep.ranked(record)
    ]


def _change(check: Check) -> str:
    return f"{100 * (float(check.figures['ratio']) - 1):+.1f} %" if "ratio" in check.figures else ""


def _rate(check: Check) -> str:
    return shown(float(check.figures["seconds"]), str(check.figures["unit"])) if "seconds" in check.figures else ""


def _write(record: Record, path: Path, options: argparse.Namespace) -> None:
    for target in filter(None, (path, options.json)):
        records.write(record, target)
    if options.junit:
        junit.write(record, options.junit)
    if options.markdown:
        records.write_atomically(options.markdown, markdown(record))


def markdown(record: Record) -> str:
    """Return the ranked table for a comment or a job's summary."""
    head = ["| subject | setting | against the defaults | | rate | sees from |", "|---|---|---|---|---|---:|"]
    escaped = [
        [pages.escape(cell) if number != 3 else f"`{cell.replace('|', '¦')}`" for number, cell in enumerate(row)]
        for row in _rows(record)
    ]
    ignored = [
        f"- {pages.escape(check.id)}: {pages.escape(check.reason)}"
        for check in record.checks
        if "IGNORED" in check.reason
    ]
    return "\n".join(
        [
            f"### stackproof sweep: {record.stack}",
            "",
            *ignored,
            "",
            *head,
            *(f"| {' | '.join(row)} |" for row in escaped),
            "",
        ]
    )
