"""The tables of `fixtures/variables/`: which environment variables each library reads, what their values may look like."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import ROOT
from .tables import Table

TABLES = ROOT / "fixtures" / "variables"
GRAMMARS, COMBINATIONS, RELEVANCE = "grammars.toml", "combinations.toml", "relevance.toml"


class Level(enum.Enum):
    """How bad a finding is, the worst last; only a problem makes `doctor` fail and a preflight refuse."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


LEVELS = tuple(level.value for level in Level)


@dataclass(frozen=True)
class Grammar:
    """What a value may look like: a pattern for the whole of it, the same in words, and an example."""

    pattern: re.Pattern[str]
    says: str
    example: str


@dataclass(frozen=True)
class Variable:
    """A name that a library reads; without a grammar any value will do."""

    name: str
    grammar: Grammar | None
    level: Level
    link: str


@dataclass(frozen=True)
class Family:
    """The variables of one library: how their names begin, which are known, and where that was read."""

    name: str
    title: str
    link: str
    prefixes: tuple[str, ...]
    generated: tuple[str, ...]
    """Beginnings of names that are made of parts, so that no list can hold them."""
    variables: Mapping[str, Variable]


@dataclass(frozen=True)
class Combination:
    """Values that are legal one by one and together mean trouble, or something else than was likely meant."""

    families: tuple[str, ...]
    not_with: tuple[str, ...]
    """Families for which the row is no news: what is idle on one stack is right on another."""
    when: Mapping[str, re.Pattern[str]]
    unless: Mapping[str, re.Pattern[str]]
    all_set: tuple[str, ...]
    any_set: tuple[str, ...]
    none_set: tuple[str, ...]
    lacking: tuple[str, ...]
    differ: tuple[str, ...]
    level: Level
    sentence: str
    remedy: str
    link: str

    def holds(self, environ: Mapping[str, str]) -> bool:
        """Whether every condition of the row is met."""
        values = {environ[name] for name in self.differ if name in environ}
        return (
            all(_matches(environ, name, pattern) for name, pattern in self.when.items())
            and not any(_matches(environ, name, pattern) for name, pattern in self.unless.items())
            and all(name in environ for name in self.all_set)
            and (not self.any_set or any(name in environ for name in self.any_set))
            and not any(name in environ for name in self.none_set)
            and (not self.lacking or any(name not in environ for name in self.lacking))
            and (not self.differ or len(values) > 1)
        )

    def words(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return what the sentence may name: the variables, and the named groups of the patterns."""
        words = dict(environ)
        for name, pattern in self.when.items():
            found = pattern.fullmatch(environ[name])
            words |= {key: value or "" for key, value in found.groupdict().items()} if found else {}
        return words


def _matches(environ: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> bool:
    return name in environ and pattern.fullmatch(environ[name]) is not None


@cache
def families() -> Mapping[str, Family]:
    """Load every family, by the name of its file."""
    others = {GRAMMARS, COMBINATIONS, RELEVANCE}
    paths = [path for path in sorted(TABLES.glob("*.toml")) if path.name not in others]
    return {path.stem: _family(path) for path in paths}


@cache
def combinations() -> tuple[Combination, ...]:
    """Load `combinations.toml`."""
    with Table.load(TABLES / COMBINATIONS) as table:
        return tuple(_combination(row) for row in table.tables("combination"))


@cache
def relevance() -> Mapping[str, tuple[str, ...]]:
    """Load `relevance.toml`: families that every stack reads (""), and those of a toolkit or of a backend."""
    names = tuple(families())
    with Table.load(TABLES / RELEVANCE) as table:
        found = {"": table.strings("always", allowed=names)}
        for row in table.tables("library"):
            with row:
                found[row.take("name", str)] = row.strings("families", allowed=names)
    return found


@cache
def _grammars() -> Mapping[str, Grammar]:
    found = {}
    with Table.load(TABLES / GRAMMARS) as table:
        for row in table.tables("grammar"):
            with row:
                found[row.take("name", str)] = _own_grammar(row)
    return found


def _family(path: Path) -> Family:
    with Table.load(path) as table:
        link = table.take("link", str)
        found = {name: Variable(name, None, Level.WARNING, link) for name in table.strings("names", [])}
        with table.table("values", {}) as values:
            for key, grammar in _grammars().items():
                found |= {name: Variable(name, grammar, Level.WARNING, link) for name in values.strings(key, [])}
        rows = [_variable(row, link) for row in table.tables("variable")]
        return Family(
            name=path.stem,
            title=table.take("title", str),
            link=link,
            prefixes=table.strings("prefixes"),
            generated=table.strings("generated", []),
            variables=found | {row.name: row for row in rows},
        )


def _variable(table: Table, link: str) -> Variable:
    with table:
        name = table.take("name", str)
        level = Level(table.take("level", str, Level.WARNING.value, LEVELS))
        return Variable(name, _grammar(table), level, table.take("link", str, link))


def _grammar(table: Table) -> Grammar:
    """A row's values: one of the shared grammars, a list of words, or a pattern of its own; case does not count."""
    if shared := table.take("grammar", str, "", ("", *_grammars())):
        return _grammars()[shared]
    if choices := table.strings("choices", []):
        pattern = compiled(table, "choices", "|".join(map(re.escape, choices)))
        return Grammar(pattern, f"one of {', '.join(choices)}", table.take("example", str, choices[0]))
    return _own_grammar(table)


def _own_grammar(table: Table) -> Grammar:
    pattern = compiled(table, "pattern", table.take("pattern", str))
    return Grammar(pattern, table.take("says", str), table.take("example", str))


def _combination(table: Table) -> Combination:
    names = tuple(families())
    with table:
        return Combination(
            families=table.strings("families", allowed=names),
            not_with=table.strings("not_with", [], allowed=names),
            when=expressions(table, "when"),
            unless=expressions(table, "unless"),
            all_set=table.strings("all_set", []),
            any_set=table.strings("any_set", []),
            none_set=table.strings("none_set", []),
            lacking=table.strings("lacking", []),
            differ=table.strings("differ", []),
            level=Level(table.take("level", str, allowed=LEVELS)),
            sentence=table.take("sentence", str),
            remedy=table.take("remedy", str),
            link=table.take("link", str),
        )


def expressions(table: Table, key: str) -> Mapping[str, re.Pattern[str]]:
    """Take a table of regular expressions; none when the key is absent."""
    return {name: compiled(table, f"{key}.{name}", text) for name, text in table.mapping(key, {}).items()}


def compiled(table: Table, key: str, text: str) -> re.Pattern[str]:
    """Return the regular expression of one key, without regard to case.

    Raises:
        Refusal: it is none; the sentence names the file and the key.
    """
    try:
        return re.compile(text, re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise table.refuse(key, f"is {text!r}, which is not a regular expression ({error}); mend it") from error
