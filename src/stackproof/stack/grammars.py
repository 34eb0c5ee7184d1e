"""What the value of a variable may look like, and what was likely meant by one that does not. The words are data.

A grammar is a pattern for the whole value, made of words, numbers or options; what is likely meant is looked for by mending the value
as people spoil it (quotes, blanks, separators, case, units, slips of letters) until the grammar accepts it.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from stackproof.base.errors import distance
from stackproof.base.toml import Wrong, expression

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
_SPAN = re.compile(r"(\d+)-(\d+)")
_MOST_SPAN = 64
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
    found = difflib.get_close_matches(word.casefold(), same, n=1, cutoff=cutoff)
    return same[found[0]] if found else None


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
    near = set() if exact else {one in _TRUE for one in _TRUE + _FALSE if _near(word, one)}
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
    return "".join(char for char in word if char.isdecimal())


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """What a value may look like. `pattern` is for the whole of it; `says` ends "NAME='value' is not ..."."""

    pattern: re.Pattern[str]
    says: str
    example: str
    words: tuple[str, ...] = ()
    sensitive: bool = False
    """Whether case counts."""
    low: int | None = None
    high: int | None = None
    unit: int = 0
    """What a number counts, as a power of two of bytes: 20 where it counts MiB."""
    distinct: bool = False
    """Whether no part of a list may stand in it twice."""
    options: Mapping[str, Grammar] = field(default_factory=dict)
    """For a list of `name:value`: what each name takes."""
    elsewhere: tuple[str, ...] = ()
    """Options that only other variables of the kind know."""
    host: str = ""
    """How the value is held against the host (`on_host.py`)."""
    open: bool = False
    """Whether words of other libraries are legal too, so that only one near a known word is wrong."""
    mend: tuple[tuple[re.Pattern[str], str], ...] = ()
    """What people write for it and what it has to be, where that is computed and no guess."""

    def wrong(self, value: str) -> str:
        """Return why the value cannot be, to stand after "NAME='value' "; empty if it can."""
        if not self.pattern.fullmatch(value):
            return f"is not {self.says}"
        if self.options:
            return next(filter(None, (self._wrong_option(part) for part in _options(value))), "")
        if self.low is not None or self.high is not None:
            return "" if self._in_range(value) else f"is not {self.says}"
        if twice := self.distinct and _twice(value):
            return f"names {twice} twice"
        strange = next(filter(self._strange, re.findall(r"[\w.]+", value)), "") if self.open else ""
        return f"has {strange}, and a value is {self.says}" if strange else ""

    def meant(self, value: str, name: str = "") -> str | None:
        """Return what the value was likely meant to be; None if nobody can tell.

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
        """Whether the values are yes and no."""
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
        said = self.options[name].wrong(value)
        return f"has {name}:{value}, and {value or 'nothing'} {said}" if said else ""

    def _mended(self, value: str, name: str) -> Iterator[str]:
        """Every way of mending, the likeliest first; blanks between words part them, other blanks are too many."""
        if self._switches:
            yield from self._by_truth(tidy(value).strip("=,;&|[](){}"), name)
        yield from (self._respelt(text) for text in (value, tidy(value)) if self._respelt(text) != text)
        if re.search(r"\w\s+\w", value.strip()):
            yield from self._parted(value)
        plain = tidy(value)
        bare = re.sub(r"^\w+://", "", tidy(value.split(" #")[0])).strip("=,;&|[](){}/")
        for text in dict.fromkeys((plain, self._respelt(plain), bare, bare.lstrip("="), _excluded_once(plain))):
            yield text
            yield from (text.replace(",", ";"), text.replace(";", ","))
            yield from self._by_words(text)
            yield from _by_numbers(text, self.unit)
            yield from (_PORT.sub("", text), _DEVICE.sub("", text), _spread(text), _once(text))
        yield from self._parted(value)
        if self.options:
            yield from self._by_options(plain)

    def _parted(self, value: str) -> Iterator[str]:
        """With another separator between its parts."""
        for separator in ",;:.":
            parted = re.sub(r"[,;:|/+\s]+", separator, value.translate(_QUOTES).strip(" [](){}"))
            yield from (parted, _DEVICE.sub("", parted), *self._by_words(parted))

    def _by_words(self, text: str) -> Iterator[str]:
        """Each word that is none replaced by the closest."""
        if self.words and not self._switches:
            yield re.sub(r"[\w.*][\w.*-]*", lambda found: self._word(found[0]), text)
            yield from self._by_truth(text, "")

    def _by_truth(self, text: str, name: str) -> Iterator[str]:
        """A truth value as this variable spells it: nearest to what was typed first, then as its table has them."""
        said = truth(text, name)
        if said is None or (not self._switches and text.lower() not in _TRUE + _FALSE):
            return
        spelt = self.words or ("1", "0")
        alike = [
            word for word in spelt if truth(word, exact=True) == said and not (word.isdecimal() and not self._switches)
        ]
        yield from sorted(alike, key=lambda word: not _near(text.lower(), word.lower()))

    def _respelt(self, text: str) -> str:
        for pattern, put in self.mend:
            text = pattern.sub(put, text)
        return text

    def _word(self, text: str) -> str:
        """Return the word that was likely meant, in the case that it was typed in where case does not count."""
        if text in self.words or (not self.sensitive and text.casefold() in map(str.casefold, self.words)):
            return text
        found = closest(text, self.words) or text
        return (
            found.lower() if text.islower() and not self.sensitive and self.words[0] != self.words[0].upper() else found
        )

    def sound(self, value: str) -> str:
        """Return an example that keeps what is right of a list of options; else the example."""
        mended = (
            next((text for text in self._by_options(tidy(value), True) if not self.wrong(text)), "")
            if self.options
            else ""
        )
        return mended or self.example

    def _by_options(self, text: str, by_example: bool = False) -> Iterator[str]:
        parted = re.sub(r";(?=\w+[:=])", ",", re.sub(r"(\w)=(?=\w|\[)", r"\1:", text))
        mended = [self._option(part, by_example) for part in _options(parted)]
        yield ",".join(part for part in mended if part)

    def _option(self, part: str, by_example: bool) -> str:
        name, _, value = part.partition(":")
        if name in self.elsewhere:
            return ""
        name = name if name in self.options else closest(name, tuple(self.options)) or name
        rule = self.options.get(name)
        if not rule or not rule.wrong(value):
            return f"{name}:{value}"
        return f"{name}:{rule.meant(value) or (rule.example if by_example else value)}"


