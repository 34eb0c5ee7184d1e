"""Cards of one host side by side: they meet where all must be quiet, and take turns in what shares the host. Files are all that it needs.

A card that is gone or hangs is not waited for longer than the patience, once; then the others go on without it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import files

_COUNT, _TURN, _GONE = "cards", "turn", "gone"
_POLL_S = 0.05


def counted(folder: Path) -> int:
    """Return how many cards the first one has told of; 0 as long as it has not."""
    try:
        return int((folder / _COUNT).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def leave(folder: Path, card: int) -> None:
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

    def tell(self) -> None:
        """Say how many cards there are, so that the others are started."""
        part = self.folder / f"{_COUNT}.part"
        part.write_text(str(self.count), encoding="ascii")
        part.replace(self.folder / _COUNT)

    def meet(self, point: str) -> None:
        """Wait until all cards are at this point."""
        (self.folder / f"{point}.{self.card}").touch()
        _until(lambda: not self._missing(point), self.patience_s)
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


def _until(reached: Callable[[], bool], patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while not reached() and time.monotonic() < until:
        time.sleep(_POLL_S)
