"""Reads training sets one record at a time, whatever bytes they hold: JSON lists, one JSON object, JSON Lines.

What cannot be read becomes a defect with its line; only a window of the file is in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from stackproof.base.text import first_line

_CHUNK = 1 << 20
_LONGEST_RECORD = 64 << 20
_SHOWN = 60


@dataclass(frozen=True)
class Defect:
    """One thing that is wrong: where (line and record count from 1, 0 is the file), in which field, by which rule."""

    line: int
    record: int
    field: str
    rule: str
    sentence: str

    def __str__(self) -> str:
        place = (
            f"line {self.line}, record {self.record}" if self.record else f"line {self.line}" if self.line else "file"
        )
        return f"{place}{f', {self.field}' if self.field else ''}: {self.sentence}"


@dataclass(frozen=True)
class DataSample:
    """One sample and where it begins."""

    line: int
    number: int
    value: Any

    def finding(self, field: str, rule: str, sentence: str) -> Defect:
        """Make a finding in this record."""
        return Defect(self.line, self.number, field, rule, sentence)


def records(stream: BinaryIO) -> Iterator[DataSample | Defect]:
    """Read a JSON list, one JSON object over several lines, or one JSON value a line, by what the file begins with."""
    head = stream.read(_CHUNK).removeprefix(b"\xef\xbb\xbf")
    text = head.lstrip()
    first, _, later = (part.strip() for part in text.partition(b"\n"))
    if text[:1] == b"[" and not (first.endswith(b"]") and _parses(first) and later):
        return _listed(stream, head)
    if text[:1] == b"{" and later and later[:1] != b"{" and not _parses(first):
        return _whole(stream, head)
    return _lines(stream, head)


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _lines(stream: BinaryIO, head: bytes) -> Iterator[DataSample | Defect]:
    number = 0
    for line, raw in enumerate(_split(stream, head), 1):
        if not raw.strip():
            continue
        number += 1
        if len(raw) > _LONGEST_RECORD:
            yield Defect(line, number, "", "unreadable", f"the line is longer than {_LONGEST_RECORD} bytes")
            continue
        text, damage = _decoded(raw)
        if damage:
            yield Defect(line, number, "", "encoding", damage)
        try:
            yield DataSample(line, number, json.loads(text, strict=False))
        except (ValueError, RecursionError) as error:
            yield Defect(line, number, "", "unreadable", f"is not JSON: {first_line(error, 120)}: {shown(text)}")


def _split(stream: BinaryIO, head: bytes) -> Iterator[bytes]:
    """Yield lines; of one that is too long only the beginning, one byte longer than allowed."""
    rest = head
    while True:
        more = stream.read(_CHUNK)
        *lines, rest = (rest + more).split(b"\n")
        yield from lines
        if not more:
            yield rest
            return
        if len(rest) > _LONGEST_RECORD:
            tail = _skip_line(stream)
            yield rest[: _LONGEST_RECORD + 1]
            rest = tail


def _skip_line(stream: BinaryIO) -> bytes:
    """Read on to the end of a line; return what was read beyond it."""
    while more := stream.read(_CHUNK):
        if b"\n" in more:
            return more.split(b"\n", 1)[1]
    return b""


def _listed(stream: BinaryIO, head: bytes) -> Iterator[DataSample | Defect]:
    """Yield the members of one JSON list without holding the list."""
    source = _Text(stream, head)
    source.skip("[")
    number = 0
    while (following := source.skip(",")) not in ("]", ""):
        number += 1
        line = source.line
        try:
            value = source.value()
        except (ValueError, RecursionError) as error:
            sentence = f"is not JSON ({first_line(error, 120)}); nothing after it was examined: {shown(source.ahead)}"
            yield Defect(line, number, "", "unreadable", sentence)
            return
        yield DataSample(line, number, value)
    if following != "]":
        yield Defect(source.line, 0, "", "unreadable", "the list is not closed; the file was cut off")
    yield from _remains(source, "]")


def _remains(source: _Text, mark: str) -> Iterator[Defect]:
    """Tell what follows the last value, which nobody examined, and bytes that were no text."""
    if source.skip(mark):
        sentence = f"nothing after the end was examined: {shown(source.ahead)}"
        yield Defect(source.line, 0, "", "unreadable", sentence)
    if source.damage:
        yield Defect(0, 0, "", "encoding", source.damage)


def _whole(stream: BinaryIO, head: bytes) -> Iterator[DataSample | Defect]:
    """Yield the one object that the file is."""
    source = _Text(stream, head)
    source.skip("")
    try:
        yield DataSample(source.line, 1, source.value())
    except (ValueError, RecursionError) as error:
        yield Defect(source.line, 1, "", "unreadable", f"is not JSON ({first_line(error, 120)}): {shown(source.ahead)}")
        return
    yield from _remains(source, "")


class _Text:
    """Text of which only a window is in memory; it grows twofold while a value does not end in it."""

    def __init__(self, stream: BinaryIO, head: bytes) -> None:
        self._stream, self._bytes, self._text, self._at = stream, head, "", 0
        self.line, self.damage, self._ended = 1, "", False
        self._take(b"")

    @property
    def ahead(self) -> str:
        """What comes next."""
        return self._text[self._at : self._at + 2 * _SHOWN]

    def skip(self, mark: str) -> str:
        """Skip space, the mark and space again; return the character after it, or nothing at the end."""
        self._space()
        if mark and self._text.startswith(mark, self._at):
            self._at += 1
            self._space()
        return self._text[self._at : self._at + 1]

    def value(self) -> Any:
        """Decode the value that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                if end < len(self._text) or self._ended:
                    break
            except (ValueError, RecursionError):
                if self._ended or len(self._text) - self._at > _LONGEST_RECORD:
                    raise
            self._grow()
        self.line += self._text.count("\n", self._at, end)
        self._at = end
        return value

    def _space(self) -> None:
        while True:
            here = _SPACE.match(self._text, self._at)
            end = here.end() if here else self._at
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            if end < len(self._text) or self._ended:
                return
            self._grow()

    def _grow(self) -> None:
        self._take(self._stream.read(max(_CHUNK, len(self._text) - self._at)))

    def _take(self, more: bytes) -> None:
        """Add bytes, keeping back a character that is not complete, and drop what was read."""
        self._ended = not more and bool(self._text or not self._bytes)
        self._bytes += more
        end = len(self._bytes) if self._ended else _whole_characters(self._bytes)
        text, damage = _decoded(self._bytes[:end])
        self._bytes, self.damage = self._bytes[end:], self.damage or damage
        self._text, self._at = self._text[self._at :] + text, 0


_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n]*")


def _whole_characters(raw: bytes) -> int:
    """Return how many bytes end with a complete UTF-8 character."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(raw) - back if needs > back else len(raw)
        if byte < 0x80:
            break
    return len(raw)


def _decoded(raw: bytes) -> tuple[str, str]:
    try:
        return raw.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return raw.decode("utf-8", errors="replace"), f"is not UTF-8 at byte {error.start}: {error.reason}"


def shown(value: Any) -> str:
    """Show the beginning of anything as one line of printable text."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
