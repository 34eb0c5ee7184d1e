"""Environment variables held against `data/variables/`: unknown names, values out of their grammar, likely typos, combinations.

A library that does not know a variable ignores it without a word, so that a typo costs a day (oneCCL accepts any `CCL_*`).
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated

from stackproof import DATA
from stackproof.base.errors import Refusal, nearest, suggestion
from stackproof.base.toml import INLINE, OneOf, Table, Wrong, expression
from stackproof.stack.stacks import Stack

TABLES = DATA / "variables"
GRAMMARS, COMBINATIONS, RELEVANCE = "grammars.toml", "combinations.toml", "relevance.toml"


class Level(enum.Enum):
    """How bad a finding is, the worst last; only a problem makes `doctor` fail and a preflight refuse."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


Expression = Annotated[re.Pattern[str], expression(re.IGNORECASE | re.DOTALL)]
"""A pattern for the whole of a text; case does not count."""


@dataclass(frozen=True)
class Grammar:
    """What a value may look like: a pattern for the whole of it, the same in words, and an example."""

    pattern: Expression
    says: str
    example: str


@dataclass(frozen=True)
class _Shared:
    """A grammar with a name, for many variables."""

    name: str
    grammar: Annotated[Grammar, INLINE]


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
        return table.rows("combination", Combination)


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
        return {row.name: row.grammar for row in table.rows("grammar", _Shared)}


def _shared() -> tuple[str, ...]:
    return ("", *_grammars())


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A variable's values: one of the shared grammars, a list of words, or a pattern of its own; case does not count."""

    name: str
    level: Level = Level.WARNING
    link: str = ""
    grammar: Annotated[str, OneOf(_shared)] = ""
    choices: tuple[str, ...] = ()
    pattern: Expression | None = None
    says: str = ""
    example: str = ""

    def __post_init__(self) -> None:
        if not (self.grammar or self.choices or (self.pattern and self.says and self.example)):
            missing = next(key for key in ("pattern", "says", "example") if not getattr(self, key))
            raise Wrong(missing, "is missing; it must be a string")
        if sum(map(bool, (self.grammar, self.choices, self.pattern))) > 1:
            raise Wrong("grammar", "'choices' and 'pattern' are three ways to say one thing; keep one of them")

    @property
    def values(self) -> Grammar:
        """What a value may look like."""
        if self.grammar:
            return _grammars()[self.grammar]
        if self.choices:
            words = re.compile("|".join(map(re.escape, self.choices)), re.IGNORECASE | re.DOTALL)
            return Grammar(words, f"one of {', '.join(self.choices)}", self.example or self.choices[0])
        assert self.pattern
        return Grammar(self.pattern, self.says, self.example)


@dataclass(frozen=True, kw_only=True)
class _File:
    """The file of a family: names that take any value, names by shared grammar, and rows of single variables."""

    title: str
    link: str
    prefixes: tuple[str, ...]
    generated: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    values: Mapping[Annotated[str, OneOf(_grammars)], tuple[str, ...]] = field(default_factory=dict)
    variable: tuple[_Row, ...]


def _family(path: Path) -> Family:
    read = Table.load(path).row(_File)
    found = {name: Variable(name, None, Level.WARNING, read.link) for name in read.names}
    for key, grammar in _grammars().items():
        found |= {name: Variable(name, grammar, Level.WARNING, read.link) for name in read.values.get(key, ())}
    found |= {row.name: Variable(row.name, row.values, row.level, row.link or read.link) for row in read.variable}
    return Family(path.stem, read.title, read.link, read.prefixes, read.generated, found)


_QUOTES = str.maketrans(dict.fromkeys("\"'‘’“”「」`"))
_IDEOGRAPHIC = str.maketrans("。、", ".,")


@dataclass(frozen=True)
class Slip:
    """One thing that is wrong, or looks wrong: variables, how bad, one sentence, a command or setting, where it is documented."""

    variables: tuple[str, ...]
    family: str
    level: Level
    sentence: str
    remedy: str
    link: str


def examine(environ: Mapping[str, str], families: Collection[str] | None = None) -> list[Slip]:
    """Return what is wrong, or looks wrong, with the variables; the worst first.

    `environ`: the variables as the ranks will get them. A preflight that starts ranks by torchrun adds torchrun's own
    (`TORCHELASTIC_RUN_ID`, `LOCAL_RANK` ...), so that combinations with a launcher are seen.
    `families`: such as `relevant(stack)`. By default all, and then nothing is said of variables that another stack would read.

    Raises:
        Refusal: a table is broken, or no table has a family of that name.
    """
    chosen = _chosen(families)
    slips = [slip for family in chosen for slip in _names_and_values(family, environ)]
    slips += [*_strangers(chosen, environ), *_combined(chosen, environ, families)]
    order = list(Level)
    unique = {(slip.variables, slip.sentence.partition(";")[0]): slip for slip in slips}
    return sorted(unique.values(), key=lambda slip: -order.index(slip.level))


