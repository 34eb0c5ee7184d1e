"""The store: a folder of records that only grows. Many processes, and many runners, may write into it at once.

A record is written to a temporary file, flushed, and linked to a name that nobody has: a name is never written twice, and no
reader sees half a file. What cannot be parsed is set aside under another name and told, so that one damaged file does not
cost the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .. import ROOT, records
from ..errors import Refusal
from ..records import DamagedRecordError, Record
from .identity import place, slug

PUBLISHED = ROOT / "results" / "published"
LOCAL = ROOT / "results" / "local"
SUFFIX = "record.json"
"""Files of the store end in it: `record.json` in the folder of a run, `TIME-VERB-RANDOM.record.json` among the published."""
ASIDE = ".damaged"
MEASURING = ("bench", "asv")
"""Verbs whose records have a history; those of other verbs lie beside them and can be large."""

_NAMED = re.compile(r"\d{8}T\d{6}-([a-z]+)-")


RESULTS = "STACKPROOF_RESULTS"
"""Names another folder for a store than those of the checkout: to try things, or to collect elsewhere."""


def folders() -> tuple[Path, ...]:
    """Return the folders that histories are read from: what runners published, and this checkout's own runs."""
    return (Path(os.environ[RESULTS]),) if os.environ.get(RESULTS) else (PUBLISHED, LOCAL)


def writable() -> Path:
    """Return the folder that new records go to; publishing one is a step of its own."""
    return folders()[-1]


@dataclass
class Loaded:
    """What a store holds: records by file, sorted by name, and one sentence for each file that is none."""

    records: dict[Path, Record] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def folder(record: Record, base: Path = PUBLISHED) -> Path:
    """Return where a record belongs below `base`: by stack and host, so that runners do not meet."""
    return base / slug(record.stack) / slug(place(record.provenance).host)


def append(record: Record, into: Path) -> Path:
    """Add a record to a folder under a name that is new, and return the file.

    Raises:
        Refusal: the record is not valid, or the folder cannot be written.
    """
    text = record.as_json()
    stamp = record.started[:19].replace("-", "").replace(":", "")
    while True:
        path = into / f"{stamp}-{slug(record.verb)}-{secrets.token_hex(4)}.{SUFFIX}"
        records.validate(json.loads(text), path)
        try:
            into.mkdir(parents=True, exist_ok=True)
            _create(path, text)
        except FileExistsError:
            continue
        except OSError as error:
            raise Refusal(
                f"{into}: the record cannot be added ({error.strerror}); free space or make the folder writable"
            ) from error
        return path


def _create(path: Path, text: str) -> None:
    """Make the whole file appear at once; fail if the name is taken, whoever took it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        path.hardlink_to(temporary)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def files(tops: Iterable[Path]) -> list[Path]:
    """Return the files of measuring verbs' records below these folders, by name; a folder that does not exist is empty."""
    return sorted(path for top in tops for path in _walk(top))


def _walk(top: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if (
                name.endswith(SUFFIX)
                and not name.startswith(".")
                and _measures(Path(at).name if name == SUFFIX else name)
            ):
                yield Path(at) / name


def _measures(name: str) -> bool:
    """Whether a name of ours says that a measuring verb wrote it; a name that says nothing is looked into."""
    named = _NAMED.match(name)
    return named is None or named[1] in MEASURING


def load(tops: Iterable[Path]) -> Loaded:
    """Read every record of a measuring verb below these folders."""
    return read(files(tops))


def read(paths: Iterable[Path]) -> Loaded:
    """Read these files; a damaged one is set aside, one of another schema stays, and both are told."""
    found = Loaded()
    for path in paths:
        try:
            found.records[path] = records.read(path)
        except DamagedRecordError:
            found.problems += _set_aside(path)
        except Refusal as refusal:
            if path.exists():  # else another process has set it aside meanwhile
                found.problems.append(f"{refusal}; it was left where it is")
    return found


def _set_aside(path: Path) -> list[str]:
    aside = path.with_name(path.name + ASIDE)
    try:
        path.rename(aside)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path}: is damaged or cut short, was skipped, and cannot be set aside ({error.strerror})"]
    return [f"{path}: is damaged or cut short; it was set aside as {aside.name}, the others were read"]
