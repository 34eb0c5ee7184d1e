"""What can be read of a host: files below a root, and variables. A test hands in a tree of its own; nothing is run."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.base import files
from stackproof.base.places import HOME

_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Machine:
    """A host; everything that `doctor` knows of one goes through here, and nothing is ever written."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    prefix: Path = field(default_factory=lambda: Path(sys.prefix))
    """The Python environment that is looked at besides those of the stacks."""
    libc: str = field(default_factory=lambda: " ".join(platform.libc_ver()))
    access: Callable[[Path], bool] = field(default_factory=lambda: _may_read_and_write)
    """Whether whoever asks may read and write a file."""
    disk_free: Callable[[], int] = field(default_factory=lambda: _free_where_environments_are)

    @property
    def real(self) -> bool:
        """Whether this is the host that we run on."""
        return self.root == Path("/")

    @property
    def tree(self) -> str:
        """What stands before the names of its files for us: nothing on our own host."""
        return "" if self.real else str(self.root)

    def path(self, name: str) -> Path:
        """Return where a file of the machine lies for us."""
        return self.root / name.lstrip("/")

    @property
    def environment(self) -> str:
        """The machine's own name of the Python environment."""
        inside = not self.real and self.prefix.is_relative_to(self.root)
        return f"/{self.prefix.relative_to(self.root)}" if inside else str(self.prefix)

    def read(self, name: str) -> str:
        """Return the text of a file without blanks round it; empty if it is not there or may not be read."""
        try:
            with self.path(name).open("rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace").strip("\0 \n\t")
        except OSError:
            return ""

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        return files.exists(self.path(name))

    def glob(self, pattern: str) -> list[str]:
        """Return the machine's names of what matches, in order."""
        paths = files.sorted_matches(self.root, pattern.lstrip("/"))
        return [f"/{path.relative_to(self.root)}" for path in paths]

    def target(self, name: str) -> str:
        """Return the machine's name of what a link points at in the end."""
        path = Path(os.path.realpath(self.path(name)))
        root = Path(os.path.realpath(self.root))
        return f"/{path.relative_to(root)}" if path.is_relative_to(root) else str(path)

    def may_use(self, name: str) -> bool:
        """Whether a file may be read and written by whoever asks."""
        return self.access(self.path(name))

    def ownership(self, name: str) -> tuple[str, str, int]:
        """Return a file's mode as `ls` writes it, its group's name (empty: none here) and the group's number."""
        try:
            result = self.path(name).stat()
        except OSError:
            return "", "", -1
        rows = (line.split(":") for line in self.read("/etc/group").splitlines())
        group = next((row[0] for row in rows if row[2:3] == [str(result.st_gid)]), "")
        return stat.filemode(result.st_mode), group, result.st_gid

    def has_library(self, name: str, folders: Collection[str] = ()) -> bool:
        """Whether a shared library is found: by the loader's cache, by LD_LIBRARY_PATH, in the usual folders or in these."""
        named = [folder for folder in self.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        usual = ["/usr/lib", "/usr/lib64", "/usr/local/lib", *self.glob("/usr/lib/*-linux-gnu")]
        there = any(self.exists(f"{folder}/{name}") for folder in (*named, *usual, *folders))
        return there or name in self.read("/etc/ld.so.cache")


def _may_read_and_write(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)  # the kernel knows of access lists too


def _free_where_environments_are() -> int:
    home = next(folder for folder in (HOME, *HOME.parents) if files.exists(folder))
    return shutil.disk_usage(home).free
