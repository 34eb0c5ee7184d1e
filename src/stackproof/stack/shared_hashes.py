"""Hashes of files that several environments hold by hard links to one inode: what one environment's proof read, the next need not.

An entry stands for an inode and holds for its size, times and device: the time of an inode's last change cannot be set by a user, so
that who edits a file, and puts the old date back, makes its entry void; so does another link to it. The store is taken only if it
is a plain file of this user in a folder of his that nobody else may write to. Who can edit a file of an environment as this user can
also write here, as he can anywhere: `--deep` asks nobody and reads all again.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

from stackproof.base.files import write_atomically

NAME = "stackproof.hashes.json"
_MOST = 1 << 19
"""Entries beyond this are of environments that are long gone."""


class SharedHashes:
    """What is known of inodes with several links; `keep` writes what was learnt."""

    def __init__(self, store: Path | None) -> None:
        self._store, self._known, self._learnt = store, _read(store) if store else {}, dict[str, str]()
        self._taken: set[str] = set()

    @property
    def taken(self) -> int:
        """How many files were not read, because another environment's proof had read them."""
        return len(self._taken)

    def of(self, path: Path, algorithm: str, compute: Callable[[Path, str], str]) -> str:
        """Return a file's hash, computed unless it is known; a file that changes while it is read is not remembered."""
        before = os.stat(path)  # noqa: PTH116 - 27,000 of them
        if self._store is None or before.st_nlink < 2:
            return compute(path, algorithm)
        inode, state = f"{before.st_dev} {before.st_ino}", _state(before, algorithm)
        entry = self._known.get(inode, "")
        if entry.startswith(f"{state} "):
            self._taken.add(str(path))
            return entry.rpartition(" ")[2]
        found = compute(path, algorithm)
        if _state(os.stat(path), algorithm) == state:  # noqa: PTH116
            self._learnt[inode] = f"{state} {found}"
        return found

    def keep(self) -> None:
        """Add what was learnt; where nothing can be written, the next environment reads its files itself."""
        if self._store is None or not self._learnt or not _ours(self._store.parent, stat.S_ISDIR):
            return
        merged = {**_read(self._store), **self._learnt}
        with contextlib.suppress(OSError):
            write_atomically(self._store, json.dumps(merged if len(merged) <= _MOST else self._learnt), 0o600)


def beside(prefix: Path) -> Path:
    """Return the store that an environment shares with those in the same folder."""
    return prefix.resolve().parent / NAME


def _state(seen: os.stat_result, algorithm: str) -> str:
    return f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {algorithm}"


def _read(store: Path) -> dict[str, str]:
    """Return the entries; none where the file may be somebody else's, or is no table of words."""
    if not _ours(store, stat.S_ISREG) or not _ours(store.parent, stat.S_ISDIR):
        return {}
    try:
        found = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _ours(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether it is of this user and this kind, no link, and writable by him alone."""
    try:
        seen = path.lstat()
    except OSError:
        return False
    return kind(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
