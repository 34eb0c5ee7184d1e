"""Which environment variables each library reads, and what their values may look like: the tables of `data/variables/`.

A library that does not know a variable ignores it without a word, so that a typo costs a day (oneCCL accepts any `CCL_*`).
A value has a grammar: a pattern made of words, numbers or options. `findings` checks an environment against these tables.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated

from stackproof import DATA
from stackproof.base.toml import INLINE, Key, OneOf, Table, Wrong, expression, kept_rows
from stackproof.stack.stacks import Stack

TABLES = DATA / "variables"
GRAMMARS, COMBINATIONS, NAMES = "grammars.toml", "combinations.toml", "names.toml"


class Level(enum.Enum):
    """How bad a finding is, the worst last; only a problem makes `doctor` fail and a preflight refuse."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


Expression = Annotated[re.Pattern[str], expression(re.IGNORECASE | re.DOTALL)]
"""A pattern for the whole of a text; case does not count."""

_NUMBER = r"-?(\d+|0x[0-9a-f]+)"


def odd(value: str) -> bool:
    """Whether a value holds full-width punctuation, or has quotes or blanks round it, as from a Docker env-file."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return quoted or value != value.strip() or any(unicodedata.east_asian_width(char) == "F" for char in value)


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """What a value may look like, as the tables have it: a pattern, words or a range of numbers."""

    pattern: str = ""
    choices: tuple[str, ...] = ()
    """Words that stand for `<word>` in the pattern, and `keys` for `<key>`."""
    keys: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    sensitive: bool = False
    """Whether case counts."""
    distinct: bool = False
    """Whether no part of a list may stand in it twice."""
    host: str = ""
    """What of a host the value names: a key of `findings.KINDS`."""
    says: str = ""
    """Ends "NAME='value' is not ..."."""
    example: str = ""
    options: Mapping[str, Grammar] = field(default_factory=dict, init=False)
    """For a list of `name:value`: what each name takes."""

    def __post_init__(self) -> None:
        if self.pattern and not (self.says and self.example):
            raise Wrong("says" if not self.says else "example", "is missing; it must be a string")
        if self.pattern and not self.choices and "<word>" in self.pattern:
            raise Wrong("choices", "is missing; the pattern has <word>")
        words = self.choices or ("",)
        object.__setattr__(self, "says", self.says or self._range() or f"one of {', '.join(words)}")
        object.__setattr__(self, "example", self.example or (str(self.low or 0) if self.numeric else words[0]))

    def _range(self) -> str:
        if self.high is None:
            return "" if self.low is None else f"a whole number from {self.low} up"
        return f"a whole number {'up' if self.low is None else f'from {self.low}'} to {self.high}"

    @property
    def empty(self) -> bool:
        """Whether nothing is said of values."""
        return not (self.pattern or self.choices or self.numeric)

    @property
    def numeric(self) -> bool:
        """Whether the value is a number in a range."""
        return self.low is not None or self.high is not None

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """For the whole of the value; raises `ValueError` where it is none."""
        template = self.pattern or (_NUMBER if self.numeric else "<word>")
        for place, words in (("<word>", self.choices), ("<key>", self.keys)):
            template = template.replace(place, f"(?:{'|'.join(map(re.escape, words))})")
        flags = re.DOTALL | (0 if self.sensitive else re.IGNORECASE)
        return expression(flags).parse(template)  # type: ignore[no-any-return]

    def wrong(self, value: str) -> str:
        """Return why the value cannot be, to stand after "NAME='value' "; empty if it can."""
        if not self.compiled.fullmatch(value) or (self.numeric and not self.options and not self._in_range(value)):
            return f"is not {self.says}"
        if self.options:
            return next(filter(None, map(self._wrong_option, _options(value))), "")
        parts = [part.strip() for part in value.split(",")]
        twice = [part for part in parts if self.distinct and parts.count(part) > 1]
        return f"names {twice[0]} twice" if twice else ""

    def _in_range(self, value: str) -> bool:
        number = int(value, 16) if "0x" in value.lower() else int(value)
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def _wrong_option(self, part: str) -> str:
        name, _, value = part.partition(":")
        if name not in self.options:
            return f"has no option {name}: known are {', '.join(self.options)}"
        text = self.options[name].wrong(value)
        return f"has {name}:{value}, and {value or 'nothing'} {text}" if text else ""


def _options(value: str) -> list[str]:
    return [part for part in re.split(r",(?![^\[]*\])", value.replace(" ", "")) if part]


@dataclass(frozen=True, kw_only=True)
class _Named(Grammar):
    """A grammar with a name: one that many variables share, or that of one option of a list of `name:value`."""

    name: str


def _names() -> tuple[str, ...]:
    return tuple(families())


_Families = Annotated[tuple[str, ...], OneOf(_names)]


@dataclass(frozen=True, kw_only=True)
class Combination:
    """Values that are legal one by one and together mean trouble, or something else than they say."""

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
    hosts: bool = False
    """Whether it is about ranks on several hosts, whoever starts them."""
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
            and (not self.hosts or _spans_hosts(environ))
        )

    def words(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return what the sentence may name: the variables, and the named groups of the patterns."""
        words = dict(environ)
        for name, pattern in self.when.items():
            match = pattern.fullmatch(environ[name])
            words |= {key: value or "" for key, value in match.groupdict().items()} if match else {}
        return words


