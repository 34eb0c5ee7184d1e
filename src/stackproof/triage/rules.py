"""What else is looked for, as data: `fixtures/triage/*.toml`, read strictly.

`endings.toml` says how processes end, `facts.toml` what versions, topology and settings look like, `expectations.toml` what
proves or refutes a claim about a run, and which things that were asked for contradict what a log shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from .. import ROOT
from ..tables import Table
from . import required
from .literals import SHORTEST
from .probes import KEPT, Probe, compiled

FOLDER = ROOT / "fixtures" / "triage"

FATAL, EXIT, HINT, HANG = ("fatal", "exit", "hint", "hang")
PROCESS, CHAIN, FINISHED, IGNORED = ("process", "chain", "finished", "ignored")
ROLES = (FATAL, EXIT, HINT, HANG, PROCESS, CHAIN, FINISHED, IGNORED)
_ENDINGS, _FACTS, _EXPECTATIONS = "endings.toml", "facts.toml", "expectations.toml"
ASKED, IN_EFFECT, FACT, COLLECTIVE = FACT_ROLES = ("asked", "in effect", "fact", "collective")
YES, NO = ANSWERS = ("yes", "no")


@dataclass(frozen=True)
class Ending:
    """How a process ends: its own last words (fatal, hang), its launcher's (exit), an error line that may explain it (hint).

    A weak one only says that something else was said before. Besides: what links two exceptions (chain), which process is which
    rank, what a run prints when it is through (finished), what precedes a traceback that ends nothing (ignored).
    """

    role: str
    weak: bool
    probe: Probe


@dataclass(frozen=True)
class Fact:
    """A version, a piece of topology or a setting; `odd` says what is odd about `least` or more values of it, if anything."""

    name: str
    group: str
    role: str
    odd: str
    least: int
    probe: Probe


@dataclass(frozen=True)
class Sign:
    """A line that counts for or against a part of an expectation; a weak one counts only if nothing counts for it."""

    part: str
    answer: str
    weak: bool
    probe: Probe


@dataclass(frozen=True)
class Expectation:
    """A claim about a run: it holds when every part of it is shown and none is refuted; `how` says what makes a log show it."""

    name: str
    title: str
    how: str
    signs: tuple[Sign, ...]


@dataclass(frozen=True)
class Contradiction:
    """Something asked for that the log shows not to be so."""

    id: str
    title: str
    remedy: str
    link: str
    asked: Probe
    shown: Probe


def check_text(row: Table, key: str, text: str) -> bytes:
    """Return a text that is looked for, or refuse one that is found everywhere or nowhere."""
    if len(text.encode()) < SHORTEST or "\n" in text or "\r" in text:
        raise row.refuse(key, f"has {text!r}; a text stands on one line and has at least {SHORTEST} bytes")
    return text.encode()


def texts(row: Table, key: str, patterns: Sequence[str], needed: bool = True) -> tuple[bytes, ...]:
    """Return fixed texts of which every match of any of the patterns has one, or refuse a broken pattern or one without."""
    found: list[bytes] = []
    for pattern in patterns:
        try:
            own = required.texts_of(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise row.refuse(key, f"has {pattern!r}, which is no regular expression ({error}); mend it") from error
        if needed and not own:
            raise row.refuse(
                key, f"has {pattern!r}, which need not contain any fixed text of {SHORTEST} letters; add one"
            )
        found += own
    return tuple(found)


def given_texts(row: Table) -> tuple[bytes, ...]:
    """Return the texts that a row names itself, because what its patterns must contain stands on too many lines."""
    return tuple(check_text(row, "texts", text) for text in row.strings("texts", []))


@cache
def endings() -> tuple[Ending, ...]:
    """Return how processes end."""
    with Table.load(FOLDER / _ENDINGS) as table:
        table.strings("wrappers")
        return tuple(_ending(row, n) for n, row in enumerate(table.tables("ending")))


@cache
def wrappers() -> tuple[str, ...]:
    """Return exceptions that launchers raise because a rank failed."""
    with Table.load(FOLDER / _ENDINGS) as table:
        table.tables("ending")
        return table.strings("wrappers")


@cache
def facts() -> tuple[Fact, ...]:
    """Return what versions, topology and settings look like."""
    with Table.load(FOLDER / _FACTS) as table:
        return tuple(_fact(row, n) for n, row in enumerate(table.tables("fact")))


@cache
def expectations() -> dict[str, Expectation]:
    """Return the claims that can be asked for, by name."""
    with Table.load(FOLDER / _EXPECTATIONS) as table:
        table.tables("contradiction")
        return {found.name: found for found in map(_expectation, table.tables("expectation"))}


@cache
def contradictions() -> tuple[Contradiction, ...]:
    """Return what cannot both be so."""
    with Table.load(FOLDER / _EXPECTATIONS) as table:
        table.tables("expectation")
        return tuple(map(_contradiction, table.tables("contradiction")))


def probes() -> Iterator[Probe]:
    """Yield all probes of these tables."""
    yield from (row.probe for row in endings())
    yield from (row.probe for row in facts())
    yield from (sign.probe for row in expectations().values() for sign in row.signs)
    for row in contradictions():
        yield from (row.asked, row.shown)


def _probe(
    row: Table, key: str, patterns_key: str = "patterns", span: int = 1, kept: int = KEPT, timed: bool = False
) -> Probe:
    patterns = row.strings(patterns_key)
    given = given_texts(row)
    if span > 1 and not given:
        raise row.refuse("texts", "is missing: with 'span', name what stands on the first line")
    found = texts(row, patterns_key, patterns, needed=not given)
    return Probe(key, given or found, compiled(patterns), span=span, kept=kept, timed=timed)


def _ending(row: Table, number: int) -> Ending:
    with row:
        role = row.take("role", str, allowed=ROLES)
        weak = row.take("weak", bool, False)
        follows = row.take("traceback", bool, False)
        probe = _probe(row, f"ending/{number}", span=row.take("span", int, 1), kept=10 * KEPT, timed=True)
    return Ending(role, weak, replace(probe, follows=follows))


def _fact(row: Table, number: int) -> Fact:
    with row:
        return Fact(
            name=row.take("name", str, ""),
            group=row.take("group", str, ""),
            role=row.take("role", str, FACT, allowed=FACT_ROLES),
            odd=row.take("odd", str, ""),
            least=row.take("least", int, 1),
            probe=_probe(row, f"fact/{number}", kept=10 * KEPT),
        )


def _expectation(row: Table) -> Expectation:
    with row:
        name = row.take("name", str)
        return Expectation(
            name=name,
            title=row.take("title", str),
            how=row.take("how", str),
            signs=tuple(_sign(sign, f"expect/{name}/{n}") for n, sign in enumerate(row.tables("sign"))),
        )


def _sign(row: Table, key: str) -> Sign:
    with row:
        part = row.take("part", str)
        answer = row.take("answer", str, allowed=ANSWERS)
        return Sign(part, answer, row.take("weak", bool, False), _probe(row, key))


def _contradiction(row: Table) -> Contradiction:
    with row:
        name = row.take("id", str)
        return Contradiction(
            id=name,
            title=row.take("title", str),
            remedy=row.take("remedy", str),
            link=row.take("link", str),
            asked=_probe(row, f"contradiction/{name}/asked", "asked"),
            shown=_probe(row, f"contradiction/{name}/shown", "shown"),
        )
