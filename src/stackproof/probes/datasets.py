"""Looks through a training set for what should not be in it: unfilled placeholders, empty, over-long and repeated samples.

The rules are data: `data/data_rules.toml`.
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
from stackproof.base.toml import Key, Table
from stackproof.probes.samplefiles import DataSample, Defect, records, shown

RULES = DATA / "data_rules.toml"
MOST = 1000
"""Findings that `examine` returns at most; a file that is wrong throughout is not listed throughout."""


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
        elif isinstance(value, list) and value and not _tokens(value):
            stack += [(f"{here}[{at}]", value[at], beside) for at in range(len(value) - 1, -1, -1)]
        else:
            yield here, value, beside


def _tokens(value: Any) -> bool:
    return isinstance(value, list) and type(value[0]) is int


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
