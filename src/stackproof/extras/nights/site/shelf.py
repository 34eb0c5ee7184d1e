"""What a site is made of: every record below some folders, each with the name that its page has for good."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from stackproof.api.base import RESULTS
from stackproof.api.record import Place, Record, store

VERIFIED = RESULTS / "records"
"""Records of cards that were verified as a whole; they are named by their day and verb."""
_NAMED = re.compile(r"^\d{8}T\d{6}-[a-z-]+\.json$")


@dataclass(frozen=True)
class ShelvedRun:
    """A record with where it lies, as people read it, and the name of its page."""

    path: Path
    record: Record
    shown: str

    @cached_property
    def started(self) -> datetime:
        """When it began."""
        return datetime.fromisoformat(self.record.started)

    @property
    def day(self) -> str:
        """Its date in UTC."""
        return self.record.started[:10]

    @cached_property
    def place(self) -> Place:
        """Where it ran."""
        return store.place(self.record.provenance)

    @cached_property
    def id(self) -> str:
        """The same for the same bytes, wherever the file lies."""
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return f"{self.day.replace('-', '')}-{store.slug(self.record.verb)[:20]}-{digest[:10]}"

    @property
    def page(self) -> str:
        """The page that shows it."""
        return f"record/{self.id}.html"


@dataclass(frozen=True)
class Shelf:
    """All runs, oldest first, and a sentence for each file that is none."""

    runs: tuple[ShelvedRun, ...]
    problems: tuple[str, ...]

    def loaded(self) -> store.Loaded:
        """Return the records as other rooms read them."""
        return store.Loaded({run.path: run.record for run in self.runs}, list(self.problems))


def tops() -> tuple[Path, ...]:
    """Return the folders that a site is made of where none is named."""
    return (*store.folders(), VERIFIED) if not os.environ.get(store.RESULTS) else store.folders()


def files(folders: Iterable[Path]) -> list[Path]:
    """Return every file that is a record by its name."""
    return sorted({path for top in folders for path in _walk(top)})


def _walk(top: Path) -> Iterator[Path]:
    for at, below, names in os.walk(top):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and (name.endswith(store.SUFFIX) or _NAMED.match(name)):
                yield Path(at) / name


def fingerprint(paths: Iterable[Path]) -> str:
    """Return the same for files that nobody has touched: their names, sizes and times."""
    found = hashlib.sha256()
    for path in paths:
        told = path.stat()
        found.update(f"{path}\0{told.st_size}\0{told.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return found.hexdigest()


def read(paths: Sequence[Path], folders: Sequence[Path]) -> Shelf:
    """Read these files; one that is no record, or whose day is none, is skipped and named."""
    loaded = store.read(paths)
    runs, problems = list[ShelvedRun](), [f"{shown(sentence, folders)}" for sentence in loaded.problems]
    for path, record in loaded.records.items():
        name = shown(str(path), folders)
        if _dated(record):
            runs.append(ShelvedRun(path, record, name))
        else:
            problems.append(f"{name}: began on {record.started}, which is no day; it was skipped")
    return Shelf(tuple(sorted(runs, key=lambda run: (run.started, run.shown))), tuple(problems))


def _dated(record: Record) -> bool:
    try:
        return bool(datetime.fromisoformat(record.started).utcoffset() is not None)
    except ValueError:
        return False


def shown(text: str, folders: Iterable[Path]) -> str:
    """Return text that names files without the folders of one machine: below the checkout, or below what was named."""
    others = [folder for folder in folders if not folder.absolute().is_relative_to(RESULTS.parent)]
    for start in (
        RESULTS.parent,
        *(folder.absolute().parent for folder in others),
        *(folder.parent for folder in others),
    ):
        if str(start) not in ("/", "."):
            text = text.replace(f"{start}/", "")
    return text