def relevant(stack: Stack) -> tuple[str, ...]:
    """Return the families that the stack's libraries read: those of every torch, of its toolkit, of its backend."""
    table = relevance()
    toolkits = [name for name, state in stack.flavour.toolkits.items() if state == "set"]
    found = [name for key in ("", *toolkits, stack.backend) for name in table.get(key, ())]
    return tuple(dict.fromkeys(found))


def tidy(value: str) -> str:
    """Return a value as it was likely meant: no full-width characters, no quotes, no blanks."""
    plain = unicodedata.normalize("NFKC", value.translate(_IDEOGRAPHIC)).translate(_QUOTES)
    return "".join(plain.split())


def _chosen(names: Collection[str] | None) -> list[Family]:
    known = families()
    for name in names or ():
        if name not in known:
            raise Refusal(
                f"there is no family of variables '{name}'{suggestion(name, known)}; known: {', '.join(known)}"
            )
    return [family for name, family in known.items() if names is None or name in names]


def _names_and_values(family: Family, environ: Mapping[str, str]) -> Iterator[Slip]:
    for name, value in environ.items():
        if name in family.variables:
            yield from _value(family.name, family.variables[name], value)
        elif name.startswith(family.prefixes) and not name.startswith(family.generated):
            yield from _misspelt(family, name, family.variables, environ, most=2)


def _value(family: str, variable: Variable, value: str) -> Iterator[Slip]:
    name, grammar, meant = variable.name, variable.grammar, tidy(value)
    if grammar.pattern.fullmatch(value) if grammar else not _odd(value):
        return
    if not grammar or grammar.pattern.fullmatch(meant):
        sentence = f"{name}='{value}' holds {_oddity(value)}; '{meant}' was likely meant"
        remedy = f"export {name}={meant}"
    else:
        sentence = f"{name}='{value}' is not {grammar.says}"
        remedy = f"unset {name}   # or, for example: export {name}={grammar.example}"
    yield Slip((name,), family, variable.level, sentence, remedy, variable.link)


def _odd(value: str) -> bool:
    """Whether a value that may be anything holds full-width punctuation or has quotes round it, as from a Docker env-file."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return quoted or any(unicodedata.east_asian_width(char) == "F" for char in value)


def _oddity(value: str) -> str:
    wide = [char for char in value if unicodedata.east_asian_width(char) in "FW"]
    if wide:
        return f"the full-width character '{wide[0]}'"
    return "quotes" if value.translate(_QUOTES) != value else "blanks"


def _misspelt(family: Family, name: str, known: Iterable[str], environ: Mapping[str, str], most: int) -> Iterator[Slip]:
    near = nearest(name, known, most)
    if near is None:
        return
    also = f", which is also set, to '{environ[near]}'" if near in environ else ""
    sentence = f"{name} is not a variable known to {family.title}; {near} is{also}"
    remedy = f"unset {name}" if also else f"export {near}='{environ[name]}'; unset {name}"
    yield Slip((name,), family.name, Level.WARNING, sentence, remedy, family.link)


def _strangers(chosen: list[Family], environ: Mapping[str, str]) -> Iterator[Slip]:
    """Names whose very beginning is misspelt (NCLL_DEBUG): one slip from a name whose values are known."""
    prefixes = tuple(prefix for family in chosen for prefix in family.prefixes)
    known = {name for family in chosen for name in family.variables}
    for family in chosen:
        documented = [row.name for row in family.variables.values() if row.grammar]
        for name in environ:
            if name not in known and not name.startswith(prefixes):
                yield from _misspelt(family, name, documented, environ, most=1)


def _combined(chosen: Iterable[Family], environ: Mapping[str, str], families: Collection[str] | None) -> Iterator[Slip]:
    names = {family.name for family in chosen}
    for row in combinations():
        news = not row.not_with or (families is not None and not names & set(row.not_with))
        if news and names & set(row.families) and row.holds(environ):
            yield _slip(row, environ)


def _slip(row: Combination, environ: Mapping[str, str]) -> Slip:
    named = (*row.when, *row.all_set, *row.differ, *row.any_set)
    names = tuple(dict.fromkeys(name for name in named if name in environ))
    words = row.words(environ)
    return Slip(
        names, row.families[0], row.level, row.sentence.format_map(words), row.remedy.format_map(words), row.link
    )
