"""What a person sees while a run goes on; what stands at its end is in `summary`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from .plaintext import plain as plain
from .records import Check

_LOG_WIDTH = 150


def plain_console() -> Console:
    """Return a console as wide as the terminal; a log, which has no width, gets room for a sentence."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=_LOG_WIDTH)


class Terminal:
    """Shows a run as it goes: a live line on a terminal, one line a check in a log."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console()
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._done, self._total = 0, 0
        self._before: int | None = None

    @contextmanager
    def watching(self, title: str) -> Iterator[Terminal]:
        """Show progress inside the block."""
        self.console.print(Text(title, style="bold"))
        if not self.console.is_terminal:
            yield self
            return
        columns = (
            SpinnerColumn("line"),
            TextColumn("{task.description}"),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as self._progress:
            self._task = self._progress.add_task("starting the suite", total=None)
            yield self
        self._progress = None

    def collected(self, total: int) -> None:
        """Say how many checks there are."""
        self._before = self._done if self._before is None else self._before
        self._total = self._before + total
        if self._progress:
            self._progress.update(self._task, total=self._total)

    def started(self, identifier: str) -> None:
        """Say which check is running."""
        if self._progress:
            self._progress.update(self._task, description=escape(plain(identifier)))

    def finished(self, check: Check) -> None:
        """Say how a check ended."""
        self._done += 1
        if self._progress:
            self._progress.update(self._task, completed=self._done)
        else:
            of = f"/{self._total}" if self._total else ""
            self.console.print(
                Text(f"[{self._done}{of}] {check.verdict.value:<9} {check.seconds:6.1f} s  {plain(check.id)}")
            )
