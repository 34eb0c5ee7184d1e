"""Looks through a training set for what should not be in it: unfilled placeholders, empty, over-long and repeated samples.

The rules are data: `data/data_rules.toml`. It is read one sample at a time, whatever bytes it holds: JSON lists, one JSON object, JSON
Lines; what cannot be read becomes a defect with its line, and only a window of the file is in memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.files import try_parse_json
from stackproof.base.text import first_line
from stackproof.base.toml import Key, Table

RULES = DATA / "data_rules.toml"
MOST = 1000
"""Findings that `examine` returns at most; a file that is wrong throughout is not listed throughout."""
_CHUNK = 1 << 20
_LONGEST_RECORD = 64 << 20
_SHOWN = 60
_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Pattern:
    """Text that must not be in any field; `finds` and `leaves` are an example and a counter-example."""

    name: str
    expression: re.Pattern[str]
    finds: str
    leaves: str
    reason: str


@dataclass(frozen=True)
class Lengths:
    """The most that a sample may have."""

    longest_tokens: int
    longest_characters: int


@dataclass(frozen=True)
class Filled:
    """A field that must not be empty, unless another one is there."""

    field: str
    unless: str = ""


@dataclass(frozen=True)
class DataRules:
    """All rules of the file."""

    lengths: Lengths
    filled: tuple[Filled, ...]
    patterns: Annotated[tuple[Pattern, ...], Key("pattern")]

    @cached_property
    def unless(self) -> dict[str, str]:
        """For each field that must not be empty, the field that excuses it."""
        return {row.field: row.unless for row in self.filled}


@cache
def rules() -> DataRules:
    """Load the rules once."""
    return Table.load(RULES).row(DataRules)


def examine(path: Path | str, most: int = MOST) -> list[Defect]:
    """Return what is wrong with the training set, in the order of the file; an empty list says that nothing was found.

    After `most` findings it stops, and the last one says so.

    Raises:
        Refusal: the file cannot be read at all.
    """
    found = list(islice(findings(Path(path)), most + 1))
    if len(found) > most:
        last = found[most - 1]
        found[most:] = [
            Defect(last.line, last.record, "", "more", f"there is more after {most} findings; it is not listed")
        ]
    return found


def findings(path: Path) -> Iterator[Defect]:
    """Yield what is wrong as it is found; memory grows by 100 bytes a sample, to know a repeated one again."""
    try:
        with path.open("rb") as stream:
            yield from _in_stream(stream)
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror}); give a file of JSON or JSON Lines") from error


def _in_stream(stream: BinaryIO) -> Iterator[Defect]:
    seen: dict[bytes, int] = {}
    count = 0
    for item in records(stream):
        if isinstance(item, Defect):
            yield item
            continue
        count += 1
        yield from _in_record(item)
        yield from _repeated(item, seen)
    if not count:
        yield Defect(0, 0, "", "empty", "the file holds no sample")


def _in_record(record: DataSample) -> Iterator[Defect]:
    if not isinstance(record.value, (dict, list, str)) or not record.value:
        yield record.finding("", "empty", f"is no sample: {shown(record.value)}")
        return
    characters = 0
    for field, value, beside in _leaves(record.value, "", {}):
        yield from _in_field(record, field, value, beside)
        characters += len(value) if isinstance(value, str) else 0
    if characters > rules().lengths.longest_characters:
        limit = rules().lengths.longest_characters
        yield record.finding(
            "", "over-long", f"has {characters} characters, more than {limit}: its end would be cut off"
        )


def _leaves(value: Any, path: str, beside: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Go through a sample: strings, plain values and lists of tokens, each with its path and the fields beside it."""
    stack = [(path, value, beside)]
    while stack:
        here, value, beside = stack.pop()
        if isinstance(value, dict) and value:
            stack += [(f"{here}.{key}".lstrip("."), inner, value) for key, inner in reversed(value.items())]
        elif isinstance(value, list) and value and type(value[0]) is not int:  # a list of tokens is one value
            stack += [(f"{here}[{at}]", value[at], beside) for at in range(len(value) - 1, -1, -1)]
        else:
            yield here, value, beside


def _in_field(record: DataSample, field: str, value: Any, beside: dict[str, Any]) -> Iterator[Defect]:
    name = re.sub(r"\[\d+\]$", "", field).rpartition(".")[2]
    if _empty(value):
        excuse = rules().unless.get(name)
        if excuse is not None and _empty(beside.get(excuse)):
            yield record.finding(field, "empty", f"'{name}' is empty: {shown(value)}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield record.finding(field, "no value", f"'{name}' is the number {value}")
    elif isinstance(value, list) and len(value) > rules().lengths.longest_tokens:
        limit = rules().lengths.longest_tokens
        yield record.finding(field, "over-long", f"'{name}' has {len(value)} tokens, more than {limit}")
    elif isinstance(value, str):
        yield from _in_text(record, field, value)


def _empty(value: Any) -> bool:
    return value is None or (
        isinstance(value, (str, list, dict)) and not (value.strip() if isinstance(value, str) else value)
    )


def _in_text(record: DataSample, field: str, text: str) -> Iterator[Defect]:
    for pattern in rules().patterns:
        if hit := pattern.expression.search(text):
            sentence = f"{pattern.name} {shown(hit.group().strip())}: {pattern.reason}"
            yield record.finding(field, pattern.name, sentence)


def _repeated(record: DataSample, seen: dict[bytes, int]) -> Iterator[Defect]:
    """Know a sample again by a digest of its content, whatever the order of its fields and the space in it."""
    try:
        plain = json.dumps(record.value, sort_keys=True)
    except RecursionError:
        return
    digest = hashlib.blake2b(" ".join(plain.split()).encode(), digest_size=16).digest()
    first = seen.setdefault(digest, record.number)
    if first != record.number:
        yield record.finding("", "repeated", f"is the same sample as record {first}")


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
    if text[:1] == b"[" and not (first.endswith(b"]") and try_parse_json(first) is not None and later):
        return _listed(stream, head)
    if text[:1] == b"{" and later and later[:1] != b"{" and try_parse_json(first) is None:
        return _whole(stream, head)
    return _lines(stream, head)


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
            yield DataSample(line, number, _DECODER.decode(text))
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
