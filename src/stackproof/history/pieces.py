"""Pieces: what the benchmark processes of one asv command leave behind, joined into one record when the command ends.

asv runs each benchmark in a process of its own. Each writes its figure as a small record into the folder of the command; when
the command ends, or was killed and the next one starts, the pieces of one state and commit become one record of the store.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from ..records import Record, overall
from . import store
from .identity import slug, state

VERB = "asv"
_LOCK = ".running"


@dataclass
class Command:
    """The folder of one running asv command; while it runs it holds a lock, so that nobody takes its pieces for left ones."""

    folder: Path
    _handle: IO[str]

    @classmethod
    def begin(cls, base: Path) -> Command:
        """Make a folder for the pieces of this process."""
        folder = base / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{os.getpid()}-{secrets.token_hex(3)}"
        folder.mkdir(parents=True)
        handle = (folder / _LOCK).open("w", encoding="utf-8")
        fcntl.flock(handle, fcntl.LOCK_EX)
        return cls(folder, handle)

    def end(self, into: Path, *, keep: bool) -> tuple[list[Path], list[str]]:
        """Join the pieces into records below `into`, unless the command was one that keeps nothing."""
        found = _seal(self.folder, into) if keep else ([], [])
        shutil.rmtree(self.folder, ignore_errors=True)
        self._handle.close()
        return found


def seal_left(base: Path, into: Path) -> tuple[list[Path], list[str]]:
    """Join what killed commands left behind; return the records made and a sentence for each damaged piece."""
    made: list[Path] = []
    problems: list[str] = []
    for folder in sorted(base.glob("*-*-*")):
        try:
            handle = (folder / _LOCK).open("a", encoding="utf-8")
        except OSError:  # its command has just removed it
            continue
        with handle:
            if _free(handle):
                records, damaged = _seal(folder, into)
                made, problems = made + records, problems + damaged
                shutil.rmtree(folder, ignore_errors=True)
    return made, problems


def _free(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _seal(folder: Path, into: Path) -> tuple[list[Path], list[str]]:
    loaded = store.load([folder])
    return [store.append(one, into / slug(one.stack)) for one in join(loaded.records.values())], loaded.problems


def join(pieces: Iterable[Record]) -> list[Record]:
    """Return one record for each state and commit among the pieces, with all their checks and figures in order."""
    groups: dict[str, list[Record]] = {}
    for piece in sorted(pieces, key=lambda one: one.started):
        groups.setdefault(state(piece.provenance).as_json(), []).append(piece)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[Record]) -> Record:
    first = group[0]
    joined = Record(VERB, first.stack, first.started, provenance=dict(first.provenance))
    for piece in group:
        joined.seconds += piece.seconds
        joined.checks += piece.checks
        joined.measurements += piece.measurements
    joined.verdict = overall(check.verdict for check in joined.checks)
    return joined
