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

from stackproof.api.base import places
from stackproof.api.gate import plan as gate_plan
from stackproof.api.record import SUITE_VERBS, Check, Record, repeat, store

VERIFIED = places.RESULTS / "records"
"""Records of cards that were verified as a whole; they are named by their day and verb."""
_NAMED = re.compile(r"^\d{8}T\d{6}-[a-z-]+\.json$")


@dataclass(frozen=True)
class IndexedRun:
    """A record with where it lies, as people read it, and the name of its page."""

    path: Path
    record: Record
    shown: str

    @cached_property
    def started(self) -> datetime:
        """When it began."""
        return datetime.fromisoformat(self.record.started)

    @property
    def minute(self) -> str:
        """When it began, to the minute, in UTC."""
        return self.record.started[:16].replace("T", " ")

    @property
    def day(self) -> str:
        """Its date in UTC."""
        return self.record.started[:10]

    @cached_property
    def place(self) -> store.Place:
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
class RecordsIndex:
    """All runs, oldest first, and a sentence for each file that is none."""

    runs: tuple[IndexedRun, ...]
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


def read(paths: Sequence[Path], folders: Sequence[Path]) -> RecordsIndex:
    """Read these files; one that is no record, or whose day is none, is skipped and named."""
    loaded = store.read(paths)
    runs, problems = list[IndexedRun](), [f"{shown(sentence, folders)}" for sentence in loaded.problems]
    for path, record in loaded.records.items():
        name = shown(str(path), folders)
        if _dated(record):
            runs.append(IndexedRun(path, record, name))
        else:
            problems.append(f"{name}: began on {record.started}, which is no day; it was skipped")
    return RecordsIndex(tuple(sorted(runs, key=lambda run: (run.started, run.shown))), tuple(problems))


def _dated(record: Record) -> bool:
    try:
        return bool(datetime.fromisoformat(record.started).utcoffset() is not None)
    except ValueError:
        return False


def shown(text: str, folders: Iterable[Path]) -> str:
    """Return text that names files without the folders of one machine: below the checkout, or below what was named."""
    others = [folder for folder in folders if not folder.absolute().is_relative_to(places.RESULTS.parent)]
    for start in (
        places.RESULTS.parent,
        *(folder.absolute().parent for folder in others),
        *(folder.parent for folder in others),
    ):
        if str(start) not in ("/", "."):
            text = text.replace(f"{start}/", "")
    return text


def repeated_by(record: Record) -> str:
    """Return the command that makes such a record: as it was typed, else as far as the record tells."""
    if typed := repeat.command_of_record(record):
        return typed
    if record.verb in SUITE_VERBS:
        return repeat.command_of_check(record, Check("run", record.verdict, "", 0.0))
    if record.verb == "night":
        return repeat.command_with(record, [*_flags_of_night(record)])
    sides = {name: str(record.provenance.get(name, "")).partition(",")[0] for name in ("base", "head")}
    if record.verb != "gate" or not all(side.isalnum() for side in sides.values()):
        return ""
    return repeat.command_with(record, [word for name, side in sides.items() for word in (f"--{name}", side)])


def _flags_of_night(record: Record) -> Iterator[str]:
    """Yield the flags of a night that its facts name; an older record keeps no others."""
    usual = {"profile": gate_plan.load().profile(str(record.provenance.get("verified on", ""))), "device": "the first"}
    for name in ("profile", "device"):
        if (fact := str(record.provenance.get(name, usual[name]))) != usual[name]:
            yield from (f"--{name}", fact)
    for name, flag in (("only", "--only"), ("without", "--without")):
        yield from (word for one in str(record.provenance.get(name, "")).split() for word in (flag, one))
    if record.provenance.get("pinned") is False:
        yield "--unpinned"
