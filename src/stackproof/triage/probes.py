"""What is looked for in a log, and what was found: bounded, however long the log is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from stackproof.triage.search import SHAPE, blind, required

KEPT = 40
COUNTED = 500
"""After so many hits in a file a probe is sated: its texts are looked for no longer, except at the end of the file."""
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
    edge: int = 0
    """So many of the first hits in a file are enough, and of the last ones; of a log's usual lines."""
    sample: bool = False
    """Whether it is through with all files of the run once it remembers as many hits as it may."""
    late: bool = False
    """Whether it looks only at the end of a file."""
    raw: bool = False
    """Whether it looks at the line as it stands, prefixes and all."""
    whole: bool = False
    """Whether a match must not begin or end within a number: 0.0 is not found in 0.023."""

    @cached_property
    def _sighted(self) -> tuple[tuple[tuple[bytes, ...], ...], ...]:
        """What the patterns need that tell digits apart."""
        groups = (required(row.pattern) for row in self.patterns if self.span > 1 or not blind(row.pattern))
        return tuple(tuple(tuple(text.translate(SHAPE) for text in group) for group in row) for row in groups)

    def alike(self, shape: bytes) -> bool:
        """Whether lines of a shape, which differ in their digits alone, are all hits, or none is."""
        return self.span == 1 and not _holds_all(self._sighted, shape)

    @cached_property
    def _required(self) -> tuple[tuple[tuple[bytes, ...], ...], ...]:
        return tuple(required(pattern.pattern) for pattern in self.patterns)

    def may_match(self, raw: bytes) -> bool:
        """Whether a line holds all that a match of some pattern contains."""
        return self.span > 1 or _holds_all(self._required, raw)

    def match(self, text: str) -> re.Match[str] | None:
        """Return the first match of any pattern."""
        for pattern in self.patterns:
            found = pattern.search(text)
            while found and self.whole and cuts_number(text, *found.span()):
                found = pattern.search(text, found.start() + 1)
            if found:
                return found
        return None


def _holds_all(needs: Iterable[Iterable[Iterable[bytes]]], line: bytes) -> bool:
    """Whether a line holds, for any pattern, one text of each group."""
    for groups in needs:
        for group in groups:
            for text in group:
                if text in line:
                    break
            else:
                break
        else:
            return True
    return False


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
    """Compile patterns for a probe."""
    return tuple(re.compile(pattern) for pattern in patterns)
