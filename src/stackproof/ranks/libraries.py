"""Libraries of collectives as data: `data/libraries.toml` says whose tensors they take and how their logs word things.

What was asked of a library against what is in effect, read from its own log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True)
class Effect:
    """Facts from a log by name, and a sentence for each requested setting that it contradicts and for each warning."""

    facts: dict[str, str]
    contradictions: tuple[str, ...]
    warnings: tuple[str, ...]


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

    def read(self, log: str, asked: Mapping[str, str]) -> Effect:
        """Compare a log with the variables that were asked for, except those that only switch the log on."""
        expected = {name: value for name, value in asked.items() if name not in self.talk}
        facts = {fact.name: value for fact in self.facts if (value := _values(fact.pattern, log, fact.many))}
        denied = [*_unlike(self, log, expected), *_denied(self, log, expected, facts)]
        warned = [
            row.sentence.format(seen=match.group().strip(" :"))
            for row in self.warnings
            for match in row.pattern.finditer(log)
        ]
        return Effect(facts, tuple(dict.fromkeys(denied)), tuple(dict.fromkeys(warned)))


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


def common_facts(effects: Mapping[int, Effect]) -> dict[str, str]:
    """Return the facts of all ranks: one value where they agree, else each rank's; what only some ranks log is theirs."""
    texts: dict[str, str] = {}
    for name in dict.fromkeys(name for effect in effects.values() for name in effect.facts):
        values = {rank: effect.facts[name] for rank, effect in effects.items() if name in effect.facts}
        agreed = len(set(values.values())) == 1
        each = ", ".join(f"rank {rank}: {value}" for rank, value in values.items())
        texts[name] = next(iter(values.values())) if agreed else each
    return texts


def _values(pattern: re.Pattern[str], log: str, many: bool) -> str:
    values = [match["value"].strip() for match in pattern.finditer(log)]
    return ", ".join(sorted(set(values))) if many else (values or [""])[0]


def _unlike(library: Library, log: str, asked: Mapping[str, str]) -> Iterator[str]:
    """Variables that the log lists with another value than was asked for."""
    for match in library.echo.finditer(log) if library.echo else ():
        name, value = match["name"], match["value"]
        added = [row.adds for row in library.additions if row.variable == name and asked.get(row.asked) == row.value]
        if name in asked and not any(_same(word, value) for word in (asked[name], ",".join([asked[name], *added]))):
            yield f"{name}={asked[name]} was asked for, {value} is in effect"


def _same(asked: str, value: str) -> bool:
    """Whether two values mean the same: letters' case does not count, nor how a number is written."""
    try:
        return int(asked, 0) == int(value, 0)
    except ValueError:
        return asked.strip().casefold() == value.strip().casefold()


def _denied(library: Library, log: str, expected: Mapping[str, str], facts: Mapping[str, str]) -> Iterator[str]:
    for row in library.contradictions:
        asked = expected.get(row.asked, "")
        if asked and row.value.fullmatch(asked) and (seen := _seen(row, asked, log, facts)):
            yield row.sentence.format(asked=asked, seen=seen)


def _seen(row: Requested, asked: str, log: str, facts: Mapping[str, str]) -> str:
    if row.seen:
        match = row.seen.search(log)
        return match.group().removeprefix("] ").strip(" :") if match else ""
    value, word = facts.get(row.fact, ""), re.split("[,;]", asked.lstrip("="))[0].casefold()
    return "" if not value or word in value.casefold() or value.casefold() in word else value
