"""What a person sees of a run, on a terminal and as a page: progress, figures, a sentence for each failure, and the verdict."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from rich.console import Console, Group
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from stackproof.base import advice, git
from stackproof.base.text import counted, first_line, indented, plain, shown
from stackproof.record import outline, reading, reference, store
from stackproof.record.outline import Fold, Heading, Part, Span, TextLine, TextTable
from stackproof.record.records import GRAVITY, LOADING, SUITE_VERBS, Check, Measurement, Record, Verdict
from stackproof.record.repeat import command_of, command_of_check, command_of_record, command_with

_LOG_WIDTH = 150
_SILENCE_S = 30.0
"""A log that says nothing for longer looks like a hang."""


def plain_console() -> Console:
    """Return a console as wide as the terminal; a log, which has no width, gets room for a sentence."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=_LOG_WIDTH)


class Terminal:
    """Shows a run as it goes: a live line on a terminal; in a log what is not good at once, else a line now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console()
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._done, self._total = 0, 0
        self._before: int | None = None
        self._printed = time.monotonic()

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
        self._before = self._done if self._before is None else self._before
        self._total = self._before + total
        if self._progress:
            self._progress.update(self._task, total=self._total)

    def started(self, identifier: str) -> None:
        if self._progress:
            self._progress.update(self._task, description=escape(plain(identifier, lines=False)))

    def progress(self, identifier: str, sentence: str) -> None:
        """Say how far a check is that takes long."""
        line = plain(f"{identifier}: {sentence}", lines=False)
        if self._progress:
            self._progress.update(self._task, description=escape(line))
        elif time.monotonic() - self._printed > _SILENCE_S:
            self._printed = time.monotonic()
            self.console.print(Text(f"[{self._done}] running   {line}"))

    def finished(self, check: Check) -> None:
        self._done += 1
        self._total = max(self._total, self._done) if self._total else 0  # guards come besides what was collected
        if self._progress:
            self._progress.update(self._task, completed=self._done, total=self._total or None)
        elif check.verdict.exit_code or time.monotonic() - self._printed > _SILENCE_S:
            self._printed = time.monotonic()
            of = f"/{self._total}" if self._total else ""
            self.console.print(
                Text(
                    f"[{self._done}{of}] {check.verdict.value:<9} {check.seconds:6.1f} s  {plain(check.id, lines=False)}"
                )
            )


_MOST_FIGURES = 400


def figures(record: Record, most: int = _MOST_FIGURES) -> TextTable:
    """Return the measurements as rates, those of one piece of work in one row; a column that says nothing is left out."""
    heads = ("figures", "of", "rate", "±", "of peak", "memory", "reference", "note")
    rows = [heads, *(_cells(list(group)) for _, group in groupby(record.measurements, key=_subject))]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    heads, *rows = zip(*columns, strict=True)
    right, wide = ("rate", "±", "memory"), ("of peak", "reference", "note")
    at = {head: number for number, head in enumerate(heads)}
    return TextTable(
        heads,
        rows,
        right=[at[head] for head in right if head in at],
        wide=[at[head] for head in wide if head in at],
        most=most,
    )


def _subject(row: Measurement) -> tuple[str, str, int]:
    """Rows of one subject are one measurement in several units; the first of them holds the figures."""
    return row.workload, row.metric, row.world_size


def _cells(rows: list[Measurement]) -> tuple[str, ...]:
    first = rows[0]
    noise, peak, memory = (_number(first, name) for name in ("noise", "of_peak", "peak_memory_bytes"))
    references = (figure for row in rows for figure in reference.find(row.workload, row.preset, row.unit))
    return (
        first.workload if first.metric in first.workload else f"{first.workload} {first.metric}",
        f"{counted(first.world_size, 'rank')}, {first.preset}, {first.dtype}",
        (",\n" if noise is not None else ", ").join(shown(row.value, row.unit) for row in rows),
        "" if noise is None else f"{noise:.1%}",
        "" if peak is None else f"{peak:.0%}" if peak >= 0.01 else f"{peak:.2g}",
        "" if not memory else f"{memory / 1e9:.2f} GB",
        ",\n".join(
            dict.fromkeys(f"{shown(figure.seconds, figure.unit)} ({figure.of.device})" for figure in references)
        ),
        first.note,
    )


def _number(row: Measurement, name: str) -> float | None:
    value = row.figures.get(name)
    return float(value) if isinstance(value, (int, float)) else None


_STYLES = {
    Verdict.PASSED: "green",
    Verdict.SKIPPED: "yellow",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.KNOWN_ISSUE: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
}
_BAD = "bold red"

_MOST_ROWS = 60
"""Checks of a run whose files are rows; of more, suites are."""
_MOST_FAILURES = 25
_MOST_CODE = 15
_MOST_NAMES = 8
_SLOWEST = 10
_REASON = 160
"""Characters of a reason that a line of a suite has room for."""


def show(record: Record, where: Path, console: Console | None = None, *, verbose: bool = False) -> None:
    """Print what is bad, what could not be said, a line for each suite that is well, figures, the verdict, and what to do.

    verbose: print the slowest checks too.
    """
    console = console or plain_console()
    groups = _failures(record)
    for checks in groups[:_MOST_FAILURES]:
        console.print(_failure(record, checks), soft_wrap=True)
    if len(groups) > _MOST_FAILURES:
        console.print(Text(f"... and {len(groups) - _MOST_FAILURES} more; all are in the record", style="dim"))
    parts: list[Part] = [_well_table(record)] if any(not check.verdict.exit_code for check in record.checks) else []
    if record.measurements:
        parts.append(figures(record))
    if verbose:
        slowest = sorted(record.checks, key=lambda check: -check.seconds)[:_SLOWEST]
        rows = [(check.id, f"{check.seconds:.1f}", f"{check.seconds / (record.seconds or 1):.0%}") for check in slowest]
        parts.append(TextTable(("slowest checks", "s", "of the run"), rows, right=(1, 2)))
    outline.show(parts, console)
    console.print(Text(plain(verdict_line(record), lines=False), style=_style(record.verdict)), soft_wrap=True)
    console.print(Text(plain(f"record: {os.path.relpath(where)}", lines=False), style="dim"), soft_wrap=True)
    console.print(Text(f"what to do: {what_to_do(record, where)}"), soft_wrap=True)


_RESUMED = (*SUITE_VERBS, "bisect")
"""Verbs that have `--continue`."""


def what_to_do(record: Record, where: Path) -> str:
    """Return the last line: nothing, the command that shows the worst failure again, or how a run goes on."""
    whole = command_of_record(record) or command_of_check(record, Check("run", record.verdict, "", 0.0))
    if not record.verdict.exit_code:
        more = record.verb == "smoke" and command_with(replace(record, verb="verify"), ())
        return f"nothing; every suite: {more}" if more else "nothing"
    if record.verdict is Verdict.INTERRUPTED:
        if record.verb not in _RESUMED:
            return f"again: {whole}"
        joint = " " if " -- " in whole or "nox -s " not in whole else " -- "
        results = where.absolute().parents[min(2, len(where.absolute().parents) - 1)]
        kept = "" if results == store.LOCAL else f" --results {shlex.quote(str(results))}"
        return f"go on: {whole}{joint}--continue{kept}"
    if record.verdict is Verdict.INCONCLUSIVE:
        return f"again, when the host is quiet: {whole}"
    first = next(iter(_failures(record)), [Check("run", record.verdict, "", 0.0)])[0]
    if "::" not in first.id:
        return f"what the first sentence says; then: {whole}"
    return f"mend it; this repeats the first: {again}" if (again := command_of(record, first)) else "mend it"


def label(record: Record) -> str:
    """Return what the record is about; a rehearsal can never be mistaken for the stack."""
    facts = record.provenance
    if not facts.get("rehearsed"):
        return record.stack
    return f"{record.stack} (rehearsed on {facts.get('verified on')}, not verified on {facts.get('hardware')})"


def _well_table(record: Record) -> TextTable:
    """One row for each suite, or file of one, with how many of its checks ended how, but for those that are bad."""
    groups: dict[str, list[Check]] = {}
    for check in record.checks:
        if not check.verdict.exit_code:
            file = check.id.split("::")[0]
            groups.setdefault(file.split("/")[0] if len(record.checks) > _MOST_ROWS else file, []).append(check)
    rows: list[tuple[str | tuple[Span, ...], ...]] = [
        (name, _counts(checks), f"{sum(check.seconds for check in checks):.1f}", _seen(checks))
        for name, checks in groups.items()
    ]
    if LOADING in record.provenance:
        rows.append(
            ("loading", "", f"{float(record.provenance[LOADING]):.1f}", "imports and collection of all processes")
        )
    heads = ("suite", "checks", "s", "what was seen")
    return TextTable(heads, rows, f"{record.verb}: {label(record)}", right=(2,), wide=(3,))


def _counts(checks: Sequence[Check]) -> tuple[Span, ...]:
    counts = Counter(check.verdict for check in checks)
    words = [Span(f"{counts[verdict]} {verdict.value}", _style(verdict)) for verdict in Verdict if counts[verdict]]
    return tuple(piece for word in words for piece in (Span(", "), word))[1:]


def _seen(checks: Sequence[Check]) -> str:
    """Return why some were not run, the reason of a check that stands alone, or what was asked."""
    reasons = dict.fromkeys(check.reason for check in checks if check.verdict is not Verdict.PASSED)
    if reasons or len(checks) == 1:
        first, *others = (first_line(reason, _REASON) for reason in reasons or [checks[0].reason])
        return f"{first} (and {len(others)} more reasons, in the record)" if others else first
    names = list(dict.fromkeys(check.id.split("::")[-1].split("[")[0] for check in checks))
    return ", ".join(names) if len(names) <= _MOST_NAMES else ""


def _failures(record: Record) -> list[list[Check]]:
    """Group bad checks, the gravest first, that differ in the dtype alone: a broken operator is one finding, not four."""
    groups: dict[tuple[str, Verdict], list[Check]] = {}
    for check in record.checks:
        if check.verdict.exit_code:
            key = re.sub(r"-(float|bfloat|complex)\d+\]$", "]", check.id)
            groups.setdefault((key, check.verdict), []).append(check)
    return sorted(groups.values(), key=lambda checks: GRAVITY.index(checks[0].verdict))


def _failure(record: Record, checks: list[Check]) -> Group:
    first = checks[0]
    others = indented(", ".join(check.id.rsplit("-", 1)[-1].rstrip("]") for check in checks[1:]))
    text = Text(f"{first.verdict.value}: {indented(first.id)}{f' (and {others})' if others else ''}: ", style=_BAD)
    text.append(indented(first.reason), style="default")
    lines = [text]
    if repro := str(first.figures.get("repro", "")):
        lines.append(_code(repro))
    if "/" in first.id and (again := command_of(record, first)):
        lines.append(Text(f"  repeat just this: {again}", style="dim"))
    return Group(*lines)


def _code(repro: str) -> Text:
    """Code that repeats a failure: shown if it is short, else where it is, because a screen of it hides the next failure."""
    lines = [f"    {plain(line)}" for line in repro.splitlines()]
    if len(lines) > _MOST_CODE:
        return Text(f"  code to paste: the check's figure 'repro' in the record, {len(lines)} lines", style="dim")
    return Text("\n".join(lines), style="dim")


def verdict_line(record: Record) -> str:
    """Return the line that decides: the verdict, how many checks ended how, and what limits it."""
    counts = Counter(
        check.verdict for check in record.checks if not check.id.startswith("guard: ") or check.verdict.exit_code
    )
    text = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    warnings = reading.only(record)
    warnings += "" if record.provenance.get("pinned", True) else " [unpinned environment]"
    missing = record.provenance.get("unhashed", 0)
    warnings += f" [unhashed: {missing}; {advice.relock(record.stack)} completes the lock]" if missing else ""
    warnings += " [with local changes]" if str(record.provenance.get("commit", "")).endswith(git.LOCAL_CHANGES) else ""
    warnings += f" [drilled: {record.provenance['drilled']}]" if "drilled" in record.provenance else ""
    return f"{record.verdict.value.upper()}  {label(record)}: {text} in {record.seconds:.0f} s{warnings}"


def _style(verdict: Verdict) -> str:
    return _STYLES.get(verdict, _BAD)


_MOST = 200
"""Rows of a table: a comment has a limit, and the record has all."""


def markdown(record: Record) -> str:
    """Return the page: the verdict with its counts, what is not good with its reason, figures, then all checks folded."""
    bad = [check for check in record.checks if check.verdict.exit_code]
    parts: list[Part] = [Heading(f"stackproof {record.verb}: {verdict_line(record)}", 3)]
    parts += [_checks(bad)] if bad else []
    if record.measurements:
        parts.append(Fold(f"{len(record.measurements)} figures", [figures(record, most=_MOST)]))
    facts = [TextLine(f"{name}: {value}", 1) for name, value in sorted(record.provenance.items())]
    parts.append(Fold(f"all {len(record.checks)} checks, and what was run", [_checks(record.checks), *facts]))
    return outline.markdown(parts)


def _checks(checks: Sequence[Check]) -> TextTable:
    rows = [(check.verdict.value, check.id, f"{check.seconds:.1f}", check.reason) for check in checks]
    return TextTable(("", "check", "s", "what was seen"), rows, most=_MOST)
