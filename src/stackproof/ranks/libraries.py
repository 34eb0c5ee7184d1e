"""Libraries of collectives as data: `data/libraries.toml` says whose tensors they take and how their logs word things."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated

from stackproof import DATA
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import Key, Table, Wrong, expression

LIBRARIES = DATA / "libraries.toml"


_Pattern = Annotated[re.Pattern[str], expression(re.MULTILINE)]


@dataclass(frozen=True)
class LogPattern:
    """Something that a log tells: a pattern with a group `value`; `many` collects all distinct values."""

    name: str
    pattern: _Pattern
    many: bool = False

    def __post_init__(self) -> None:
        if "value" not in self.pattern.groupindex:
            raise Wrong("pattern", "has no group 'value'; write (?P<value>...) round what the fact is")


@dataclass(frozen=True)
class Requested:
    """A variable that was asked for, and what of the log denies it: `seen`, or another value of `fact`."""

    asked: str
    value: _Pattern
    sentence: str
    seen: _Pattern | None = None
    fact: str = ""

    def __post_init__(self) -> None:
        if bool(self.seen) == bool(self.fact):
            raise Wrong("seen", "or 'fact' is needed, and not both: what of the log denies what was asked")


@dataclass(frozen=True)
class Wording:
    """A pattern of the log, and a sentence for people; `{seen}` is what matched."""

    pattern: _Pattern
    sentence: str
    symptom: bool = False
    """Whether it only follows from what happened on another rank."""


@dataclass(frozen=True)
class Addition:
    """What a library adds to the list in a variable by itself, where `asked` has the value `value`: no contradiction."""

    asked: str
    value: str
    variable: str
    adds: str


@dataclass(frozen=True, kw_only=True)
class Library:
    """One library of collectives: the c10d backends that it serves, and what is known of its log."""

    name: str
    backends: tuple[str, ...]
    devices: tuple[str, ...]
    """Torch device types whose tensors it takes."""
    own_cards: bool
    """Whether it refuses two ranks on one card, unless `sharing_variable` is 1."""
    sharing_variable: str = ""
    device_id: bool = True
    """Whether a group is given the device of its rank as it forms."""
    finalise: bool = False
    """Whether a rank must leave by Python's own shutdown, because a launcher watches the library's farewell."""
    talk: Mapping[str, str] = field(default_factory=dict)
    silent: str = ""
    """Why there is no log to read, where there is none."""
    echo: _Pattern | None = None
    """How the log lists variables that are in effect: groups `name` and `value`."""
    additions: Annotated[tuple[Addition, ...], Key("addition")]
    facts: tuple[LogPattern, ...]
    contradictions: Annotated[tuple[Requested, ...], Key("contradiction")]
    warnings: Annotated[tuple[Wording, ...], Key("warning")]
    errors: Annotated[tuple[Wording, ...], Key("error")]

    def separates(self, environ: Mapping[str, str]) -> bool:
        """Whether every rank needs a card of its own under these variables."""
        return self.own_cards and environ.get(self.sharing_variable) != "1"


@cache
def libraries() -> tuple[Library, ...]:
    with Table.load(LIBRARIES) as table:
        return table.rows("library", Library)


def serving(backend: str) -> Library:
    """Return the library behind a c10d backend.

    Raises:
        Refusal: no row has it.
    """
    serving_library = next((library for library in libraries() if backend in library.backends), None)
    if serving_library is None:
        known = tuple(backend for library in libraries() for backend in library.backends)
        raise Refusal(f"{LIBRARIES}: no library has the backend '{backend}'{suggestion(backend, known)}; add a row")
    return serving_library


def finalises(backend: str) -> bool:
    """Whether a rank of this backend, known or not, must leave by Python's own shutdown."""
    return any(library.finalise for library in libraries() if backend in library.backends)


def explain(text: str) -> str:
    """Return what a rank's last words mean, as a sentence with the words that say so; nothing when no row knows them."""
    row, match = _known_error(text)
    return f"{row.sentence} ('{match.group()}')" if row and match else ""


def is_symptom(text: str) -> bool:
    """Whether a rank's last words say that another rank was lost, and nothing else."""
    row, _ = _known_error(text)
    return row is not None and row.symptom


def _known_error(text: str) -> tuple[Wording | None, re.Match[str] | None]:
    """Return the row that knows these words, and the last of them; causes go before what only follows from them."""
    rows = [row for library in libraries() for row in library.errors]
    for row in sorted(rows, key=lambda row: row.symptom):
        if matches := list(row.pattern.finditer(text)):
            return row, matches[-1]
    return None, None
