"""A run as Markdown, for a pull request or a job's summary: what the terminal says, the bad first, the rest folded."""

from __future__ import annotations

from collections.abc import Sequence

from stackproof.base.text import in_markdown
from stackproof.base.units import shown
from stackproof.record.console import verdict_line
from stackproof.record.records import Check, Measurement, Record

_MOST = 200
"""Rows of a table: a comment has a limit, and the record has all."""


def markdown(record: Record) -> str:
    """Return the page: the verdict with its counts, what is not good with its reason, figures, then all checks folded."""
    bad = [check for check in record.checks if check.verdict.exit_code]
    parts = [f"### stackproof {record.verb}: {in_markdown(verdict_line(record))}", ""]
    parts += _checks(bad) if bad else []
    if record.measurements:
        parts += [
            "",
            f"<details><summary>{len(record.measurements)} figures</summary>",
            "",
            *_figures(record.measurements),
            "",
            "</details>",
        ]
    parts += [
        "",
        f"<details><summary>all {len(record.checks)} checks, and what was run</summary>",
        "",
        *_checks(record.checks),
        "",
    ]
    parts += [f"- {in_markdown(f'{name}: {value}')}" for name, value in sorted(record.provenance.items())]
    return "\n".join([*parts, "", "</details>", ""])


def _checks(checks: Sequence[Check]) -> list[str]:
    rows = [
        f"| {check.verdict.value} | {in_markdown(check.id)} | {check.seconds:.1f} | {in_markdown(check.reason)} |"
        for check in checks
    ]
    return _table(("", "check", "s", "what was seen"), rows)


def _figures(measurements: Sequence[Measurement]) -> list[str]:
    rows = [
        f"| {in_markdown(f'{row.workload} {row.metric}')} | {row.preset} | {in_markdown(row.dtype)} | {row.world_size} | "
        f"{in_markdown(shown(row.value, row.unit))} | {in_markdown(row.note)} |"
        for row in measurements
    ]
    return _table(("what", "preset", "dtype", "ranks", "rate", "note"), rows)


def _table(heads: Sequence[str], rows: Sequence[str]) -> list[str]:
    more = [f"| and {len(rows) - _MOST} more, in the record |"] if len(rows) > _MOST else []
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *rows[:_MOST], *more]
