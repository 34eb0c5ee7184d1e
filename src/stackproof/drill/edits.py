"""Edits of copied files, as rows: an edit that changes nothing is refused, because the fault would not be there."""

from __future__ import annotations

import importlib.util
import marshal
import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.toml import Wrong

_MOST_MATCHES = 1


@dataclass(frozen=True)
class Edit:
    """What is done to one file of a copy; `file` may hold * where its name holds a version."""

    file: str
    create: str = ""
    append: str = ""
    pattern: str = ""
    replacement: str = ""
    rename: str = ""
    keep_bytes: int = 0
    """So much is left of the file."""
    compiled: str = ""
    """Text whose compiled code is put where Python looks for that of the file, with the file's own time and size."""
    unchecked: bool = False
    """Whether that says of itself that Python need not look at the file."""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.create, self.append, self.pattern, self.rename, self.keep_bytes, self.compiled))) != 1:
            why = "needs exactly one of create, append, pattern (with replacement), rename, keep_bytes, compiled"
            raise Wrong("file", why)

    @property
    def said(self) -> str:
        """Say it in a few words."""
        done = {
            "is made": self.create,
            "gets lines at its end": self.append,
            f"has {self.pattern!r} replaced by {self.replacement!r}": self.pattern,
            f"is renamed to {self.rename}": self.rename,
            f"is cut after {self.keep_bytes} bytes": self.keep_bytes,
            "has other code compiled for it": self.compiled,
        }
        return f"{self.file} {next(words for words, given in done.items() if given)}"

    def apply(self, root: Path) -> Path:
        """Do it to the copy at `root` and return the file that was touched."""
        path = _new(root, self.file) if self.create else _only(root, self.file)
        materialise(root, path)
        before = path.read_bytes() if path.exists() else None
        if self.compiled:
            return self._compile(root, path)
        if self.rename:
            return path.rename(path.parent / self.rename)
        path.write_bytes(self._changed(before or b""))
        if path.read_bytes() == before:
            raise Refusal(f"{self.file}: the edit changed nothing, so the fault is not there; mend the row")
        return path

    def _compile(self, root: Path, source: Path) -> Path:
        """Put other code into `__pycache__`; the interpreter that runs this is the one that will take it."""
        target = Path(importlib.util.cache_from_source(str(source)))
        materialise(root, target)
        seen = source.stat()
        header = struct.pack("<III", int(self.unchecked), int(seen.st_mtime) & 0xFFFFFFFF, seen.st_size & 0xFFFFFFFF)
        code = marshal.dumps(compile(self.compiled, str(source), "exec"))
        target.write_bytes(importlib.util.MAGIC_NUMBER + header + code)
        return target

    def _changed(self, text: bytes) -> bytes:
        if self.create:
            return self.create.encode()
        if self.keep_bytes:
            return text[: self.keep_bytes]
        if self.append:
            return text + self.append.encode()
        return re.sub(self.pattern.encode(), self.replacement.encode(), text, count=_MOST_MATCHES, flags=re.MULTILINE)


def materialise(root: Path, path: Path) -> None:
    """Make a file below a tree of links one's own: what the links name stays as it is."""
    for parent in reversed(path.relative_to(root).parents):
        folder = root / parent
        if folder.is_symlink():
            target = folder.resolve()
            folder.unlink()
            link_tree(target, folder)
        folder.mkdir(exist_ok=True)
    if path.is_symlink():
        target = path.resolve()
        path.unlink()
        shutil.copy(target, path)


def link_tree(source: Path, target: Path) -> None:
    """Make a folder that holds a link to everything in another."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        (target / entry.name).symlink_to(entry)


def _new(root: Path, name: str) -> Path:
    """Return where a file is to be made; a * may stand for a version in the folders above."""
    fixed, star, rest = name.rpartition("*/")
    return _only(root, f"{fixed}{star}".rstrip("/")) / rest if star else root / name


def _only(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern))
    if len(found) != 1:
        raise Refusal(f"'{pattern}' names {len(found)} files of {root}; a row of edits must name one")
    return found[0]
