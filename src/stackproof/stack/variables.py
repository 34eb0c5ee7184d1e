"""The tables of `data/variables/`: which environment variables each library reads, what their values may look like.

A library that does not know a variable ignores it without a word, so that a typo costs a day (oneCCL accepts any `CCL_*`).
`slips` holds an environment against these tables. Needs no torch.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from stackproof import DATA
from stackproof.base.toml import INLINE, OneOf, Table, Wrong
from stackproof.stack.grammars import Expression, Form, Grammar
from stackproof.stack.stacks import Stack

TABLES = DATA / "variables"
GRAMMARS, COMBINATIONS, RELEVANCE, NAMES = "grammars.toml", "combinations.toml", "relevance.toml", "names.toml"


class Level(enum.Enum):
    """How bad a finding is, the worst last; only a problem makes `doctor` fail and a preflight refuse."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class _Shared:
    """A grammar with a name, for many variables."""

    name: str
    form: Annotated[Form, INLINE]


@dataclass(frozen=True)
class Option:
    """What one option of a list of `name:value` takes."""

    name: str
    form: Annotated[Form, INLINE]


@dataclass(frozen=True)
class Variable:
    """A name that a library reads; without a grammar any value will do."""

    name: str
    grammar: Grammar | None
    level: Level
    link: str
    literal: bool = False
    """Whether a `$` in the value is meant."""
    expands: str = ""
    """Which of `~` and `$` the library itself expands."""
    below: str = ""
    """The variable whose number this one's stays below."""
    opened_by: str = ""
    """The variable that adds words of its own; where it is set, no word is wrong."""


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
    complete: bool = False
    """Whether the names are those of the library itself, so that one that is not among them is likely a slip."""
    secrets: tuple[str, ...] = ()
    """Names of tokens and keys: their values are neither checked nor shown."""


def _names() -> tuple[str, ...]:
    return tuple(families())


_Families = Annotated[tuple[str, ...], OneOf(_names)]


@dataclass(frozen=True, kw_only=True)
class Combination:
    """Values that are legal one by one and together mean trouble, or something else than was likely meant."""

    families: _Families
    not_with: _Families = ()
    """Families for which the row is no news: what is idle on one stack is right on another."""
    when: Mapping[str, Expression] = field(default_factory=dict)
    unless: Mapping[str, Expression] = field(default_factory=dict)
    all_set: tuple[str, ...] = ()
    any_set: tuple[str, ...] = ()
    none_set: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    differ: tuple[str, ...] = ()
    product: tuple[str, ...] = ()
    """Names whose numbers, multiplied, are more than `limit`."""
    limit: int = 0
    hides: str = ""
    """The toolkit whose cards are hidden by it; on a host without any that is worth a note."""
    results: bool = False
    """Whether what is computed changes with it, so that a failed comparison has to name it."""
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
            and (not self.product or self._multiplied(environ) > self.limit)
        )

    def _multiplied(self, environ: Mapping[str, str]) -> int:
        texts = [environ.get(name, "") for name in self.product]
        return math.prod(map(int, texts)) if all(map(str.isdecimal, texts)) else 0

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
    others = {GRAMMARS, COMBINATIONS, RELEVANCE, NAMES}
    paths = [path for path in sorted(TABLES.glob("*.toml")) if path.name not in others]
    return {path.stem: _family(path) for path in paths}


@dataclass(frozen=True)
class Bounds:
    """Words of two names that are alike otherwise: what the one is set to may not be above the other (NCCL_MIN_CTAS, NCCL_MAX_CTAS)."""

    low: str
    high: str


@dataclass(frozen=True)
class _Combined:
    combination: tuple[Combination, ...]
    bounds: tuple[Bounds, ...]


@cache
def _combined() -> _Combined:
    return Table.load(TABLES / COMBINATIONS).row(_Combined)


def combinations() -> tuple[Combination, ...]:
    """Load the rows of `combinations.toml`."""
    return _combined().combination


def bounds() -> tuple[Bounds, ...]:
    """Load the words for the ends of a range, which `combinations.toml` has too."""
    return _combined().bounds


