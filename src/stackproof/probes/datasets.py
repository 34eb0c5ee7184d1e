"""Looks through a training set for what should not be in it: unfilled placeholders, empty, over-long and repeated samples.

The rules are data: `data/data_rules.toml`. Any bytes can be read: a JSON list or one JSON object, which is held in memory, and JSON Lines
a line at a time; what cannot be read becomes a defect with its line.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.files import try_parse_json
from stackproof.base.text import first_line
from stackproof.base.toml import Key, kept

RULES = DATA / "data_rules.toml"
MOST = 1000
"""Findings that `examine` returns at most; a file that is wrong throughout is not listed throughout."""
_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_SHOWN = 60
_DECODER = json.JSONDecoder(strict=False)


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
class DataRules:
    """All rules of the file."""

    lengths: Lengths
    filled: Mapping[str, str]
    """For each field that must not be empty, the field that excuses it."""
    patterns: Annotated[tuple[Pattern, ...], Key("pattern")]


rules = kept(RULES, DataRules)


def examine(path: Path | str, most: int = MOST) -> list[Defect]:
    """Return what is wrong with the training set, in the order of the file; an empty list says that nothing was found.

    After `most` findings it stops, and the last one says so.

    Raises:
        Refusal: the file cannot be read at all.
    """
    try:
        with Path(path).open("rb") as stream:
            defects = list(islice(_findings(stream), most + 1))
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror}); give a file of JSON or JSON Lines") from error
    if len(defects) > most:
        sentence = f"there is more after {most} findings; it is not listed"
        defects[most:] = [Defect(defects[most - 1].line, defects[most - 1].record, "", "more", sentence)]
    return defects


def _findings(stream: BinaryIO) -> Iterator[Defect]:
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
    characters, limit = 0, rules().lengths.longest_characters
    for field, value, beside in _leaves(record.value):
        yield from _in_field(record, field, value, beside)
        characters += len(value) if isinstance(value, str) else 0
    if characters > limit:
        sentence = f"has {characters} characters, more than {limit}: its end would be cut off"
        yield record.finding("", "over-long", sentence)


def _leaves(sample: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Go through a sample: strings, plain values and lists of tokens, each with its path and the fields beside it."""
    stack: list[tuple[str, Any, dict[str, Any]]] = [("", sample, {})]
    while stack:
        here, value, beside = stack.pop()
        if isinstance(value, dict) and value:
            stack += [(f"{here}.{key}".lstrip("."), inner, value) for key, inner in reversed(value.items())]
        elif isinstance(value, list) and value and type(value[0]) is not int:  # a list of tokens is one value
            stack += [(f"{here}[{at}]", value[at], beside) for at in range(len(value) - 1, -1, -1)]
        else:
            yield here, value, beside


def _in_field(record: DataSample, field: str, value: Any, beside: dict[str, Any]) -> Iterator[Defect]:
    name, limit = re.sub(r"\[\d+\]$", "", field).rpartition(".")[2], rules().lengths.longest_tokens
    if _empty(value):
        excuse = rules().filled.get(name)
        if excuse is not None and _empty(beside.get(excuse)):
            yield record.finding(field, "empty", f"'{name}' is empty: {shown(value)}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield record.finding(field, "no value", f"'{name}' is the number {value}")
    elif isinstance(value, list) and len(value) > limit:
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
        named = {"line": self.line, "record": self.record, "": self.field}
        return f"{', '.join(f'{name} {at}'.strip() for name, at in named.items() if at) or 'file'}: {self.sentence}"


@dataclass(frozen=True)
class DataSample:
    """One sample, and the line of a file of JSON Lines that it is."""

    line: int
    number: int
    value: Any

    def finding(self, field: str, rule: str, sentence: str) -> Defect:
        return Defect(self.line, self.number, field, rule, sentence)


def records(stream: BinaryIO) -> Iterator[DataSample | Defect]:
    """Read a JSON list, one JSON object over several lines, or one JSON value a line, by what the file begins with."""
    body = stream.read(_CHUNK).removeprefix(_BOM).lstrip()
    stream.seek(0)
    first, _, later = (part.strip() for part in body.partition(b"\n"))
    values_by_line = bool(later) and try_parse_json(first) is not None
    is_list = body[:1] == b"[" and not (values_by_line and first.endswith(b"]"))
    is_object = body[:1] == b"{" and bool(later) and later[:1] != b"{" and not values_by_line
    return _in_one_value(stream) if is_list or is_object else _lines(stream)


def _lines(stream: BinaryIO) -> Iterator[DataSample | Defect]:
    number = 0
    for line, raw in enumerate(stream, 1):
        if not raw.strip():
            continue
        number += 1
        text, damage = _decoded(raw)
        if damage:
            yield Defect(line, number, "", "encoding", damage)
        try:
            yield DataSample(line, number, _DECODER.decode(text))
        except (ValueError, RecursionError) as error:
            yield Defect(line, number, "", "unreadable", f"is not JSON: {first_line(error, 120)}: {shown(text)}")


def _in_one_value(stream: BinaryIO) -> Iterator[DataSample | Defect]:
    """Yield the members of the one list that the file is, or its one object; the whole file is in memory."""
    text, damage = _decoded(stream.read())
    if damage:
        yield Defect(0, 0, "", "encoding", damage)
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        sentence = f"is not JSON ({first_line(error, 120)}); nothing of it was examined: {shown(text)}"
        yield Defect(0, 0, "", "unreadable", sentence)
        return
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        yield DataSample(0, number, item)


def _decoded(raw: bytes) -> tuple[str, str]:
    try:
        return raw.removeprefix(_BOM).decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return raw.decode("utf-8", errors="replace"), f"is not UTF-8 at byte {error.start}: {error.reason}"


def shown(value: Any) -> str:
    """Show the beginning of anything as one line of printable text."""
    text = ascii(value[: 2 * _SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