_SIZES = (
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("PMI_SIZE", "MPI_LOCALNRANKS"),
)  # fmt: skip
_HOSTS = ("GROUP_WORLD_SIZE", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")


def _spans_hosts(environ: Mapping[str, str]) -> bool:
    """Whether a launcher says that not all ranks are on this host, or that there are several hosts."""
    sizes = ([environ.get(name) for name in pair] for pair in _SIZES)
    several = any(environ.get(name, "1") not in ("", "1") for name in _HOSTS)
    return several or any(whole and own and whole != own for whole, own in sizes)


def _matches(environ: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> bool:
    return name in environ and pattern.fullmatch(environ[name]) is not None


combinations = kept_rows(TABLES / COMBINATIONS, "combination", Combination)


@cache
def _grammars() -> Mapping[str, Grammar]:
    with Table.load(TABLES / GRAMMARS) as table:
        return {row.name: row for row in table.rows("grammar", _Named)}


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
class Variable:
    """A name that a library reads; its values have a shared grammar, a form of their own, or options, or any value will do."""

    name: str
    level: Level = Level.WARNING
    link: str = ""
    shared: Annotated[str, OneOf(_shared), Key("grammar")] = ""
    own: Annotated[Grammar, INLINE]
    options: tuple[str, ...] = ()
    expands: str = ""
    """Which of `~` and `$` the library itself expands, or takes as they are."""
    below: str = ""
    """The variable whose number this one's stays below."""
    opened_by: str = ""
    """The variable that adds words of its own; where it is set, no word is wrong."""
    grammar: Grammar | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.shared and not self.own.empty:
            raise Wrong("grammar", "and 'choices', 'pattern' and numbers are ways to say one thing; keep one of them")
        try:
            _ = self.own.empty or self.own.compiled
        except ValueError as error:
            raise Wrong("pattern", str(error)) from error

    def of(self, link: str, options: Mapping[str, Grammar]) -> Variable:
        """Return the variable of a library, with the grammar of its values."""
        variable, grammar = replace(self, link=self.link or link), None if self.own.empty else self.own
        if self.shared:
            shared = _grammars()[self.shared]
            grammar = replace(shared, host=self.own.host or shared.host)
            object.__setattr__(grammar, "options", {name: options[name] for name in self.options})
        object.__setattr__(variable, "grammar", grammar)
        return variable


@dataclass(frozen=True, kw_only=True)
class Family:
    """The variables of one library: how their names begin, which are known, and where that was read."""

    name: str
    title: str
    link: str
    read_by: tuple[str, ...]
    """Toolkits and backends of collectives whose libraries read them; `torch`: every stack's do."""
    prefixes: tuple[str, ...]
    generated: tuple[str, ...] = ()
    """Beginnings of names that are made of parts, so that no list can hold them."""
    complete: bool = False
    """Whether the names are those of the library itself, so that one that is not among them is likely a slip."""
    secrets: tuple[str, ...] = ()
    """Names of tokens and keys: their values are neither checked nor shown."""
    names: tuple[str, ...] = ()
    """Names that take any value."""
    values: Mapping[Annotated[str, OneOf(_grammars)], tuple[str, ...]] = field(default_factory=dict)
    """Names by shared grammar."""
    option: tuple[_Named, ...]
    variable: tuple[Variable, ...]

    @cached_property
    def variables(self) -> Mapping[str, Variable]:
        options, plain = {row.name: row for row in self.option}, Variable(name="", own=Grammar())
        rows = [replace(plain, name=name) for name in self.names]
        rows += [replace(plain, name=name, shared=key) for key, names in self.values.items() for name in names]
        return {row.name: row.of(self.link, options) for row in (*rows, *self.variable)}


@cache
def families() -> Mapping[str, Family]:
    """Load every family, by the name of its file."""
    paths = [path for path in sorted(TABLES.glob("*.toml")) if path.name not in (GRAMMARS, COMBINATIONS, NAMES)]
    return {path.stem: family_of(path) for path in paths}


def family_of(path: Path) -> Family:
    """Load a family's file."""
    return Table.load(path).row(Family, name=path.stem)


def relevant(stack: Stack) -> tuple[str, ...]:
    """Return the families that the stack's libraries read: those of every torch, of its toolkit, of its backend."""
    toolkits = [name for name, state in stack.flavour.toolkits.items() if state == "set"]
    mine = {"torch", *toolkits, stack.backend}
    return tuple(name for name, family in families().items() if mine & {*family.read_by})
