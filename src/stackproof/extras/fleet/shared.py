"""Folders that processes share: that of a sweep, which may be slow, full or gone, and that of a host, in which its cards meet.

A record is written there or lies on its host, and is never lost. A card that is gone or hangs is waited for once, for the patience.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import Refusal, files
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
    why = ""
    for number in range(_TRIES):
        if number:
            time.sleep(pause_s)
        attempt = _tried(lambda: records.write(record, path), patience_s)
        if not attempt.done.is_set():
            why = f"{path}: nothing came back in {patience_s:.0f} s; the file server is slow or gone"
            break  # one more would wait as long, and two that wait would overtake each other
        if attempt.error is None:
            return path
        why = str(attempt.error)
        say(f"{why}; tried {number + 1} of {_TRIES} times")
    rescued = Path(tempfile.mkdtemp(prefix="stackproof-fleet-")) / path.name
    records.write(record, rescued)
    raise Refusal(f"{why}; the record lies on this host as {rescued}: copy it there, and judge again")


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


def mark_begun(path: Path, patience_s: float = _PATIENCE_S) -> str:
    """Say in the shared folder that this host has begun; return why that cannot be, which is no reason not to begin."""

    def touch() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    attempt = _tried(touch, patience_s)
    if not attempt.done.is_set():
        return f"{path}: nothing came back in {patience_s:.0f} s; the file server is slow or gone"
    return f"{path}: {attempt.error}" if attempt.error else ""


_COUNT, _TURN, _GONE = "cards", "turn", "gone"
_POLL_S = 0.05


def card_count(folder: Path) -> int:
    """Return how many cards the first one has found; 0 as long as it has not said so."""
    try:
        return int((folder / _COUNT).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def announce_end(folder: Path, card: int) -> None:
    """Say that a card's process has ended, however it did."""
    with contextlib.suppress(OSError):
        (folder / f"{_GONE}.{card}").touch()


@dataclass
class CardTurns:
    """One card among so many of its host."""

    folder: Path
    card: int
    count: int
    patience_s: float
    _absent: set[int] = field(default_factory=set)

    def announce(self) -> None:
        """Say how many cards there are, so that the others are started."""
        part = self.folder / f"{_COUNT}.part"
        part.write_text(str(self.count), encoding="ascii")
        part.replace(self.folder / _COUNT)

    def meet(self, point: str) -> None:
        """Wait until all cards are at this point."""
        (self.folder / f"{point}.{self.card}").touch()
        until = time.monotonic() + self.patience_s
        while self._missing(point) and time.monotonic() < until:
            time.sleep(_POLL_S)
        self._absent |= self._missing(point)

    def _missing(self, point: str) -> set[int]:
        return {
            card for card in set(range(self.count)) - self._absent
            if not (self.folder / f"{point}.{card}").exists() and not (self.folder / f"{_GONE}.{card}").exists()
        }  # fmt: skip

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only one that measures what shares the host."""
        with files.lock(self.folder / _TURN, self.patience_s) or contextlib.nullcontext():
            yield
