"""What is looked for in logs: known failures (`data/signatures/`), and endings, facts and expectations (`data/triage/`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.toml import PLACE, Key, OneOf, Parsed, Table, Wrong, kept
from stackproof.triage import search
from stackproof.triage.search import COUNTED, KEPT, SHORTEST, Probe, compiled

SIGNATURES = DATA / "signatures"
FAULT, CONSEQUENCE, NOISE = KINDS = ("fault", "consequence", "noise")
UNKNOWN = "no known signature"
CERTAIN = "certain"
CERTAINTIES = (CERTAIN, "likely")
FOLDER = DATA / "triage"
FATAL, EXIT, BARE, HINT, HANG = ("fatal", "exit", "bare", "hint", "hang")
PROCESS, CHAIN, ALIVE, FINISHED, CLAIMED, IGNORED = ("process", "chain", "alive", "finished", "claimed", "ignored")
START, COUNTER, HANDLED = ("start", "counter", "handled")
ROLES = (FATAL, EXIT, BARE, HINT, HANG, PROCESS, CHAIN, ALIVE, FINISHED, CLAIMED, IGNORED, START, COUNTER, HANDLED)
ASKED, IN_EFFECT, FACT, COLLECTIVE = FACT_ROLES = ("asked", "in effect", "fact", "collective")
YES, NO = ANSWERS = ("yes", "no")


def _pattern(pattern: str) -> str:
    try:
        search.texts_of(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"has {pattern!r}, which is no regular expression ({error}); mend it") from error
    return pattern


def _with_text(pattern: str) -> str:
    if not search.texts_of(_pattern(pattern)):
        raise ValueError(f"has {pattern!r}, which need not contain any fixed text of {SHORTEST} letters; add one")
    return pattern


def _wrapper(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:\w+\.)*(?:{_pattern(pattern)})")


Pattern = Annotated[str, Parsed(_pattern)]
WithText = Annotated[str, Parsed(_with_text)]


def _fixed(patterns: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(text for pattern in patterns for text in search.texts_of(pattern))


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One row: how it is recognised, what it means, what to do, and texts that must and must not match.

    {group} in the title stands for what a pattern's group of that name caught. A general
    row speaks only where no other fits.
    """

    id: str
    kind: Annotated[str, OneOf(KINDS)] = FAULT
    title: str
    patterns: tuple[WithText, ...]
    context: tuple[WithText, ...] = ()
    absent: tuple[WithText, ...] = ()
    cause: str
    remedy: str
    link: str
    requirement: str = ""
    certainty: Annotated[str, OneOf(CERTAINTIES)] = CERTAIN
    examples: tuple[str, ...]
    near_misses: tuple[str, ...] = ()
    lasting: bool = False
    general: bool = False

    def __post_init__(self) -> None:
        for key in ("patterns", "examples"):
            if not getattr(self, key):
                raise Wrong(key, "is empty; it needs at least one text")

    @cached_property
    def probe(self) -> Probe:
        return Probe(self.id, _fixed(self.patterns), compiled(self.patterns), whole=True)

    @cached_property
    def longest(self) -> int:
        """How many bytes a match contains for certain: of two rows that fit, the one that asks for more counts."""
        return max(min(map(len, group)) for pattern in self.patterns for group in search.required(pattern))

    @cached_property
    def conditions(self) -> tuple[Probe, ...]:
        """What must, and what must not, occur besides, somewhere in the same run."""
        rows = [
            (f"{self.id}/{kind}/{n}", text)
            for kind in ("context", "absent")
            for n, text in enumerate(getattr(self, kind))
        ]
        return tuple(Probe(key, search.texts_of(text), compiled([text]), kept=1, counted=1) for key, text in rows)


