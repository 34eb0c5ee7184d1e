"""What is looked for in logs: known failures (`data/signatures/`), and endings, facts and expectations (`data/triage/`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from stackproof import DATA
from stackproof.base.toml import Table
from stackproof.triage import search
from stackproof.triage.probes import KEPT, Probe, compiled
from stackproof.triage.search import SHORTEST

SIGNATURES = DATA / "signatures"
FAULT, CONSEQUENCE, NOISE = KINDS = ("fault", "consequence", "noise")
CERTAIN, LIKELY = CERTAINTIES = ("certain", "likely")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Signature:
    """One row: how it is recognised, what it means, what to do, and texts that must and must not match."""

    id: str
    kind: str
    title: str
    libraries: tuple[str, ...]
    literals: tuple[str, ...]
    patterns: tuple[str, ...]
    context: tuple[str, ...]
    absent: tuple[str, ...]
    cause: str
    remedy: str
    link: str
    versions: str
    requirement: str
    certainty: str
    examples: tuple[str, ...]
    near_misses: tuple[str, ...]

    @property
    def probe(self) -> Probe:
        """What is looked for."""
        return Probe(self.id, tuple(text.encode() for text in self.literals), compiled(self.patterns))

    @property
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
    found: list[Signature] = []
    names: set[str] = set()
    for path in sorted(folder.glob("*.toml")):
        with Table.load(path) as table:
            for row in table.tables("signature"):
                found.append(_signature(row))
                if found[-1].id in names:
                    raise row.refuse("id", f"is {found[-1].id!r}, which another row has; choose another")
                names.add(found[-1].id)
    return tuple(found)


def _signature(row: Table) -> Signature:
    with row:
        found = Signature(
            id=_matching(row, "id", _NAME, "words in lower case joined by -, such as 'nccl-duplicate-gpu'"),
            kind=row.take("kind", str, allowed=KINDS),
            title=_sentence(row, "title"),
            libraries=row.strings("libraries"),
            literals=row.strings("literals"),
            patterns=row.strings("patterns"),
            context=row.strings("context", []),
            absent=row.strings("absent", []),
            cause=_sentence(row, "cause"),
            remedy=_sentence(row, "remedy"),
            link=_matching(row, "link", re.compile(r"https?://\S+"), "an address such as 'https://github.com/...'"),
            versions=row.take("versions", str, ""),
            requirement=row.take("requirement", str, ""),
            certainty=row.take("certainty", str, allowed=CERTAINTIES),
            examples=row.strings("examples"),
            near_misses=row.strings("near_misses", []),
        )
    _check(row, found)
    return found


def _check(row: Table, found: Signature) -> None:
    """Refuse what could never match, or would be looked for everywhere."""
    for key in ("literals", "patterns", "examples"):
        if not getattr(found, key):
            raise row.refuse(key, "is empty; it needs at least one text")
    for text in found.literals:
        check_text(row, "literals", text)
    for pattern in found.patterns:
        texts(row, "patterns", [pattern], needed=False)
    for key in ("context", "absent"):
        texts(row, key, getattr(found, key))


def _sentence(row: Table, key: str) -> str:
    text = row.take(key, str)
    if not text.strip() or "\n" in text:
        raise row.refuse(key, "must be one line of text")
    return text


def _matching(row: Table, key: str, pattern: re.Pattern[str], what: str) -> str:
    text = row.take(key, str)
    if not pattern.fullmatch(text):
        raise row.refuse(key, f"is {text!r}; it must be {what}")
    return text


FOLDER = DATA / "triage"

FATAL, EXIT, BARE, HINT, HANG = ("fatal", "exit", "bare", "hint", "hang")
PROCESS, CHAIN, FINISHED, IGNORED = ("process", "chain", "finished", "ignored")
ROLES = (FATAL, EXIT, BARE, HINT, HANG, PROCESS, CHAIN, FINISHED, IGNORED)
_ENDINGS, _FACTS, _EXPECTATIONS = "endings.toml", "facts.toml", "expectations.toml"
ASKED, IN_EFFECT, FACT, COLLECTIVE = FACT_ROLES = ("asked", "in effect", "fact", "collective")
YES, NO = ANSWERS = ("yes", "no")


@dataclass(frozen=True)
class Ending:
    """How a process ends.

    Its own last words (fatal, hang), an exception without its traceback (bare), its launcher's words (exit), an error line that may
    explain it (hint).
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
            own = search.texts_of(pattern)
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
def wrappers() -> tuple[re.Pattern[str], ...]:
    """Return what exceptions look like that launchers raise because a rank failed."""
    with Table.load(FOLDER / _ENDINGS) as table:
        table.tables("ending")
        return tuple(re.compile(rf"(?:\w+\.)*(?:{text})") for text in table.strings("wrappers"))


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
    return Ending(role, weak, replace(probe, follows=follows, terse=role in (BARE, HINT)))


def _fact(row: Table, number: int) -> Fact:
    with row:
        role = row.take("role", str, FACT, allowed=FACT_ROLES)
        return Fact(
            name=row.take("name", str, ""),
            group=row.take("group", str, ""),
            role=role,
            odd=row.take("odd", str, ""),
            least=row.take("least", int, 1),
            probe=replace(_probe(row, f"fact/{number}", kept=10 * KEPT), asks=role == ASKED),
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
            asked=replace(_probe(row, f"contradiction/{name}/asked", "asked"), asks=True),
            shown=_probe(row, f"contradiction/{name}/shown", "shown"),
        )
