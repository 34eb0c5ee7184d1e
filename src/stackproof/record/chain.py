"""A digest chain: what a record says of itself, of its logs and of its lock, so that an edit of any of them shows.

Who edits a record and computes its digest anew is not found by this; a signature of the file is for that.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.record import records
from stackproof.record.records import Record, sealed

RECORD = "record"
"""What the digest over the whole record is called among its digests; the others are called as the logs are."""


def seal(record: Record, folder: Path) -> None:
    """Give a record the digests of its logs in this folder, then its own."""
    found = {log: file_digest(folder / log) for log in record.logs if (folder / log).is_file()}
    record.digests = {**found, RECORD: "0" * 64}
    record.digests[RECORD] = json.loads(record.as_json())["digests"][RECORD]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    whole = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            whole.update(part)
    return whole.hexdigest()


def whole(path: Path) -> Record:
    """Return the record in a file, if it and the logs beside it are what was written.

    Raises:
        Refusal: it is no record or no evidence, or one of its logs was edited.
    """
    record = records.read(path)
    if said := next(broken_logs(record, path.parent), None):
        raise Refusal(f"{path}: {said}; it is no evidence, so run again")
    return record


def _within(home: Path, name: str) -> Path | None:
    """Return where a log lies; nothing where that is outside of the record's folder, by its name or by a link.

    Records of `watch` once had its whole path, and were moved or copied since: it lies beside them or is absent.
    """
    try:
        path = (home / (Path(name).name if Path(name).is_absolute() else name)).resolve()
    except (OSError, ValueError, RuntimeError):  # too long, a zero byte, a loop of links
        return None
    return path if path.is_relative_to(home) else None


def edited(found: dict[str, Any]) -> str:
    """Say that a parsed record is not the one that was sealed, or nothing; one that never was sealed says nothing."""
    said = found.get("digests", {}).get(RECORD)
    if said is None or said == sealed(found):
        return ""
    return f"it was edited after it was written (its digest is {sealed(found)[:12]}, it says {said[:12]})"


def broken_logs(record: Record, folder: Path) -> Iterator[str]:
    """Yield a sentence for each log in a record's folder that is not the one that it was written with; a log may be absent.

    What lies elsewhere is no log of it, and is not opened.
    """
    home = folder.resolve()
    for name, said in record.digests.items():
        if name == RECORD:
            continue
        path = _within(home, name)
        if path is None:
            yield f"it names a log outside of its folder, '{plain(name, 60)}'"
        elif os.path.isfile(path) and file_digest(path) != said:  # noqa: PTH113 - false also for a name that no file can have
            yield f"its log {name} was edited after the run (the record has {said[:12]} for it)"
