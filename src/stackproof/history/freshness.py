"""Are asv's pages as new as what they are made from? Publishing again what has not changed takes a minute and a half for 50,000 records."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from stackproof.base import git
from stackproof.base.files import write_atomically
from stackproof.base.places import DATA, PACKAGE
from stackproof.record import store

_INDEX = "index.html"
_MARK = "published.json"
CONFIGURATION = "asv.conf.json"


class Pages:
    """The pages of a checkout; `home`: the folder in which asv keeps what it knows and what it shows."""

    def __init__(self, root: Path, home: Path) -> None:
        self._root, self._home = root, home
        self._mark = home / "html" / _MARK

    def fresh(self) -> bool:
        """Whether the pages are there, and nothing has changed since they were made."""
        if not (self._home / "html" / _INDEX).is_file() or any((self._home / "pieces").glob("*")):
            return False
        try:
            said = json.loads(self._mark.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return False
        return bool(said == {"inputs": self.inputs(), "results": self._results()})

    def made(self, inputs: str) -> None:
        """Note that the pages were made from these inputs, which were looked at before."""
        write_atomically(self._mark, json.dumps({"inputs": inputs, "results": self._results()}))

    def forget(self) -> None:
        """Pages that are made in another way are not what the next call expects."""
        self._mark.unlink(missing_ok=True)

    def inputs(self) -> str:
        """Return a digest of all that pages are made from: records, commits, the configuration, and what makes them."""
        makers = [
            *sorted((PACKAGE / "history").glob("*.py")),
            *sorted((PACKAGE / "record").glob("*.py")),
            DATA / "history.toml",
        ]
        files = [*store.files(store.folders()), self._root / CONFIGURATION, *makers]
        return _digest([*_stats(files), *map(str, store.folders()), self._commits()])

    def _results(self) -> str:
        """Return a digest of what asv has kept, which may hold failures that no record has."""
        return _digest(_stats(sorted((self._home / "results").rglob("*.json"))))

    def _commits(self) -> str:
        """Return what HEAD is, and what every branch and tag is."""
        asked = (git.try_output(self._root, *words) for words in (("rev-parse", "HEAD"), ("show-ref",)))
        return "\n".join(said or "" for said in asked)


def _stats(paths: Iterable[Path]) -> Iterator[str]:
    """Yield name, size and time of each file; one that is gone meanwhile is another state."""
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 - of 50,000 files
            yield f"{path}|{found.st_size}|{found.st_mtime_ns}"
        except OSError:
            yield f"{path}|gone"


def _digest(words: Iterable[str]) -> str:
    whole = hashlib.sha256()
    for word in words:
        whole.update(word.encode("utf-8", errors="surrogateescape") + b"\0")
    return whole.hexdigest()