@dataclass(frozen=True)
class _Library:
    name: str
    families: _Families


@dataclass(frozen=True)
class _Relevance:
    always: _Families
    library: tuple[_Library, ...]


@cache
def relevance() -> Mapping[str, tuple[str, ...]]:
    """Load `relevance.toml`: families that every stack reads (""), and those of a toolkit or of a backend."""
    found = Table.load(TABLES / RELEVANCE).row(_Relevance)
    return {"": found.always, **{row.name: row.families for row in found.library}}


@cache
def _grammars() -> Mapping[str, Grammar]:
    with Table.load(TABLES / GRAMMARS) as table:
        return {row.name: row.form.made() for row in table.rows("grammar", _Shared)}


def _shared() -> tuple[str, ...]:
    return ("", *_grammars())


@dataclass(frozen=True)
class Former:
    """A name that is read no more, or that no library ever read and people write all the same; and what to set instead."""

    name: str
    families: _Families
    instead: str = ""
    """The name that takes the same values."""
    why: str = ""
    remedy: str = ""
    link: str = ""
    level: Level = Level.WARNING

    def __post_init__(self) -> None:
        if not (self.instead or self.remedy):
            raise Wrong("instead", "is missing, and so is 'remedy'; one of them says what to do")


@cache
def former() -> Mapping[str, Former]:
    """Load `names.toml`."""
    with Table.load(TABLES / NAMES) as table:
        return {row.name: row for row in table.rows("name", Former)}


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A variable's values: one of the shared grammars, a form of its own, or options; without any, any value will do."""

    name: str
    level: Level = Level.WARNING
    link: str = ""
    grammar: Annotated[str, OneOf(_shared)] = ""
    form: Annotated[Form, INLINE]
    options: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    literal: bool = False
    expands: str = ""
    below: str = ""
    opened_by: str = ""

    def __post_init__(self) -> None:
        if self.grammar and not self.form.empty:
            raise Wrong("grammar", "and 'choices', 'pattern' and numbers are ways to say one thing; keep one of them")
        if not self.form.empty:
            self._formed()

    def values(self, options: Mapping[str, Grammar]) -> Grammar | None:
        """Return what a value may look like."""
        chosen = {name: options[name] for name in self.options}
        if self.grammar:
            shared = _grammars()[self.grammar]
            return replace(shared, options=chosen, elsewhere=self.elsewhere, host=self.form.host or shared.host)
        return None if self.form.empty else self._formed()

    def _formed(self) -> Grammar:
        try:
            return self.form.made()
        except ValueError as error:
            raise Wrong("pattern", str(error)) from error


@dataclass(frozen=True, kw_only=True)
class _File:
    """The file of a family: names that take any value, names by shared grammar, and rows of single variables."""

    title: str
    link: str
    prefixes: tuple[str, ...]
    generated: tuple[str, ...] = ()
    complete: bool = False
    secrets: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    values: Mapping[Annotated[str, OneOf(_grammars)], tuple[str, ...]] = field(default_factory=dict)
    option: tuple[Option, ...]
    variable: tuple[_Row, ...]


def _family(path: Path) -> Family:
    read = Table.load(path).row(_File)
    options = {row.name: row.form.made() for row in read.option}
    found = {name: Variable(name, None, Level.WARNING, read.link) for name in read.names}
    for key, grammar in _grammars().items():
        found |= {name: Variable(name, grammar, Level.WARNING, read.link) for name in read.values.get(key, ())}
    for row in read.variable:
        link = row.link or read.link
        found[row.name] = Variable(
            row.name, row.values(options), row.level, link, row.literal, row.expands, row.below, row.opened_by
        )
    return Family(path.stem, read.title, read.link, read.prefixes, read.generated, found, read.complete, read.secrets)


def relevant(stack: Stack) -> tuple[str, ...]:
    """Return the families that the stack's libraries read: those of every torch, of its toolkit, of its backend."""
    table = relevance()
    toolkits = [name for name, state in stack.flavour.toolkits.items() if state == "set"]
    found = [name for key in ("", *toolkits, stack.backend) for name in table.get(key, ())]
    return tuple(dict.fromkeys(found))
