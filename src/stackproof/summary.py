"""What stands at the end of a run: a table, the figures, one sentence a failure, the verdict; for any record, ours or not."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from pathlib import Path

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from . import picturing
from .console import plain, plain_console
from .records import Check, Record, Verdict
from .units import shown

_STYLES = {
    Verdict.PASSED: "green",
    Verdict.SKIPPED: "yellow",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.KNOWN_ISSUE: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
}
_BAD = "bold red"

# Beyond this many checks a table of each is no summary: then files of suites are the rows.
_MOST_ROWS = 60
_MOST_FAILURES = 25
_MOST_CODE = 15


def show(record: Record, where: Path, console: Console | None = None) -> None:
    """Print the closing table, the figures, the failures and the verdict of a record."""
    console = console or plain_console()
    console.print(_suites_table(record) if len(record.checks) > _MOST_ROWS else _checks_table(record))
    if record.measurements:
        told = picturing.figures(record, console) if picturing.applies(record) else _measurements_table(record)
        console.print(told)
    groups = _failures(record)
    for checks in groups[:_MOST_FAILURES]:
        console.print(_failure(record, checks), soft_wrap=True)
    if len(groups) > _MOST_FAILURES:
        console.print(Text(f"... and {len(groups) - _MOST_FAILURES} more; all are in the record", style="dim"))
    console.print(_verdict(record))
    console.print(Text(f"record: {os.path.relpath(where)}", style="dim"), soft_wrap=True)


def label(record: Record) -> str:
    """Return what the record is about; a rehearsal can never be mistaken for the stack."""
    facts = record.provenance
    if not facts.get("rehearsed"):
        return record.stack
    return f"{record.stack} (rehearsed on {facts.get('verified on')}, not verified on {facts.get('hardware')})"


def _title(record: Record) -> Text:
    return Text(plain(f"{record.verb}: {label(record)}"))


def _checks_table(record: Record) -> Table:
    table = Table(title=_title(record), title_justify="left", box=box.SIMPLE_HEAD, expand=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("check", overflow="fold")
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("what was seen", overflow="fold", ratio=1)
    for check in record.checks:
        seen = "see below" if check.verdict.exit_code else check.reason
        verdict = Text(check.verdict.value, style=_style(check.verdict))
        table.add_row(verdict, Text(plain(check.id)), f"{check.seconds:.1f}", Text(plain(seen)))
    return table


def _suites_table(record: Record) -> Table:
    """One row for each file of a suite, one column for each verdict that occurred."""
    occurred = [verdict for verdict in Verdict if any(check.verdict is verdict for check in record.checks)]
    table = Table(title=_title(record), title_justify="left", box=box.SIMPLE_HEAD, expand=False)
    table.add_column("suite", overflow="fold")
    for verdict in occurred:
        table.add_column(verdict.value, justify="right", no_wrap=True, style=_style(verdict))
    table.add_column("s", justify="right", no_wrap=True)
    rows: dict[str, list[Check]] = {}
    for check in record.checks:
        rows.setdefault(check.id.split("::")[0], []).append(check)
    for name, checks in rows.items():
        counts = Counter(check.verdict for check in checks)
        cells = [str(counts[verdict] or "") for verdict in occurred]
        table.add_row(Text(plain(name)), *cells, f"{sum(check.seconds for check in checks):.1f}")
    return table


def _measurements_table(record: Record) -> Table:
    table = Table(title="figures", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("workload", overflow="fold")
    for name in ("preset", "dtype", "ranks"):
        table.add_column(name, no_wrap=True)
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("note", min_width=10, overflow="fold")
    for row in record.measurements:
        figure = shown(row.value, row.unit)
        cells = (f"{row.workload} {row.metric}", row.preset, row.dtype, str(row.world_size), figure, row.note)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table


def _failures(record: Record) -> list[list[Check]]:
    """Group failed checks that differ in the dtype alone: a broken operator is one finding, not four."""
    groups: dict[tuple[str, Verdict], list[Check]] = {}
    for check in record.checks:
        if check.verdict.exit_code:
            key = re.sub(r"-(float|bfloat|complex)\d+\]$", "]", check.id)
            groups.setdefault((key, check.verdict), []).append(check)
    return list(groups.values())


def _failure(record: Record, checks: list[Check]) -> Group:
    first = checks[0]
    others = ", ".join(check.id.rsplit("-", 1)[-1].rstrip("]") for check in checks[1:])
    text = Text(f"{first.verdict.value}: {plain(first.id)}{f' (and {others})' if others else ''}: ", style=_BAD)
    text.append(plain(first.reason), style="default")
    lines = [text]
    if repro := str(first.figures.get("repro", "")):
        lines.append(_code(repro))
    if "/" in first.id:
        lines.append(Text(f"  repeat just this: {_again(record, first)}", style="dim"))
    return Group(*lines)


def _code(repro: str) -> Text:
    """Code that repeats a failure: shown if it is short, else where it is, because a screen of it hides the next failure."""
    lines = [f"    {plain(line)}" for line in repro.splitlines()]
    if len(lines) > _MOST_CODE:
        return Text(f"  code to paste: the check's figure 'repro' in the record, {len(lines)} lines", style="dim")
    return Text("\n".join(lines), style="dim")


def _again(record: Record, check: Check) -> str:
    """Return the command that repeats one check; it is never broken into lines, so that it can be copied."""
    pinned = record.provenance.get("pinned", True)
    session = ["nox", "-s", f"{record.stack}-{record.verb}", "--"]
    direct = ["python", "-m", "stackproof", record.verb, "--stack", record.stack]
    suite = check.id.split("/", 1)[0]
    chosen = [] if record.verb == "smoke" or (record.verb == "rehearse" and suite == "smoke") else ["--suite", suite]
    return shlex.join([*(session if pinned else direct), *chosen, *_flags(record, suite), "--only", plain(check.id)])


def _flags(record: Record, suite: str) -> list[str]:
    """Return the flags of the run that change what a check of the suite does."""
    facts = record.provenance
    usual: dict[str, object] = {"device": "the first", "preset": "tiny", "deadline_scale": 1.0, "profile": "fast"}
    usual |= {"dataset": "none"} if suite == "data" else {}
    given = {name: facts[name] for name, value in usual.items() if facts.get(name, value) != value}
    flags = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return flags if facts.get("preflight", True) else [*flags, "--no-preflight"]


def _verdict(record: Record) -> Text:
    counts = Counter(check.verdict for check in record.checks)
    said = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    only = record.provenance.get("only", "")
    warnings = f" [only: {only}]" if only else ""
    warnings += "" if record.provenance.get("pinned", True) else " [unpinned environment]"
    missing = record.provenance.get("unhashed", 0)
    warnings += f" [unhashed: {missing}; `nox -s lock -- {record.stack}` completes the lock]" if missing else ""
    sentence = f"{record.verdict.value.upper()}  {label(record)}: {said} in {record.seconds:.0f} s{warnings}"
    return Text(plain(sentence), style=_style(record.verdict))


def _style(verdict: Verdict) -> str:
    return _STYLES.get(verdict, _BAD)
