"""Tells a command of the user's what has changed since the nights before, once: who is told of every night reads none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, processes
from stackproof.api.record import Record, Verdict, reading, resume
from stackproof.extras.nights.drift.nights import VERB

_NIGHTS = 30
"""So many are looked back: a suite may have to wait for its turn for some of them."""
_SECONDS = 300.0


def changes(record: Record, path: Path, before: Sequence[Path]) -> dict[str, Any]:
    """Return which checks, and whether the night, ended otherwise than when they last ran; nothing where all is as it was.

    `before`: records of earlier nights, the newest first. The first night tells what failed in it.
    """
    known: dict[str, Verdict] = {}
    for earlier in before[:_NIGHTS]:
        try:
            found = reading.read(earlier)
        except Refusal:  # the pages say so
            continue
        known = {check.id: check.verdict for check in found.checks if check.verdict is not Verdict.SKIPPED} | known
    rows = [
        {"check": check.id, "was": was.value, "is": check.verdict.value, "reason": check.reason}
        for check in record.checks
        if check.verdict is not Verdict.SKIPPED and (was := known.get(check.id, Verdict.PASSED)) is not check.verdict
    ]
    facts = {"stack": record.stack, "host": record.provenance.get("host", ""), "record": str(path)}
    return {**facts, "verdict": record.verdict.value, "changes": rows} if rows else {}


def notify(command: Sequence[str], record: Record, path: Path, results: Path) -> str:
    """Hand the changes to a command as JSON on standard input, and return what became of that; which is mostly nothing."""
    told = changes(record, path, resume.earlier(results, VERB, record.stack, but=path.parent)[::-1])
    if not told:
        return "nothing changed since the nights before, so that nobody is notified"
    ended = processes.run(command, seconds=_SECONDS, stdin=json.dumps(told).encode())
    if ended.ok:
        return f"{len(told['changes'])} changes were handed to {command[0]}"
    why = "did not end in time" if ended.timed_out else processes.describe_exit(ended.code)
    return f"--notify {command[0]}: {why}: {ended.errors.strip()[-300:]}; the night's verdict stands"
