"""The tables of `data/variables/`: which environment variables each library reads, what their values may look like.

Environment variables held against tables: unknown names, values out of their grammar, likely slips, combinations.

A library that does not know a variable ignores it without a word, so that a typo costs a day (oneCCL accepts any `CCL_*`).
No list of names is complete for ever, so a name that no list has is reported only if a known one is near. Needs no torch.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stackproof import DATA
from stackproof.base.errors import Refusal, nearest, suggestion
from stackproof.base.toml import Table
from stackproof.stack.stacks import Stack

TABLES = DATA / "variables"
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
