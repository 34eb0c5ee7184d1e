"""What a person sees: progress while a run goes on, a closing table, one sentence a failure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from .records import Check, Measurement, Record, Verdict
from .stacks import Stack

_STYLES = {Verdict.PASSED: "green", Verdict.SKIPPED: "yellow", Verdict.INCONCLUSIVE: "yellow"}
_BAD = "bold red"
_LOG_WIDTH = 150

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# Seconds are stored, rates are shown (asv is lower-is-better only, people are not).
_RATES = {"s/sample": "samples/s", "s/token": "tokens/s", "s/iteration": "it/s", "s/GB": "GB/s"}


def rate(row: Measurement) -> tuple[float, str]:
    """Return the rate and its unit for a stored number of seconds per unit of work."""
    return (1 / row.value, _RATES[row.unit]) if row.unit in _RATES and row.value else (row.value, row.unit)


def plain(text: str) -> str:
    """Return text without control characters: another machine's log must not steer this terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def plain_console() -> Console:
    """Return a console as wide as the terminal; a log, which has no width, gets room for a sentence."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_LOG_WIDTH)


class Terminal:
    """Shows a run as it goes: a live line on a terminal, one line a check in a log."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console()
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._done, self._total = 0, 0

    @contextmanager
    def watching(self, title: str) -> Iterator[Terminal]:
        """Show progress inside the block."""
        self.console.print(Text(title, style="bold"))
        if not self.console.is_terminal:
            yield self
            return
        columns = (
            SpinnerColumn("line"),
            TextColumn("{task.description}"),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as self._progress:
            self._task = self._progress.add_task("starting the suite", total=None)
            yield self
        self._progress = None

    def collected(self, total: int) -> None:
        """Say how many checks there are."""
        self._total = self._done + total
        if self._progress:
            self._progress.update(self._task, total=self._total)

    def started(self, identifier: str) -> None:
        """Say which check is running."""
        if self._progress:
            self._progress.update(self._task, description=escape(plain(identifier)))

    def finished(self, check: Check) -> None:
        """Say how a check ended."""
        self._done += 1
        if self._progress:
            self._progress.update(self._task, completed=self._done)
        else:
            of = f"/{self._total}" if self._total else ""
            self.console.print(
                Text(f"[{self._done}{of}] {check.verdict.value:<9} {check.seconds:6.1f} s  {plain(check.id)}")
            )


def show(record: Record, stack: Stack, where: Path, console: Console | None = None) -> None:
    """Print the closing table, the figures, the failures and the verdict of a record."""
    console = console or plain_console()
    console.print(_checks_table(record, stack))
    if record.measurements:
        console.print(_measurements_table(record))
    for check in record.checks:
        if check.verdict.exit_code:
            console.print(_failure(check))
            if "/" in check.id:
                console.print(Text(f"  repeat just this: {_again(record, check)}", style="dim"), soft_wrap=True)
    console.print(_verdict(record, stack))
    console.print(Text(f"record: {os.path.relpath(where)}", style="dim"), soft_wrap=True)


def _checks_table(record: Record, stack: Stack) -> Table:
    table = Table(title=Text(f"{record.verb}: {stack.label}"), title_justify="left", box=box.SIMPLE_HEAD, expand=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("check", overflow="fold")
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("what was seen", overflow="fold", ratio=1)
    for check in record.checks:
        seen = "see below" if check.verdict.exit_code else check.reason
        verdict = Text(check.verdict.value, style=_style(check.verdict))
        table.add_row(verdict, Text(plain(check.id)), f"{check.seconds:.1f}", Text(plain(seen)))
    return table


def _measurements_table(record: Record) -> Table:
    table = Table(title="figures", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("workload", overflow="fold")
    for name in ("preset", "dtype", "ranks"):
        table.add_column(name, no_wrap=True)
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("note", min_width=10, overflow="fold")
    for row in record.measurements:
        value, unit = rate(row)
        figure = f"{value:,.2f} {unit}" if value >= 1 else f"{value:.3g} {unit}"
        cells = (f"{row.workload} {row.metric}", row.preset, row.dtype, str(row.world_size), figure, row.note)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table


def _failure(check: Check) -> Text:
    text = Text(f"{check.verdict.value}: {plain(check.id)}: ", style=_BAD)
    text.append(plain(check.reason), style="default")
    return text


def _again(record: Record, check: Check) -> str:
    """Return the command that repeats one check; it is never broken into lines, so that it can be copied."""
    pinned = record.provenance.get("pinned", True)
    session = ["nox", "-s", f"{record.stack}-{record.verb}", "--"]
    direct = ["python", "-m", "stackproof", record.verb, "--stack", record.stack]
    return shlex.join([*(session if pinned else direct), "--only", plain(check.id)])


def _verdict(record: Record, stack: Stack) -> Text:
    counts = {verdict: sum(check.verdict is verdict for check in record.checks) for verdict in Verdict}
    said = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    warnings = "" if record.provenance.get("pinned", True) else " [unpinned environment]"
    missing = record.provenance.get("unhashed", 0)
    warnings += f" [unhashed: {missing}; `nox -s lock -- {stack.name}` completes the lock]" if missing else ""
    return Text(
        f"{record.verdict.value.upper()}  {stack.label}: {said} in {record.seconds:.0f} s{warnings}",
        style=_style(record.verdict),
    )


def _style(verdict: Verdict) -> str:
    return _STYLES.get(verdict, _BAD)
