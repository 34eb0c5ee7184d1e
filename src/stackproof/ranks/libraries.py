"""Libraries of collectives as data: `data/libraries.toml` says whose tensors they take and how their logs word things."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from stackproof import DATA
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import Table

LIBRARIES = DATA / "libraries.toml"


@dataclass(frozen=True)
class Fact:
    """Something that a log tells: a pattern with a group `value`; `many` collects all distinct values."""

    name: str
    pattern: re.Pattern[str]
    many: bool


@dataclass(frozen=True)
class Contradiction:
    """A variable that was asked for, and what of the log denies it: `seen`, or another value of `fact`."""

    asked: str
    value: re.Pattern[str]
    seen: re.Pattern[str] | None
    fact: str
    sentence: str


@dataclass(frozen=True)
class Wording:
    """A pattern of the log, and a sentence for people; `{seen}` is what matched."""

    pattern: re.Pattern[str]
    sentence: str
    symptom: bool = False
    """Whether it only follows from what happened on another rank."""


@dataclass(frozen=True)
class Library:
    """One library of collectives: the c10d backends that it serves, and what is known of its log."""

    name: str
    backends: tuple[str, ...]
    devices: tuple[str, ...]
    """Torch device types whose tensors it takes."""
    own_cards: bool
    """Whether it refuses two ranks on one card, unless `sharing_variable` is 1."""
    sharing_variable: str
    device_id: bool
    """Whether a group is given the device of its rank as it forms."""
    talk: Mapping[str, str]
    silent: str
    """Why there is no log to read, where there is none."""
    echo: re.Pattern[str] | None
    """How the log lists variables that are in effect: groups `name` and `value`."""
    facts: tuple[Fact, ...]
    contradictions: tuple[Contradiction, ...]
    warnings: tuple[Wording, ...]
    errors: tuple[Wording, ...]

    def separates(self, environ: Mapping[str, str]) -> bool:
        """Whether every rank needs a card of its own under these variables."""
        return self.own_cards and environ.get(self.sharing_variable) != "1"


@cache
def libraries() -> tuple[Library, ...]:
    """Load the table."""
    with Table.load(LIBRARIES) as table:
        return tuple(_library(row) for row in table.tables("library"))


def backends() -> tuple[str, ...]:
    """Return every c10d backend that a row is about."""
    return tuple(backend for library in libraries() for backend in library.backends)


def serving(backend: str) -> Library:
    """Return the library behind a c10d backend.

    Raises:
        Refusal: no row has it.
    """
    found = next((library for library in libraries() if backend in library.backends), None)
    if found is None:
        known = backends()
        raise Refusal(f"{LIBRARIES}: no library has the backend '{backend}'{suggestion(backend, known)}; add a row")
    return found


def explain(text: str) -> str:
    """Return what a rank's last words mean, as a sentence with the words that say so; nothing when no row knows them."""
    row, found = _known_error(text)
    return f"{row.sentence} ('{found.group()}')" if row and found else ""


def is_symptom(text: str) -> bool:
    """Whether a rank's last words say that another rank was lost, and nothing else."""
    row, _ = _known_error(text)
    return row is not None and row.symptom


def _known_error(text: str) -> tuple[Wording | None, re.Match[str] | None]:
    """Return the row that knows these words, and the last of them; causes go before what only follows from them."""
    rows = [row for library in libraries() for row in library.errors]
    for row in sorted(rows, key=lambda row: row.symptom):
        if found := list(row.pattern.finditer(text)):
            return row, found[-1]
    return None, None


def _library(table: Table) -> Library:
    with table:
        echo = table.take("echo", str, "")
        return Library(
            name=table.take("name", str),
            backends=table.strings("backends"),
            devices=table.strings("devices"),
            own_cards=table.take("own_cards", bool),
            sharing_variable=table.take("sharing_variable", str, ""),
            device_id=table.take("device_id", bool, True),
            talk=table.mapping("talk", {}),
            silent=table.take("silent", str, ""),
            echo=_pattern(table, "echo", echo) if echo else None,
            facts=tuple(_fact(row) for row in table.tables("facts")),
            contradictions=tuple(_contradiction(row) for row in table.tables("contradiction")),
            warnings=tuple(_wording(row) for row in table.tables("warning")),
            errors=tuple(_wording(row) for row in table.tables("error")),
        )


def _fact(table: Table) -> Fact:
    with table:
        pattern = _pattern(table, "pattern", table.take("pattern", str))
        if "value" not in pattern.groupindex:
            raise table.refuse("pattern", "has no group 'value'; write (?P<value>...) round what the fact is")
        return Fact(table.take("name", str), pattern, table.take("many", bool, False))


def _contradiction(table: Table) -> Contradiction:
    with table:
        seen, fact = table.take("seen", str, ""), table.take("fact", str, "")
        if bool(seen) == bool(fact):
            raise table.refuse("seen", "or 'fact' is needed, and not both: what of the log denies what was asked")
        return Contradiction(
            asked=table.take("asked", str),
            value=_pattern(table, "value", table.take("value", str)),
            seen=_pattern(table, "seen", seen) if seen else None,
            fact=fact,
            sentence=table.take("sentence", str),
        )


def _wording(table: Table) -> Wording:
    with table:
        pattern = _pattern(table, "pattern", table.take("pattern", str))
        return Wording(pattern, table.take("sentence", str), table.take("symptom", bool, False))


def _pattern(table: Table, key: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise table.refuse(key, f"is {text!r}, which is not a regular expression ({error}); mend it") from error
