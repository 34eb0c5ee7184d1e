"""A run as Markdown, for a pull request or a job's summary: what the terminal says, the bad first, the rest folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stackproof.record import outline
from stackproof.record.console import measurements_table, verdict_line
from stackproof.record.outline import Fold, Heading, Part, TextLine, TextTable
from stackproof.record.records import Check, Record

_MOST = 200
"""Rows of a table: a comment has a limit, and the record has all."""


def markdown(record: Record) -> str:
    """Return the page: the verdict with its counts, what is not good with its reason, figures, then all checks folded."""
    bad = [check for check in record.checks if check.verdict.exit_code]
    parts: list[Part] = [Heading(f"stackproof {record.verb}: {verdict_line(record)}", 3)]
    parts += [_checks(bad)] if bad else []
    if record.measurements:
        parts.append(Fold(f"{len(record.measurements)} figures", [replace(measurements_table(record), most=_MOST)]))
    facts = [TextLine(f"{name}: {value}", 1) for name, value in sorted(record.provenance.items())]
    parts.append(Fold(f"all {len(record.checks)} checks, and what was run", [_checks(record.checks), *facts]))
    return outline.markdown(parts)


def _checks(checks: Sequence[Check]) -> TextTable:
    rows = [(check.verdict.value, check.id, f"{check.seconds:.1f}", check.reason) for check in checks]
    return TextTable(("", "check", "s", "what was seen"), rows, most=_MOST)
