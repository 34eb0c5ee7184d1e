"""The journal of a bisection: JSON lines, one for each thing that was found out, so that a killed one goes on where it was.

Nothing else is kept: who goes on asks the same questions in the same order, and those that were answered are read and not run.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, files, plain
from stackproof.extras.bisect.journal_rows import fits

NAME = "journal.jsonl"
SCHEMA = "stackproof-bisect-1"
_NO_JOURNAL = "is no journal of `bisect`; name the journal.jsonl of the run to go on with"
Told = dict[str, Any]
"""What JSON can say."""


class Journal:
    """What is known, by key, and the file that it is appended to."""

    def __init__(self, path: Path, about: Mapping[str, str]) -> None:
        """Open a journal, or begin it.

        Args:
            path: the file.
            about: what is being searched; a journal of something else is refused.

        Raises:
            Refusal: the file cannot be used, is damaged, or is of another search.
        """
        self.path = path
        self.known: dict[str, Told] = {}
        if path.exists() and not path.is_file():
            raise Refusal(f"{path}: {_NO_JOURNAL}")
        self.resumed = path.exists() and path.stat().st_size > 0
        if self.resumed:
            self.known = _read(path, about)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"schema": SCHEMA, **about})

    def once(self, key: str, find_out: Callable[[], Told]) -> Told:
        """Return what is known under a key, or find it out and keep it."""
        if key not in self.known:
            found = find_out()
            self._append({"key": key, "told": found})
            self.known[key] = found
        return self.known[key]

    def _append(self, row: Told) -> None:
        """Add a row; none where the disk is full, because what was found out on it may say so and nothing else."""
        try:
            if files.is_full(self.path.parent):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row, sort_keys=True) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise Refusal(
                f"{self.path}: cannot be written ({error.strerror}); make room, or write elsewhere with --results"
            ) from error


def _read(path: Path, about: Mapping[str, str]) -> dict[str, Told]:
    """Return what a journal holds; a last line that was cut short by a kill, or by a full disk, is taken off the file."""
    data = files.read_bytes(path, "name a journal that `bisect` has written")
    whole, _, torn = data.rpartition(b"\n")
    rows = [_row(path, number, line) for number, line in enumerate(whole.splitlines(), 1)]
    begun = rows[0] if rows else {}
    if begun.get("schema") != SCHEMA:
        raise Refusal(f"{path}: {_NO_JOURNAL}")
    if other := next((name for name, value in about.items() if begun.get(name) != value), ""):
        raise Refusal(
            f"{path}: is of another search: its {other} is '{begun.get(other, '')}', here it is '{about[other]}'; "
            "repeat its command, or begin anew without --continue"
        )
    known = {key: told for number, row in enumerate(rows[1:], 2) for key, told in [_said(path, number, row)]}
    if torn:
        _cut(path, len(data) - len(torn))
    return known


def _said(path: Path, number: int, row: Told) -> tuple[str, Told]:
    """Return key and what is told of it; one that no bisection writes is refused, because whatever it says would be believed."""
    key, told = row.get("key"), row.get("told")
    if set(row) != {"key", "told"} or not isinstance(key, str) or not isinstance(told, dict) or not fits(key, told):
        raise Refusal(
            f"{path}:{number}: is nothing that `bisect` writes ({plain(json.dumps(row), most=120, lines=False)}); the file was left as it "
            "is: mend or take out that line, or begin anew without --continue"
        )
    return key, told


def _row(path: Path, number: int, line: bytes) -> Told:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{path}:{number}: is damaged ({error}); begin anew without --continue") from error
    return found if isinstance(found, dict) else {}


def _cut(path: Path, size: int) -> None:
    try:
        os.truncate(path, size)
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); make it writable to go on with it") from error
