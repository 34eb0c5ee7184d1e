"""Which environment variables each library reads, and what their values may look like: the tables of `data/variables/`.

A library that does not know a variable ignores it without a word, so that a typo costs a day (oneCCL accepts any `CCL_*`).
A value has a grammar: a pattern made of words, numbers or options. `findings` checks an environment against these tables.
"""

from __future__ import annotations

import difflib
import enum
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated

from stackproof import DATA
from stackproof.base.errors import distance
from stackproof.base.toml import INLINE, Key, OneOf, Table, Wrong, expression
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

_QUOTES = str.maketrans(dict.fromkeys("\"'‘’“”「」`"))
_IDEOGRAPHIC = str.maketrans("。、", ".,")
_TRUE = ("1", "true", "on", "yes", "enable", "enabled", "t", "y", "active", "activated", "always")
_FALSE = ("0", "false", "off", "no", "disable", "disabled", "f", "n", "inactive", "deactivated", "never", "none")
_OPPOSITES = {"disable": "enable", "enable": "disable", "offline": "online", "online": "offline"}
_LONG = 5
_EXCLUDED = re.compile(r"(?:^|[,;:=\s])[\^!~-]")
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_NUMBER = r"-?(\d+|0x[0-9a-f]+)"
_AMOUNT = re.compile(r"(\d+)\s*([kmgt]?)(i?b?|s|ms|sec|seconds|min)\.?", re.IGNORECASE)
_DEVICE = re.compile(r"\b(cuda|gpu|xpu|hip|rocm|card|device|dev|level_zero)s?[:=_-]?(?=\d)", re.IGNORECASE)
_PORT = re.compile(r":\d{3,5}$")
_PATH = re.compile(r"(?:^|[,;:|\s])(?:~|\.{1,2})?/")
"""A path, of which the parts are no list."""
_ALIKE = 0.75
_MANY = 3


def tidy(value: str) -> str:
    """Return a value as it was likely meant: no full-width characters, no quotes, no blanks."""
    plain = unicodedata.normalize("NFKC", value.translate(_IDEOGRAPHIC)).translate(_QUOTES)
    return "".join(plain.split())


def oddity(value: str) -> str:
    """Return what a keyboard or a file added to a value, in words."""
    wide = [char for char in value if unicodedata.east_asian_width(char) in "FW"]
    if wide:
        return f"the full-width character '{wide[0]}'"
    return "quotes" if value.translate(_QUOTES) != value else "blanks"