def _options(value: str) -> list[str]:
    """Split at the commas that stand outside of brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", value.replace(" ", "")) if part]


def _twice(value: str) -> str:
    parts = [part.strip() for part in value.split(",")]
    return next((part for part in parts if parts.count(part) > 1), "")


def _once(text: str) -> str:
    return ",".join(dict.fromkeys(text.split(",")))


def _excluded_once(text: str) -> str:
    """Return a list whose every part is left out with the one ^ that its libraries read."""
    parts = re.split("[,;]", text)
    return "^" + ",".join(part[1:] for part in parts) if all(re.match(r"[\^!~]\w", part) for part in parts) else text


def _spread(text: str) -> str:
    """Write a span of numbers out: 0-3 is 0,1,2,3."""

    def out(found: re.Match[str]) -> str:
        first, last = int(found[1]), int(found[2])
        return ",".join(map(str, range(first, last + 1))) if first <= last < first + _MOST_SPAN else found[0]

    return _SPAN.sub(out, text)


def _by_numbers(text: str, unit: int) -> Iterator[str]:
    """A number with a unit, with a fraction of nothing, with marks between its digits."""
    if found := _AMOUNT.fullmatch(text):
        is_time = found[3].lower().startswith(("s", "ms", "min"))
        yield f"{found[1]}{found[2]}"
        yield found[1] if is_time else str(int(found[1]) << _UNITS[found[2].lower()] >> unit)
        yield found[1]
    if re.fullmatch(r"\d+\.0*", text):
        yield text.partition(".")[0]
    if re.fullmatch(r"\d{1,3}([,_']\d{3})+", text):
        yield re.sub(r"\D", "", text)


@dataclass(frozen=True, kw_only=True)
class Form:
    """A grammar as the tables have it: a pattern, words (`<word>` in the pattern; case counts if `sensitive`), or a range of numbers."""

    pattern: str = ""
    choices: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Words that stand for `<key>` in the pattern."""
    low: int | None = None
    high: int | None = None
    unit: int = 0
    sensitive: bool = False
    distinct: bool = False
    host: str = ""
    open: bool = False
    mend: Mapping[str, str] = field(default_factory=dict)
    """Patterns of what people write, each with what to put there."""
    says: str = ""
    example: str = ""

    def __post_init__(self) -> None:
        if self.pattern and not (self.says and self.example):
            raise Wrong("says" if not self.says else "example", "is missing; it must be a string")
        if self.pattern and not self.choices and "<word>" in self.pattern:
            raise Wrong("choices", "is missing; the pattern has <word>")

    @property
    def empty(self) -> bool:
        """Whether nothing is said of values."""
        return not (self.pattern or self.choices or self.low is not None or self.high is not None)

    def made(self) -> Grammar:
        """Return the grammar."""
        number = self.low is not None or self.high is not None
        template = self.pattern or (_NUMBER if number else "<word>")
        for place, words in (("<word>", self.choices), ("<key>", self.keys)):
            template = template.replace(place, f"(?:{'|'.join(map(re.escape, words))})")
        flags = re.DOTALL | (0 if self.sensitive else re.IGNORECASE)
        return Grammar(
            pattern=expression(flags).parse(template),
            says=self.says or (self._range() if number else f"one of {', '.join(self.choices)}"),
            example=self.example or (str(self.low or 0) if number else self.choices[0]),
            words=(*self.choices, *self.keys),
            sensitive=self.sensitive,
            low=self.low,
            high=self.high,
            unit=self.unit,
            distinct=self.distinct,
            host=self.host,
            open=self.open,
            mend=tuple((re.compile(find, re.IGNORECASE), put) for find, put in self.mend.items()),
        )

    def _range(self) -> str:
        if self.high is None:
            return f"a whole number from {self.low} up"
        return (
            f"a whole number up to {self.high}"
            if self.low is None
            else f"a whole number from {self.low} to {self.high}"
        )
