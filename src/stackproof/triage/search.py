"""How a log is searched fast: by the fixed texts that every match must contain; and what is looked for and was found."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from stackproof.triage.logs import Window

# The standard library's own parser of patterns moved; it has no public name.
_OURS = sys.version_info >= (3, 11)
_parser: Any = importlib.import_module("re._parser" if _OURS else "sre_parse")
_constants: Any = importlib.import_module("re._constants" if _OURS else "sre_constants")

Texts = frozenset[bytes]
_ANY = frozenset({b""})

_MOST = 32  # texts that a part of a pattern may stand for
_USUAL = dict.fromkeys("0123456789", 2.0) | dict.fromkeys("etaoinsr", 3.0) | dict.fromkeys("lhdcumpgfwybv ", 4.0)
_DIGIT = re.compile(rb"\d")
_RARE = 6.0  # bits that any other character says about where it stands


@cache
def required(pattern: str) -> tuple[tuple[bytes, ...], ...]:
    """Return what every match of the pattern contains: of each group of texts at least one.

    Raises:
        re.error: the pattern is broken.
    """
    parsed = _parser.parse(pattern)
    groups = [] if parsed.state.flags & re.IGNORECASE else _usable(_groups(parsed))
    return tuple(tuple(sorted(group)) for group in groups)


def texts_of(pattern: str) -> tuple[bytes, ...]:
    """Return the rarest texts of which every match contains at least one; none when the pattern has no such text."""
    return max(required(pattern), key=_rarity, default=())


def _rarity(texts: Iterable[Iterable[int]]) -> float:
    """Return how much a place says where one of these texts is found, in bits: the commonest counts."""
    return min(sum(_USUAL.get(chr(byte), _RARE) for byte in text) for text in texts)


def _usable(groups: Iterable[Texts]) -> list[Texts]:
    """Return the groups that can be looked for, without what another text of theirs stands in."""
    usable = [group for group in groups if all(len(text) >= SHORTEST for text in group)]
    return [frozenset(text for text in group if not any(other in text for other in group - {text})) for group in usable]


def _groups(items: Iterable[Any]) -> list[Texts]:
    groups, run = list[Texts](), _ANY
    for operator, argument in items:
        texts, whole = _begins(operator, argument)
        fits = len(run) * len(texts) <= _MOST
        if fits and whole:
            run = _joined(run, texts)
            continue
        groups += [_joined(run, texts) if fits else run, *(() if whole else _inner(operator, argument))]
        run = texts if whole else _ANY
    return [*groups, run]


def _joined(run: Texts, texts: Texts) -> Texts:
    return frozenset(before + after for before in run for after in texts)


def _begins(operator: Any, argument: Any) -> tuple[Texts, bool]:
    """Return the texts with which what an item matches can begin, and whether they are all of it."""
    if operator is _constants.LITERAL:
        return frozenset({chr(argument).encode()}), True
    if operator in (_constants.AT, _constants.ASSERT, _constants.ASSERT_NOT):
        return _ANY, True
    if operator is _constants.IN and all(kind is _constants.LITERAL for kind, _ in argument):
        return frozenset(chr(char).encode() for _, char in argument), True
    if operator is _constants.SUBPATTERN and not argument[1] & re.IGNORECASE:
        return _sequence(argument[3])
    if operator is _constants.BRANCH:
        branches = [_sequence(branch) for branch in argument[1]]
        texts = frozenset().union(*(texts for texts, _ in branches))
        return (texts, all(whole for _, whole in branches)) if len(texts) <= _MOST else (_ANY, False)
    if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
        texts, whole = _sequence(argument[2])
        if argument[0] == 0:
            return (texts | _ANY, True) if whole and argument[1] == 1 else (_ANY, False)
        return texts, whole and argument[:2] == (1, 1)
    return _ANY, False


def _sequence(items: Iterable[Any]) -> tuple[Texts, bool]:
    run = _ANY
    for operator, argument in items:
        texts, whole = _begins(operator, argument)
        if len(run) * len(texts) > _MOST:
            return run, False
        run = _joined(run, texts)
        if not whole:
            return run, False
    return run, True


def _inner(operator: Any, argument: Any) -> list[Texts]:
    if operator is _constants.SUBPATTERN:
        return [] if argument[1] & re.IGNORECASE else _groups(argument[3])
    if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
        return _groups(argument[2]) if argument[0] > 0 else []
    if operator is _constants.BRANCH:
        branches = [max(_usable(_groups(branch)), key=_rarity, default=None) for branch in argument[1]]
        return [frozenset().union(*(texts for texts in branches if texts))] if all(branches) else []
    return []


_ALL_DIGITS = re.compile(r"\{\d*,?\d*\}|0-9|\(\?P<\w+>")
"""What stands for all digits in a pattern, or for none."""
_TELLS_DIGITS = re.compile(r"[0-9]|\(\?P=")

_MOST_SHAPES = 200_000

# Digits are one; a carriage return ends a line, because progress bars draw one over the other.
SHAPE = bytes.maketrans(b"123456789\r", b"000000000\n")

_ADDRESS = re.compile(rb"0x[0a-f]{6,}")


def shape(line: bytes) -> bytes:
    """Return what a line has in common with those that differ from it in digits and addresses alone."""
    return _ADDRESS.sub(b"0x0", line.translate(SHAPE))


Row = tuple[int, int, tuple[bytes, ...]]
"""A line that holds texts: its begin, its end, which."""
Wanted = Callable[[int, tuple[bytes, ...]], bool]
"""Whether anybody wants to see lines of a shape that hold such texts."""


class Shapes:
    """The shapes that logs showed so far, and what of some texts each may hold.

    Lines that differ in their digits and addresses alone have one shape, and one look at a shape does for all of them.
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._originals: dict[bytes, list[bytes]] = {}
        for text in texts:
            self._originals.setdefault(text.translate(SHAPE), []).append(text)
        self._plan = Plan(self._originals)
        self._texts: dict[int, tuple[tuple[bytes, ...], tuple[bytes, ...]]] = {}
        """What each shape holds for certain, and what it holds if its digits are so."""
        self._idle: set[int] = set()
        """The shapes of which nobody wants to see more."""

    def wake(self) -> None:
        """Look again at all shapes: another file begins, or a file ends."""
        self._idle.clear()

    def lines(self, window: Window, wanted: Wanted) -> Iterator[Row]:
        bare = window.data[window.start : window.end].translate(SHAPE)
        keys = list(map(hash, _ADDRESS.sub(b"0x0", bare).split(b"\n")))
        rows = bare.split(b"\n")
        if len(self._texts) > _MOST_SHAPES:
            self._texts.clear()
        here = set(keys)
        if fresh := here.difference(self._texts):
            self._learn({key: row for key, row in zip(keys, rows, strict=True) if key in fresh})
        for key in here - self._idle:
            if not wanted(key, sum(self._texts[key], ())):
                self._idle.add(key)
        places: dict[int, list[int]] = {key: [] for key in here - self._idle}
        for n in itertools.compress(range(len(keys)), map(places.__contains__, keys)):
            places[keys[n]].append(n)
        return self._chosen(rows, window, wanted, places) if places else iter(())

    def _learn(self, rows: dict[int, bytes]) -> None:
        for key, row in rows.items():
            held = [text for part in self._plan.held(row) for text in self._originals[part]]
            numbered = tuple(filter(_DIGIT.search, held))
            self._texts[key] = tuple(text for text in held if text not in numbered), numbered

    def _chosen(self, rows: list[bytes], window: Window, wanted: Wanted, places: dict[int, list[int]]) -> Iterator[Row]:
        sums = list(itertools.accumulate(map(len, rows), initial=window.start))  # without the ends of lines
        several = {text for key in places for text in self._texts[key][1]}
        present = {text for text in several if window.data.find(text, window.start, window.end) >= 0}
        chosen = list[tuple[int, tuple[bytes, ...]]]()
        for key, numbers in places.items():
            sure, numbered = self._texts[key]
            groups = {sure: numbers}
            if maybe := [text for text in numbered if text in present]:
                groups = {}
                for n in numbers:
                    also = [text for text in maybe if window.data.find(text, sums[n] + n, sums[n + 1] + n) >= 0]
                    groups.setdefault((*sure, *also), []).append(n)
            for texts, own in groups.items():
                if texts and wanted(key, texts):
                    chosen.extend((n, texts) for n in own)
        for n, texts in sorted(chosen):
            yield sums[n] + n, sums[n + 1] + n, texts


