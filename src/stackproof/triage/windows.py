"""A stream of bytes of any length, in windows of bounded size that are cut at the ends of lines."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

CHUNK = 1 << 20
BEHIND = 1 << 14
AHEAD = 1 << 17
GZIP = b"\x1f\x8b"
_COMPRESSED = 1 << 16


class Readable(Protocol):
    """What bytes come from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        ...


@dataclass(frozen=True)
class Window:
    """A part of a log: `data[start:end]` is this window's own, the rest is what lies around it."""

    data: bytes
    start: int
    end: int
    offset: int
    """Where `data` begins in the log, in bytes."""
    line: int
    """The number of the line, from 1, in which `start` lies."""
    last: bool


def windows(stream: Readable) -> Iterator[Window]:
    """Yield the whole stream; a line longer than a window is cut, every other one lies in one window."""
    data, start, offset, line, last = b"", 0, 0, 1, False
    while not last:
        chunk = stream.read(CHUNK)
        last = not chunk
        data += chunk
        end = len(data) if last else _cut(data, start)
        if end > start or last:
            yield Window(data, start, end, offset, line, last)
            line += data.count(b"\n", start, end)
            kept = max(0, end - BEHIND)
            data, start, offset = data[kept:], end - kept, offset + kept


def _cut(data: bytes, start: int) -> int:
    """Return where the window ends: after a line with enough behind it, or within one that is too long."""
    limit = len(data) - AHEAD
    newline = data.rfind(b"\n", start, max(start, limit))
    if newline >= 0:
        return newline + 1
    return limit if limit - start >= CHUNK else start


class Unzipped:
    """A gzip stream that gives what it can: one that is cut short or damaged ends there, and `damage` says so."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._rest = b""
        self._member = zlib.decompressobj(wbits=31)
        self.damage = ""
        self._over = False

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes of text, however much a few compressed bytes stand for."""
        while not self._over:
            self._rest = self._rest or self._stream.read(_COMPRESSED)
            exhausted = not self._rest
            if text := self._decompress(size):
                return text
            if exhausted:
                self._finish("" if self._member.eof else "is cut short")
        return b""

    def _decompress(self, size: int) -> bytes:
        if self._member.eof and not self._begins_member():
            return b""
        try:
            text = self._member.decompress(self._rest, size)
        except zlib.error as error:
            self._finish(f"is damaged ({error})")
            return b""
        self._rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return text

    def _begins_member(self) -> bool:
        """Go on with a further member, as concatenated files have; padding of zeros is no member."""
        self._rest = self._rest.lstrip(b"\0")
        if not self._rest:
            return False
        if not GZIP.startswith(self._rest[:2]):
            self._finish("has bytes after its end")
            return False
        self._member = zlib.decompressobj(wbits=31)
        return True

    def _finish(self, damage: str) -> None:
        self._over, self.damage = True, damage
