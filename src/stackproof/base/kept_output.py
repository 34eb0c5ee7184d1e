"""The output of a program, as much of it as is worth keeping: head and tail, whatever it prints, for as long as it runs.

It is read from a pipe and never goes to the disk by itself: a disk that is full is our trouble, and not the program's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from stackproof.base.errors import Refusal

HEAD = TAIL = 1 << 20
"""Bytes of the beginning and of the end that are kept, unless somebody reads further back."""
_CHUNK = 1 << 16
_LAST_S = 5.0
"""How long after the end a process that nobody could end may keep the output open."""


@contextmanager
def kept(path: Path, tail: int = TAIL) -> Iterator[IO[bytes]]:
    """Yield where a program writes to; behind the block, when all of its processes have ended, the file has head and tail of it.

    Raises:
        Refusal: the file cannot be written.
    """
    try:
        file = path.open("wb", buffering=0)
    except OSError as error:
        raise _unkept(path, error) from error
    source, target = os.pipe()
    with file, os.fdopen(target, "wb", buffering=0) as writable:
        copy = _Copy(source, file, tail)
        try:
            yield writable
        finally:
            writable.close()
            copy.join(_LAST_S)
            copy.finish()
    if copy.error:
        raise _unkept(path, copy.error) from copy.error


def _unkept(path: Path, error: OSError) -> Refusal:
    return Refusal(f"{path}: the output of a program cannot be kept ({error.strerror}); make room, then run it again")


class _Copy(threading.Thread):
    """Reads a pipe to its end: the head goes to the file as it comes, of the rest the end is held."""

    def __init__(self, source: int, file: IO[bytes], tail: int) -> None:
        super().__init__(daemon=True)
        self.error: OSError | None = None
        self._source, self._file, self._most = source, file, tail
        self._written = self._left_out = 0
        self._tail, self._ended = bytearray(), False
        self.start()

    def run(self) -> None:
        """Read on whatever happens: a program must never wait for us."""
        with os.fdopen(self._source, "rb", buffering=0) as stream:
            while (chunk := stream.read(_CHUNK)) and not self._ended:
                head = chunk[: max(0, HEAD - self._written)]
                self._write(head)
                self._hold(chunk[len(head) :])

    def _write(self, chunk: bytes) -> None:
        self._written += len(chunk)
        try:
            while chunk and self.error is None:
                chunk = chunk[self._file.write(chunk) :]
        except OSError as error:
            self.error = error

    def _hold(self, chunk: bytes) -> None:
        self._tail += chunk
        if len(self._tail) > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        cut = max(0, len(self._tail) - self._most)
        self._left_out += cut
        del self._tail[:cut]

    def finish(self) -> None:
        """Add the end to the head, and say between them how much was left out."""
        self._ended = True
        self._cut()
        if self._left_out:
            self._write(f"\n[{self._left_out} bytes left out]\n".encode())
        self._write(bytes(self._tail))
