"""Names of hosts in free text: in any case, with a domain, in lists as schedulers write them, and within other words.

A name that is a number, or a word that sentences are made of, is told from that word by where it stands: behind "host", in quotes,
in a path or in a list of names.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from stackproof.api.record import Verdict
from stackproof.api.stack import stacks
from stackproof.extras.fleet import rules, wanted
from stackproof.extras.fleet.judgement import Standing

_DOMAIN = re.compile(r"(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W_](?:[\w.-]|[\[{][\w,.:-]*[\]}])*")
_BRACKET = re.compile(r"[\[{]")
_ESCAPED = re.compile(r"%2([de])", re.IGNORECASE)
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d\u00ad"), "-")
_CUT = re.compile(r"([\w.-]+)(?= \[cut: \d+ more characters\]|$)")
_PLACES = (
    re.compile(
        r"(?i)\b(?:hosts?|nodes?|nodename|nodelist|beside|such as|the same)[ =:]+['\"]?([\w.-]+(?:, ?[\w.-]+)*)"
    ),
    re.compile(r"such as [\w.-]+ with ([\w.-]+)"),
    re.compile(r"['\"/]([\w.-]+?)(?=['\"/]|\.json\b|\.started\b)"),
    re.compile(r"\(([\w.-]+(?:, [\w.-]+)*)(?: and \d+ more)?\)"),
    re.compile(r"(?m)^([\w.-]+):"),
)  # fmt: skip
"""Where a name stands, whatever word it is; a list of several is taken apart."""
_OTHER = re.compile(r"(?<=says that it is of ')[^']+(?=')")
"""Whom a record of another host names."""
_LIST = re.compile(r"[\[{]\d+(?:[,-]|\.\.)[\d,.-]*[\]}]")
_LONG, _SHORT = 4, 2


def pseudonym(name: str, secret: bytes) -> str:
    """Return what a host is called without its name: the same for the same key, however its letters are written."""
    return f"host-{hmac.new(secret, name.casefold().encode(), hashlib.sha256).hexdigest()[:10]}"


@cache
def ordinary() -> frozenset[str]:
    """Return the words that sentences of a judgement are made of."""
    said = [*rules.load().redaction.ordinary, *wanted.parts(), *stacks.names()]
    said += [word.value for words in (Standing, Verdict) for word in words]
    return frozenset(part.casefold() for word in said for part in (word, *re.split(r"[ -]", word)))


def is_ordinary(name: str) -> bool:
    """Whether a name is also a number or a word, so that it says nothing where it does not stand as a name."""
    return name.isdecimal() or (name.isalpha() and len(name) <= _SHORT) or name in ordinary()


@dataclass(frozen=True)
class Names:
    """Names of hosts, and what each becomes."""

    secret: bytes
    told: Mapping[str, str]
    """What is a name wherever it stands."""
    words: Mapping[str, str]
    """What is a name only where one stands."""
    files: re.Pattern[str]
    """Names that can be no host's, as those of files: they have blanks and other marks."""
    lengths: tuple[int, ...]
    stems: tuple[str, ...]
    """How names begin that differ in their last part only."""
    _seen: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """What words have become: sentences on many hosts repeat them."""

    @classmethod
    def of(cls, names: Iterable[str], secret: bytes, more: Mapping[str, str]) -> Names:
        """Take names; one with a domain goes by its first part too, and its domain goes with it. `more`: words with what they become."""
        every = {name.casefold(): said for name, said in more.items() if name}
        for name in sorted({one.casefold() for one in names if one}):
            short, _, domain = name.partition(".")
            every.setdefault(name, pseudonym(name, secret))
            every.setdefault(short, every[name])
            if domain and not domain.isdecimal():
                every.setdefault(domain, "domain")
        told = {name: said for name, said in every.items() if not is_ordinary(name)}
        words = {name: said for name, said in every.items() if is_ordinary(name)}
        stems = {stem for name in told for stem in _stems(name)}
        files = [re.escape(name) for name in told if not rules.is_host(name)]
        pattern = re.compile("|".join(sorted(files, key=len, reverse=True)) or "(?!)", re.IGNORECASE)
        return cls(secret, told, words, pattern, _longest(told), tuple(sorted(stems, key=len, reverse=True)))

    def host(self, name: str) -> str:
        """Return what a name becomes that is known to be one."""
        folded = name.casefold()
        return self.told.get(folded) or self.words.get(folded) or pseudonym(name, self.secret)

    def clean(self, text: str) -> str:
        """Return a text without them."""
        text = self.files.sub(lambda found: self.told.get(found[0].casefold(), "host"), _normal(text))
        text = _OTHER.sub(lambda found: self.host(found[0]), text)
        for place in _PLACES if self.words else ():
            text = place.sub(self._placed, text)
        text = _CUT.sub(self._ended, text) if "[cut: " in text else text
        return _TOKEN.sub(lambda found: self._token(found[0]), text)

    def _placed(self, found: re.Match[str]) -> str:
        """Replace words where names stand."""
        start, end = found.start(1) - found.start(), found.end(1) - found.start()
        parts = re.split(r"(, ?)", found[1])
        return found[0][:start] + "".join(self.words.get(part.casefold(), part) for part in parts) + found[0][end:]

    def _ended(self, found: re.Match[str]) -> str:
        """Replace the beginning of a name that a cut has left."""
        word = found[1].casefold()
        begun = len(word) >= _LONG and word not in self.told and any(name.startswith(word) for name in self.told)
        return "host" if begun else found[0]

    def _token(self, word: str) -> str:
        if word not in self._seen:
            self._seen[word] = self._renamed(word)
        return self._seen[word]

    def _renamed(self, word: str) -> str:
        folded = "".join(letter.casefold()[:1] for letter in word)
        bracket = _BRACKET.search(word)
        if bracket and (_LIST.search(word) or self._akin(folded[: bracket.start()])):
            return pseudonym(word, self.secret).replace("host", "hosts")
        cleaned = self._within(word, folded)
        return cleaned if cleaned != word else self._of_family(word, folded)

    def _akin(self, stem: str) -> bool:
        """Whether a list that begins so may be one of these hosts."""
        return any(name.startswith(stem) for name in (*self.told, *self.words)) or stem.startswith(self.stems)

    def _within(self, word: str, folded: str) -> str:
        """Return a word without the names in it; the longest counts where several begin."""
        pieces, at, kept = list[str](), 0, 0
        while at < len(word):
            size = next(
                (one for one in self.lengths if folded[at : at + one] in self.told and _stands(folded, at, one)), 0
            )
            if not size:
                at += 1
                continue
            after = _DOMAIN.match(word, at + size)
            pieces += [word[kept:at], self.told[folded[at : at + size]]]
            at = kept = after.end() if after else at + size
        return "".join([*pieces, word[kept:]])

    def _of_family(self, word: str, folded: str) -> str:
        """Return a word without a name like the others, such as that of a host that is not of the sweep."""
        first = folded.partition(".")[0]
        for stem in self.stems:
            if first.startswith(stem) and re.fullmatch(
                r"\d+[a-z]?" if stem.isalpha() else r"[a-z]{0,2}\d*", first[len(stem) :]
            ):
                return pseudonym(first, self.secret)
            bare = stem.rstrip("-_.")
            if len(bare) >= _LONG and not bare.isalpha() and first.strip("-_.") == bare:
                return "host"
        return word


def _stems(name: str) -> Iterator[str]:
    """Yield how a name begins, without its number or its last part."""
    first = name.partition(".")[0]
    for stem in (first.rstrip("0123456789"), first[: max(first.rfind("-"), first.rfind("_")) + 1]):
        if stem not in ("", first):
            yield stem


def _longest(names: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted({len(one) for one in names}, reverse=True))


def _stands(text: str, at: int, size: int) -> bool:
    """Whether it is a name: one that is short, or of letters only, must stand alone, as its letters are in other words too."""
    before, after = text[at - 1 : at] if at else "", text[at + size : at + size + 1]
    return (size >= _LONG and not text[at : at + size].isalpha()) or not (before.isalnum() or after.isalpha())


def _normal(text: str) -> str:
    """Return a text whose names are written in one way: no wide letters, no other hyphens, nothing invisible, nothing escaped."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_HYPHENS)
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    return _ESCAPED.sub(lambda found: "-" if found[1] in "dD" else ".", text)


Clean = Callable[[str], str]
