"""Can the day that a record says be true? One rule for all that looks back: cells, nights, gates and histories."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

from stackproof.record.records import Record
from stackproof.record.store import Loaded

COMMITTED = "commit.date"
"""The fact that says when the commit was made that a record measured."""
_AHEAD = timedelta(days=1)
"""By so much the clock of whoever made the commit may be ahead of the runner's."""
_REMEDY = "set the clock of its host and run again"


def doubt(record: Record, today: date | None = None) -> str:
    """Return why the day of a record cannot be true, as the rest of a sentence; empty where nothing is said against it.

    It began after today (UTC), or before the commit was made that it measured: its clock was ahead, or has gone back.
    """
    today = today or datetime.now(timezone.utc).date()
    try:
        began = datetime.fromisoformat(record.started)
        if began.astimezone(timezone.utc).date() > today:
            return f"began on {record.started[:10]}, which is after {today}; {_REMEDY}"
        made = str(record.provenance.get(COMMITTED, ""))
        if made and began < datetime.fromisoformat(made) - _AHEAD:
            return (
                f"began on {record.started[:10]}, before the commit was made that it measured ({made[:10]}); {_REMEDY}"
            )
    except (TypeError, ValueError):  # a day that is none is the concern of whoever reads records
        return ""
    return ""


def true(loaded: Loaded, today: date | None = None) -> Loaded:
    """Return a store without the records whose day cannot be true, each of them named."""
    doubts = {path: why for path, record in loaded.records.items() if (why := doubt(record, today))}
    if not doubts:
        return loaded
    problems = [f"{path}: {why}; it is left out" for path, why in doubts.items()]
    records = {path: record for path, record in loaded.records.items() if path not in doubts}
    return replace(loaded, records=records, problems=[*loaded.problems, *problems])