def odd(value: str) -> bool:
    """Whether a value holds full-width punctuation, or has quotes or blanks round it, as from a Docker env-file."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return quoted or value != value.strip() or any(unicodedata.east_asian_width(char) == "F" for char in value)


def closest(word: str, words: tuple[str, ...], cutoff: float = 0.6) -> str | None:
    """Return the word that was likely meant; words that differ in digits are two words."""
    same = {other.casefold(): other for other in words if _digits(other) == _digits(word) and _agree(word, other)}
    names = difflib.get_close_matches(word.casefold(), same, n=1, cutoff=cutoff)
    return same[names[0]] if names else None


def _agree(word: str, other: str) -> bool:
    """Whether one can be a slip for the other: `enabled` is none for `disabled`, nor `trace` for `true`."""
    return truth(word, exact=word.lower() in _TRUE + _FALSE) == truth(other, exact=True)


def truth(word: str, name: str = "", exact: bool = False) -> bool | None:
    """Return whether a word says yes or no, spelt right or (not `exact`) a slip away; None if nobody can tell.

    `name`: whose value it is. A word that repeats one of its own says yes: NCCL_P2P_DISABLE=disabled, HF_HUB_OFFLINE=offline.
    """
    word, parts = word.lower(), name.lower().split("_")
    state = word.removesuffix("d")
    if state in parts and state in _OPPOSITES:
        return True
    if _OPPOSITES.get(state) in parts:
        return None if state == "enable" else False
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    near = set() if exact else {text in _TRUE for text in _TRUE + _FALSE if _near(word, text)}
    return near.pop() if len(near) == 1 else None


def _near(word: str, other: str) -> bool:
    most = 2 if min(len(word), len(other)) > _LONG else 1
    return (
        min(len(word), len(other)) > 1
        and word[0] == other[0]
        and word.isalpha()
        and distance(word, other, most) <= most
    )


def _digits(word: str) -> str:
    return "".join(filter(str.isdecimal, word))


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """What a value may look like, as the tables have it: a pattern, words or a range of numbers; and what was likely meant by another."""

    pattern: str = ""
    choices: tuple[str, ...] = ()
    """Words that stand for `<word>` in the pattern, and `keys` for `<key>`."""
    keys: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    unit: int = 0
    """What a number counts, as a power of two of bytes: 20 where it counts MiB."""
    sensitive: bool = False
    """Whether case counts."""
    distinct: bool = False
    """Whether no part of a list may stand in it twice."""
    host: str = ""
    """What of a host the value names: a key of `findings.KINDS`."""
    open: bool = False
    """Whether words of other libraries are legal too, so that only one near a known word is wrong."""
    mend: Mapping[str, str] = field(default_factory=dict)
    """Patterns of what people write, each with what it has to be: computed, not guessed."""
    says: str = ""
    """Ends "NAME='value' is not ..."."""
    example: str = ""
    options: Mapping[str, Grammar] = field(default_factory=dict, init=False)
    """For a list of `name:value`: what each name takes."""
    elsewhere: tuple[str, ...] = field(default=(), init=False)
    """Options that only other variables of the kind know."""

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

    @cached_property
    def words(self) -> tuple[str, ...]:
        return (*self.choices, *self.keys)

    def wrong(self, value: str) -> str:
        """Return why the value cannot be, to stand after "NAME='value' "; empty if it can."""
        if not self.compiled.fullmatch(value) or (self.numeric and not self.options and not self._in_range(value)):
            return f"is not {self.says}"
        if self.options:
            return next(filter(None, map(self._wrong_option, _options(value))), "")
        parts = [part.strip() for part in value.split(",")]
        if twice := [part for part in parts if self.distinct and parts.count(part) > 1]:
            return f"names {twice[0]} twice"
        strange = next(filter(self._strange, re.findall(r"[\w.]+", value)), "") if self.open else ""
        return f"has {strange}, and a value is {self.says}" if strange else ""

    def meant(self, value: str, name: str = "") -> str | None:
        """Return the value with its quotes, unit, separators or letters put right; None where that makes no legal value.

        What leaves something out is never turned into what asks for it, and no part of a list is dropped.
        """
        texts = (text for text in self._mended(value, name) if text not in ("", value))
        return next((text for text in texts if self._keeps(value, text) and not self.wrong(text)), None)

    def _strange(self, word: str) -> bool:
        known = word.casefold() in map(str.casefold, self.words)
        return not known and "." not in word and closest(word, self.words, _ALIKE) is not None

    def _keeps(self, value: str, text: str) -> bool:
        plain = tidy(value)
        if bool(_EXCLUDED.search(plain)) != bool(_EXCLUDED.search(text)):
            return False
        listed = self.low is None and self.high is None and re.fullmatch(r"\d+(\D\d+)+", plain)
        return not listed or set(re.findall(r"\d+", plain)) <= set(re.findall(r"\d+", text))

    @property
    def _switches(self) -> bool:
        if self.words:
            return all(truth(word, exact=True) is not None for word in self.words)
        return self.low is not None and (
            self.low < 0 or (self.low == 0 and self.high is not None and self.high < _MANY)
        )

    def _in_range(self, value: str) -> bool:
        number = int(value, 16) if "0x" in value.lower() else int(value)
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def _wrong_option(self, part: str) -> str:
        name, _, value = part.partition(":")
        if name in self.elsewhere:
            return f"has the option {name}, which does nothing here"
        if name not in self.options:
            return f"has no option {name}: known are {', '.join(self.options)}"
        text = self.options[name].wrong(value)
        return f"has {name}:{value}, and {value or 'nothing'} {text}" if text else ""

    def _mended(self, value: str, name: str) -> Iterator[str]:
        """Every way of mending, the likeliest first."""
        plain = tidy(value)
        whole = dict.fromkeys(
            (self._respelt(value), self._respelt(plain), plain, _bare(value), plain.replace(",", ";"))
        )
        texts = (value.translate(_QUOTES).strip(), self._respelt(plain))
        parted = [
            re.sub(r"[,;:|/\s]+", separator, text) for text in texts for separator in ",;:." if not _PATH.search(text)
        ]
        for group in (parted, whole) if re.search(r"\w\s+\w", value.strip()) else (whole, parted):
            for text in group:
                yield from self._by_truth(text, name if self._switches else "")
                yield text
                yield from _by_numbers(text, self.unit)
            yield from map(self._by_words, group)

    def _by_words(self, text: str) -> str:
        """Each word that is none replaced by the closest."""
        return re.sub(r"[\w.*][\w.*-]*", lambda match: self._word(match[0]), text) if self.words else text

    def _by_truth(self, text: str, name: str) -> Iterator[str]:
        """A truth value as this variable spells it."""
        state = truth(text, name)
        if state is None or (not self._switches and text.lower() not in _TRUE + _FALSE):
            return
        spelt = [word for word in self.words if self._switches or not word.isdecimal()] or ["1", "0"]
        alike = (word for word in spelt if truth(word, exact=True) == state)
        yield from sorted(alike, key=lambda word: not _near(text.lower(), word.lower()))

    def _respelt(self, text: str) -> str:
        for pattern, put in self.mend.items():
            text = re.sub(f"(?i){pattern}", put, text)
        return text

    def _word(self, text: str) -> str:
        """Return the nearest word, in the case that was typed where case does not count."""
        if text.casefold() in map(str.casefold, self.words) and not (self.sensitive and text not in self.words):
            return text
        word = closest(text, self.words) or text
        lower = text.islower() and not self.sensitive and self.words[0] != self.words[0].upper()
        return word.lower() if lower else word


def _bare(value: str) -> str:
    """Return a value without the words and brackets that people put around one: `cuda:0`, `tcp://node1:29500`, `[0,1]`."""
    return _DEVICE.sub("", _PORT.sub("", re.sub(r"^\w+://", "", tidy(value)).strip("=,;&|[](){}/")))


def _options(value: str) -> list[str]:
    return [part for part in re.split(r",(?![^\[]*\])", value.replace(" ", "")) if part]


def _by_numbers(text: str, unit: int) -> Iterator[str]:
    """A number with a unit, without its unit, or with a fraction of nothing."""
    if amount := _AMOUNT.fullmatch(text):
        yield f"{amount[1]}{amount[2]}"
        if not amount[3].lower().startswith(("s", "ms", "min")):
            yield str(int(amount[1]) << _UNITS[amount[2].lower()] >> unit)
        yield amount[1]
    if re.fullmatch(r"\d+\.0*", text):
        yield text.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class _Named(Grammar):
    """A grammar with a name: one that many variables share, or that of one option of a list of `name:value`."""

    name: str


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
            match = pattern.fullmatch(environ[name])
            words |= {key: value or "" for key, value in match.groupdict().items()} if match else {}
        return words


def _matches(environ: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> bool:
    return name in environ and pattern.fullmatch(environ[name]) is not None


@dataclass(frozen=True)
class Bounds:
    """Words of two names that are alike otherwise: what `low` is set to may not be above `high` (NCCL_MIN_CTAS, NCCL_MAX_CTAS)."""

    low: str
    high: str


@dataclass(frozen=True)
class Clashes:
    """What may not be set together: the rows of `combinations.toml`."""

    combination: tuple[Combination, ...]
    bounds: tuple[Bounds, ...]


@cache
def clashes() -> Clashes:
    """Load `combinations.toml`."""
    return Table.load(TABLES / COMBINATIONS).row(Clashes)


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
    elsewhere: tuple[str, ...] = ()
    literal: bool = False
    """Whether a `$` in the value is meant."""
    expands: str = ""
    """Which of `~` and `$` the library itself expands."""
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
            object.__setattr__(grammar, "elsewhere", self.elsewhere)
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
