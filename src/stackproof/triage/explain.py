"""The root cause that a run's logs show, as one sentence, for whoever has a verdict of his own: cheap to import, never an exception."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_MOST_BYTES = 64 << 20


def explain(paths: Sequence[Path]) -> str | None:
    """Return the root cause that the logs of one run show: one sentence with cause, remedy and link.

    None when they show no failure, and when they cannot be read: whoever asks has a verdict of his own, which must not be
    lost over its explanation. Of logs that are huge nothing is read here; `triage` reads them.
    """
    from stackproof.base.errors import Refusal
    from stackproof.triage import logs, reports

    try:
        there = [path for path in paths if path.is_file() and 0 < path.stat().st_size <= _MOST_BYTES]
        return reports.sentence(reports.report(logs.named(there))) if there else None
    except (OSError, Refusal):
        return None


def with_finding(reason: str, paths: Sequence[Path]) -> str:
    """Return the reason of a verdict with the root cause that the logs show after it, if they show one."""
    cause = explain(paths)
    return f"{reason}; triage: {cause}" if cause else reason
