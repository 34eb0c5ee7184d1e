"""Known failures, what follows from them, and harmless messages: rows of `fixtures/signatures/*.toml`, read strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import ROOT
from ..tables import Table
from . import required, rules
from .probes import Probe, compiled

FOLDER = ROOT / "fixtures" / "signatures"
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
        return tuple(Probe(key, required.texts_of(text), compiled([text]), kept=1, counted=1) for key, text in rows)


@cache
def load_all(folder: Path = FOLDER) -> tuple[Signature, ...]:
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
        rules.check_text(row, "literals", text)
    for pattern in found.patterns:
        rules.texts(row, "patterns", [pattern], needed=False)
    for key in ("context", "absent"):
        rules.texts(row, key, getattr(found, key))


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
