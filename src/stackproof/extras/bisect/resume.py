"""How a search that was stopped goes on: a journal of all that was found out, the command for it, and what must still be as it was.

The journal has JSON lines, one for each thing that was found out. Nothing else is kept: a search that goes on asks the same questions in
the same order, and those that were answered are read and not run.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stackproof.api.base import Refusal, files, git, places, text
from stackproof.api.record import resume
from stackproof.extras.bisect.endpoints import Endpoint, Repository

NAME = "journal.jsonl"
SCHEMA = "stackproof-bisect-1"
_NO_JOURNAL = "is no journal of `bisect`; name the journal.jsonl of the run to go on with"
_FLAG = "--continue"
_SHOWN, _DIGITS = 10, 12
Answer = dict[str, Any]
"""What JSON can say."""
Value = TypeVar("Value")


class Journal:
    """What is known, by key, and the file that it is appended to."""

    def __init__(self, path: Path, about: Mapping[str, str]) -> None:
        """Open a journal, or begin it.

        Args:
            path: the file.
            about: what is being searched; a journal of something else is refused.

        Refusal: the file cannot be used, is damaged, or is of another search.
        """
        self.path = path
        self.known: dict[str, Answer] = {}
        if path.exists() and not path.is_file():
            raise Refusal(f"{path}: {_NO_JOURNAL}")
        if path.exists() and path.stat().st_size > 0:
            self.known = self._read(about)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"schema": SCHEMA, **about})

    def once(self, key: str, find_out: Callable[[], Answer], read: Callable[[Answer], Value]) -> Value:
        """Return what is known under a key as `read` makes it, or find it out and keep it.

        Refusal: `read` cannot make anything of what the file says: it was edited, or is damaged.
        """
        if key not in self.known:
            found = find_out()
            self._append({"key": key, "told": found})
            self.known[key] = found
            return read(found)
        try:
            return read(self.known[key])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._foreign(key, self.known[key]) from error

    def _foreign(self, key: object, row: object) -> Refusal:
        shown = text.plain(json.dumps(row), most=120, lines=False)
        return Refusal(
            f"{self.path}: '{text.plain(str(key))}' is nothing that `bisect` writes ({shown}); the file was left as it is: mend or take "
            "out that line, or begin anew without --continue"
        )

    def _append(self, row: Answer) -> None:
        """Add a row; none where the disk is full, because what was found out on it may say so and nothing else."""
        try:
            if files.is_full(self.path.parent):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row, sort_keys=True) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise Refusal(
                f"{self.path}: cannot be written ({error.strerror}); make room, or write elsewhere with --results"
            ) from error

    def _read(self, about: Mapping[str, str]) -> dict[str, Answer]:
        """Return what the file holds; a last line that was cut short by a kill, or by a full disk, is taken off it."""
        path = self.path
        data = files.read_bytes(path, "name a journal that `bisect` has written")
        whole, _, torn = data.rpartition(b"\n")
        rows = [
            files.parse_json(line, f"{path}:{number}", "begin anew without --continue")
            for number, line in enumerate(whole.splitlines(), 1)
        ]
        begun = rows[0] if rows and isinstance(rows[0], dict) else {}
        if begun.get("schema") != SCHEMA:
            raise Refusal(f"{path}: {_NO_JOURNAL}")
        resume.require_same(path, begun, about, about)
        known: dict[str, Answer] = {}
        for number, row in enumerate(rows[1:], 2):
            if not isinstance(row, dict) or set(row) != {"key", "told"} or not isinstance(row["told"], dict):
                raise self._foreign(f"line {number}", row)
            known[str(row["key"])] = row["told"]
        if torn:
            try:
                os.truncate(path, len(data) - len(torn))
            except OSError as error:
                raise Refusal(
                    f"{path}: cannot be written ({error.strerror}); make it writable to go on with it"
                ) from error
        return known


def command(typed: Sequence[str], journal: Path) -> str:
    """Return what goes on, to be pasted to a shell: the words of this call, where it was typed, with its journal."""
    words = [sys.executable, "-m", places.PACKAGE.name, *_without(typed), _FLAG, str(journal.absolute())]
    source = [] if places.INSTALLED else ["env", f"PYTHONPATH={places.PACKAGE.parent}"]
    return f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join([*source, *words])}"


def _without(typed: Sequence[str]) -> Iterator[str]:
    """Yield the words but for where this call itself went on."""
    value = False
    for word in typed:
        if value and not word.startswith("-"):
            value = False
            continue
        value = word == _FLAG
        if not value and not word.startswith(f"{_FLAG}="):
            yield word


def state(ends: Sequence[Endpoint], repository: Repository, words: Sequence[str]) -> dict[str, str]:
    """Return what the sides are made of besides their ends: of one without a commit, the folder as it is; and the command's own files."""
    found = {"files of the command": _listed([Path(word) for word in words if Path(word).is_file()])}
    if all(end.commit for end in ends):
        return found
    folder = repository.folder
    head = git.try_output(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    changed = git.try_output(folder, "diff", "--name-only", "-z", "HEAD", "--", *repository.paths)
    if head is None or changed is None:  # no repository, or one without a commit
        return found
    top = repository.top
    names = [top / name for name in changed.split("\0") if name]
    return {**found, "HEAD": head.strip()[:_DIGITS], "changed files": _listed(names)}


def _listed(paths: Sequence[Path]) -> str:
    rows = [f"{path.name} {_digest(path)}" for path in paths]
    more = f" and {len(rows) - _SHOWN} more {_sum(' '.join(rows).encode())}" if len(rows) > _SHOWN else ""
    return (", ".join(rows[:_SHOWN]) + more) or "none"


def _digest(path: Path) -> str:
    try:
        return _sum(os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes())
    except OSError:
        return "gone"


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