SHORTEST = 3
"""Texts of fewer bytes are found everywhere and say nothing."""


class Plan:
    """Finds which of many texts a line holds: each is looked for only where its rarest three bytes are."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._by_three: dict[tuple[int, ...], list[bytes]] = {}
        for text in texts:
            rarest = max(_threes(text), key=lambda three: _rarity([three]))
            self._by_three.setdefault(rarest, []).append(text)

    def held(self, line: bytes) -> list[bytes]:
        threes = self._by_three.keys() & _threes(line)
        return sorted(text for three in threes for text in self._by_three[three] if text in line)


def _threes(text: bytes) -> Iterator[tuple[int, ...]]:
    return zip(text, text[1:], text[2:], strict=False)


KEPT = 40
COUNTED = 500
"""After so many hits in a file a probe is sated: it sees no further lines, except those at the end of the file."""
_RANKS = 4096
_GOES_ON = re.compile(r"\d|\.\d|[eE][+-]?\d")

Groups = Mapping[str, str]
Who = tuple[str, int]
"""Who wrote a line, as far as the log says: ("rank", 3), ("pid", 4711), or ("file", 0)."""


@dataclass(frozen=True)
class Probe:
    """A question to every line: one that holds any of the texts and matches any of the patterns is a hit.

    `span` lines are matched as one text (torchrun writes a rank on one line and its exit code on the next); `follows` asks
    for the traceback that the line begins; of the hits, `kept` are remembered, with their time if they are `timed`.
    """

    key: str
    texts: tuple[bytes, ...]
    patterns: tuple[re.Pattern[str], ...]
    span: int = 1
    follows: bool = False
    kept: int = KEPT
    counted: int = COUNTED
    timed: bool = True
    asks: bool = False
    """Whether it looks for what somebody asked for: in a document that is a recipe."""
    terse: bool = False
    """Whether one line is all that it sees: in a document only a fenced one counts."""
    frugal: bool = False
    """Whether a line that it looked at in vain counts as a hit: it asks for samples of what a log is full of."""
    sample: bool = False
    """Whether it is through with all files of the run once it remembers as many hits as it may."""
    late: bool = False
    """Whether it looks only at the end of a file."""
    raw: bool = False
    """Whether it looks at the line as it stands, prefixes and all."""
    whole: bool = False
    """Whether a match must not begin or end within a number: 0.0 is not found in 0.023."""

    @cached_property
    def alike(self) -> bool:
        """Whether lines that differ in their digits alone are all hits, or none is."""
        return self.span == 1 and not any(
            _TELLS_DIGITS.search(_ALL_DIGITS.sub("", row.pattern)) for row in self.patterns
        )

    def match(self, text: str) -> re.Match[str] | None:
        """Return the first match of any pattern."""
        for pattern in self.patterns:
            match = pattern.search(text)
            while match and self.whole and cuts_number(text, *match.span()):
                match = pattern.search(text, match.start() + 1)
            if match:
                return match
        return None


@dataclass(frozen=True, order=True)
class Position:
    """Where a line stands: in which file of the run, at which byte, as which of several lines glued into one; and its number."""

    source: int
    offset: int
    part: int
    line: int


@dataclass(frozen=True)
class Block:
    """A traceback: the exception (its last line), the innermost frames, and the number of its last line."""

    exception: str
    frames: tuple[str, ...]
    last_line: int


@dataclass(frozen=True)
class Hit:
    """A line that a probe found, who wrote it, and the time that it or the nearest line before it names."""

    place: Position
    text: str
    who: Who
    seconds: float | None
    groups: Groups = field(hash=False)
    block: Block | None = None


@dataclass
class Tally:
    """The hits of one probe: how many, the first ones, and the first and the last of each writer."""

    count: int = 0
    kept: list[Hit] = field(default_factory=list)
    first: dict[Who, Hit] = field(default_factory=dict)
    last: dict[Who, Hit] = field(default_factory=dict)

    @property
    def edges(self) -> list[Hit]:
        """The first and the last hit of each writer, in order."""
        return sorted(
            {hit.place: hit for hit in (*self.first.values(), *self.last.values())}.values(), key=lambda hit: hit.place
        )

    def keeps(self, who: Who, room: int) -> bool:
        """Whether a hit of that writer would be remembered for good."""
        return len(self.kept) < room or who not in self.first

    def add(self, hit: Hit, room: int) -> None:
        """Count the hit and remember it as far as there is room."""
        self.count += 1
        if len(self.kept) < room:
            self.kept.append(hit)
        if hit.who in self.first or len(self.first) < _RANKS:
            self.first.setdefault(hit.who, hit)
            self.last[hit.who] = hit


def cuts_number(text: str, start: int, end: int) -> bool:
    """Whether a part of a text begins or ends within a number."""
    if start < end and text[end - 1].isdigit() and _GOES_ON.match(text, end):
        return True
    return start < end and text[start].isdigit() and bool(re.search(r"\d\.?$", text[max(0, start - 2) : start]))


def compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in patterns)
