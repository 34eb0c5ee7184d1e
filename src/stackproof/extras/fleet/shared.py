"""Writing to a folder that hosts share, which may be slow, full, stale or gone: tried again, given up in time, and never lost."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import Refusal
from stackproof.api.record import Record, records

_TRIES = 3
_PAUSE_S = 5.0
_PATIENCE_S = 60.0
"""So long one write may take: a file server that is gone answers never, and a process that waits for it cannot be ended."""


@dataclass
class _Attempt:
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


def keep(
    record: Record, path: Path, say: Callable[[str], None], patience_s: float = _PATIENCE_S, pause_s: float = _PAUSE_S
) -> Path:
    """Write a record where all hosts write; if that cannot be, into a folder of this host.

    Raises:
        Refusal: it lies on this host only; the sentence says where, and why.
    """
    said = ""
    for number in range(_TRIES):
        if number:
            time.sleep(pause_s)
        attempt = _tried(lambda: records.write(record, path), patience_s)
        if not attempt.done.is_set():
            said = f"{path}: nothing came back in {patience_s:.0f} s; the file server is slow or gone"
            break  # one more would wait as long, and two that wait would overtake each other
        if attempt.error is None:
            return path
        said = str(attempt.error)
        say(f"{said}; tried {number + 1} of {_TRIES} times")
    raise Refusal(f"{said}; {_rescued(record, path)}")


def _rescued(record: Record, path: Path) -> str:
    place = Path(tempfile.mkdtemp(prefix="stackproof-fleet-"))
    records.write(record, place / path.name)
    return f"the record lies on this host as {place / path.name}: copy it there, and judge again"


def _tried(write: Callable[[], None], patience_s: float) -> _Attempt:
    """Write in a thread that may be left behind."""
    attempt = _Attempt()

    def run() -> None:
        try:
            write()
        except (OSError, Refusal) as error:
            attempt.error = error
        attempt.done.set()

    threading.Thread(target=run, daemon=True).start()
    attempt.done.wait(patience_s)
    return attempt


def mark(path: Path, patience_s: float = _PATIENCE_S) -> str:
    """Say in the shared folder that this host has begun; return why that cannot be, which is no reason not to begin."""

    def touch() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    attempt = _tried(touch, patience_s)
    if not attempt.done.is_set():
        return f"{path}: nothing came back in {patience_s:.0f} s; the file server is slow or gone"
    return f"{path}: {attempt.error}" if attempt.error else ""
