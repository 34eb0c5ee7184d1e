"""The terminal, a pipe or a file that people read: it may go away, or be full, and the run and its record must not mind."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

PIPE_CLOSED = 141
"""What shells give a program that wrote to a pipe nobody reads any more (128 and SIGPIPE)."""


_SILENCE_S, _LONGEST_SILENCE_S = 15.0, 120.0
"""So long nobody is left without a line; each reminder in a row doubles the wait for the next, up to the second."""
_GOES_ON = "still running, last line: "
_DECORATION = re.compile(r" \(\d+ s\)$|\x1b\[[0-9;]*m")
"""How long it took until then, and colours."""


class Outlet:
    """A stream to which writing never fails: after the first error nothing more is written, and `error` keeps it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None
        self.last, self.wrote = "", time.monotonic()

    def write(self, text: str) -> int:
        """Write, or note why it cannot be."""
        self.last, self.wrote = text.strip() or self.last, time.monotonic()
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush, or note why it cannot be."""
        self._try(self._stream.flush)

    def _try(self, call: Any, *words: str) -> None:
        if self.error:
            return
        try:
            call(*words)
        except OSError as error:
            self.error = error
            # What is buffered must not fail once more as Python ends.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def outlets() -> Iterator[Outlet]:
    """Put outlets in place of stdout and stderr inside the block, also where one was closed before the start; yield that of stdout."""
    before = sys.stdout, sys.stderr
    out, err = (Outlet(stream or open(os.devnull, "w", encoding="utf-8")) for stream in before)  # noqa: SIM115, PTH123
    sys.stdout, sys.stderr = out, err
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before


@contextmanager
def reminded() -> Iterator[None]:
    """Repeat the last line on stderr whenever nothing was written for a while: who waits must know that it goes on."""
    over, began = threading.Event(), time.monotonic()
    out, err = sys.stdout, sys.stderr

    def remind() -> None:
        silence = _SILENCE_S
        while not over.wait(1.0):
            newest = max((each for each in (out, err) if isinstance(each, Outlet)), key=lambda each: each.wrote)
            silence = silence if newest.last.startswith(_GOES_ON) else _SILENCE_S
            if time.monotonic() - newest.wrote >= silence:
                silence = min(2 * silence, _LONGEST_SILENCE_S)
                last = newest.last.splitlines()[-1].removeprefix(_GOES_ON) if newest.last else "the start"
                err.write(f"{_GOES_ON}{_DECORATION.sub('', last)[:100]} ({time.monotonic() - began:.0f} s)\n")
                err.flush()

    threading.Thread(target=remind, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def ended(code: int, out: Outlet) -> int:
    """Return the exit code of a verb: 141 if nobody read on, and no pass for one whose last words could not be written."""
    out.flush()
    if out.error is None:
        return code
    if out.error.errno == errno.EPIPE:
        return PIPE_CLOSED
    text = f"stdout cannot be written ({out.error.strerror}); a record has all of a run, the rest is lost: make room, or write elsewhere"
    print(f"stackproof: {text}", file=sys.stderr)  # noqa: T201
    return code or 2