@cache
def load_all(folder: Path = SIGNATURES) -> tuple[Signature, ...]:
    """Return every signature, in order of file and row.

    Raises:
        Refusal: a file is broken; the sentence names file, row, key and what is allowed.
    """
    rows: dict[str, Signature] = {}
    for path in sorted(folder.glob("*.toml")):
        with Table.load(path) as table:
            for row in table.rows("signature", Signature):
                if row.id in rows:
                    raise Refusal(f"{path}: 'id' is {row.id!r}, which another row has; choose another")
                rows[row.id] = row
    return tuple(rows.values())


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A row that says what is looked for; `texts` stand in where what its patterns must contain stands on too many lines."""

    place: Annotated[str, PLACE]
    patterns: tuple[Pattern, ...]
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in () if self.texts else self.patterns:
            try:
                _with_text(pattern)
            except ValueError as error:
                raise Wrong("patterns", str(error)) from error

    def looked_for(self, **more: Any) -> Probe:
        texts = tuple(text.encode() for text in self.texts) or _fixed(self.patterns)
        return Probe(self.place, texts, compiled(self.patterns), **more)


@dataclass(frozen=True, kw_only=True)
class Ending(Searched):
    """How a process ends.

    Its own last words (fatal, hang), an exception without its traceback (bare), its launcher's words (exit), an error line that may
    explain it (hint). A weak one only says that something else was said before. Besides: what links two exceptions (chain), which
    process is which rank, what a run prints once at its start, while it works (alive), of how much (counter), when the work was done
    (finished) and when it only says so (claimed), that a failure was dealt with (handled), and what precedes a traceback that ends
    nothing (ignored). A raw one looks at the line with its prefixes.
    """

    role: Annotated[str, OneOf(ROLES)]
    weak: bool = False
    traceback: bool = False
    span: int = 1
    raw: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span > 1 and not self.texts:
            raise Wrong("texts", "is missing: with 'span', name what stands on the first line")

    @cached_property
    def probe(self) -> Probe:
        if self.role == ALIVE:  # a log is full of it
            return self.looked_for(kept=KEPT, counted=KEPT, timed=False, frugal=True)
        terse = self.role in (BARE, HINT)
        return self.looked_for(
            span=self.span,
            follows=self.traceback,
            kept=10 * KEPT,
            terse=terse,
            raw=self.raw,
            timed=self.role not in (COUNTER, START, HANDLED, FINISHED, CLAIMED),
            counted=KEPT if self.role == COUNTER else COUNTED,
            frugal=self.role == COUNTER,
            late=self.role in (FINISHED, CLAIMED) or (self.role == HINT and self.weak),
        )


@dataclass(frozen=True, kw_only=True)
class Fact(Searched):
    """A version, a piece of topology or a setting; `odd` says what is odd about `least` or more values of it, if anything.

    One that shows which stack a run is of names it, and what makes its ranks say what they wait for (`talk`).
    """

    name: str = ""
    group: str = ""
    role: Annotated[str, OneOf(FACT_ROLES)] = FACT
    odd: str = ""
    least: int = 1
    stack: str = ""
    talk: str = ""

    @cached_property
    def probe(self) -> Probe:
        sample = self.role != COLLECTIVE  # of which the last of each rank counts
        return self.looked_for(kept=10 * KEPT, timed=False, asks=self.role == ASKED, sample=sample)


@dataclass(frozen=True, kw_only=True)
class Sign(Searched):
    """A line that counts for or against a part of an expectation; a weak one counts only if nothing counts for it."""

    part: str
    answer: Annotated[str, OneOf(ANSWERS)]
    weak: bool = False

    @cached_property
    def probe(self) -> Probe:
        return self.looked_for(kept=5 * KEPT, timed=False, sample=True)


@dataclass(frozen=True)
class Expectation:
    """A claim about a run: it holds when every part of it is shown and none is refuted; `how` says what makes a log show it."""

    name: str
    title: str
    how: str
    signs: Annotated[tuple[Sign, ...], Key("sign")]


@dataclass(frozen=True)
class Contradiction:
    """Something asked for that the log shows not to be so."""

    place: Annotated[str, PLACE]
    id: str
    title: str
    remedy: str
    link: str
    asking: Annotated[tuple[WithText, ...], Key("asked")]
    showing: Annotated[tuple[WithText, ...], Key("shown")]

    @cached_property
    def asked(self) -> Probe:
        return Probe(f"{self.place}.asked", _fixed(self.asking), compiled(self.asking), timed=False, asks=True)

    @cached_property
    def shown(self) -> Probe:
        """What shows that it is not so."""
        return Probe(f"{self.place}.shown", _fixed(self.showing), compiled(self.showing), timed=False)


@dataclass(frozen=True)
class Endings:
    """The table of endings; `wrappers` are what exceptions look like that launchers raise because a rank failed."""

    wrappers: tuple[Annotated[re.Pattern[str], Parsed(_wrapper)], ...]
    ending: tuple[Ending, ...]
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Claims:
    """The table of claims that can be asked for, and of what cannot both be so."""

    expectation: tuple[Expectation, ...]
    contradiction: tuple[Contradiction, ...]


ends = kept(FOLDER / "endings.toml", Endings)
claims = kept(FOLDER / "expectations.toml", Claims)


@cache
def endings(*roles: str) -> tuple[Ending, ...]:
    """Return how processes end, all rows or those of some roles."""
    return tuple(row for row in ends().ending if not roles or row.role in roles)


@cache
def words() -> dict[str, str]:
    """Return which signal is meant by the words of shells and launchers."""
    return {word: name for name, used in ends().words.items() for word in used}


@cache
def facts(*roles: str) -> tuple[Fact, ...]:
    """Return what versions, topology and settings look like, all rows or those of some roles."""
    if roles:
        return tuple(row for row in facts() if row.role in roles)
    with Table.load(FOLDER / "facts.toml") as table:
        return tuple(table.rows("fact", Fact))


@cache
def expectations() -> dict[str, Expectation]:
    """Return the claims that can be asked for, by name."""
    return {row.name: row for row in claims().expectation}


def probes() -> Iterator[Probe]:
    yield from (row.probe for row in endings())
    yield from (row.probe for row in facts())
    yield from (sign.probe for row in expectations().values() for sign in row.signs)
    for row in claims().contradiction:
        yield from (row.asked, row.shown)
