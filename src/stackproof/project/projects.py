"""A project of the user's own: a folder with `stackproof.toml`, found upward from the working directory or named by `--project`."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stackproof.base import files, git, places
from stackproof.base.errors import Refusal
from stackproof.base.toml import Table, Wrong, read_toml

CARRIED = "STACKPROOF_STACKS"
"""Folders of stacks that packages offer, for a process of an environment where those packages are not."""
NAME = "stackproof.toml"
_ALSO = "pyproject.toml"
_TABLE = "tool.stackproof"
_ABSENT = "; make it, or name what is there"
STACKS, WORKLOADS = "stackproof.stacks", "stackproof.workloads"
"""The groups of entry points that name packages with folders of stacks, and modules with workloads."""


@dataclass(frozen=True)
class _File:
    """The file; what it does not name is looked for under the usual name, and may be absent."""

    name: str = ""
    workloads: tuple[str, ...] | None = None
    stacks: str = ""
    suites: str = ""
    benchmarks: str = ""
    known_issues: str = ""
    expected: str = ""

    def __post_init__(self) -> None:
        for key in ("workloads", "stacks", "suites", "benchmarks", "known_issues", "expected"):
            value = getattr(self, key)
            for place in value if isinstance(value, tuple) else (value,):
                if place and (Path(place).is_absolute() or ".." in Path(place).parts):
                    raise Wrong(key, f"is '{place}'; it must lie in the project, so write it relative to this file")


@dataclass(frozen=True)
class Project:
    """What a project offers: files of workloads, and where its stacks, suites, benchmarks, known issues and manifest lie."""

    file: Path
    name: str
    workloads: tuple[Path, ...]
    stacks: Path | None
    suites: Path | None
    benchmarks: Path | None
    known_issues: Path | None
    expected: Path | None

    @property
    def folder(self) -> Path:
        return self.file.parent

    def display_path(self, path: Path) -> str:
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)

    def digest(self) -> str:
        """Return what changes with any of its files that a run reads: the first 12 digits of their SHA-256."""
        whole = hashlib.sha256()
        for path in sorted(set(self._read())):
            whole.update(f"{self.display_path(path)}\0".encode() + path.read_bytes() + b"\0")
        return whole.hexdigest()[:12]

    def _read(self) -> Iterator[Path]:
        """Yield its code and tables wherever they lie below it, behind links too; runs write results beside them."""
        seen = set[str]()
        for home, inner, names in os.walk(self.folder, followlinks=True):
            real = os.path.realpath(home)
            if "pyvenv.cfg" in names or real in seen:
                inner.clear()
                continue
            seen.add(real)
            inner[:] = [
                name for name in inner if not name.startswith((".", "__")) and name not in ("results", "node_modules")
            ]
            paths = (Path(home, name) for name in names if name.endswith((".py", ".toml", ".lock")))
            yield from (path for path in paths if path.is_file())

    def facts(self) -> dict[str, str]:
        """Return what a record says of it: name, place, commit, digest."""
        facts = {"project": self.name, "project.folder": str(self.folder), "project.digest": self.digest()}
        return {**facts, "project.commit": _commit(self.folder) or "not in git"}


def choose(named: str | None) -> Project | None:
    """Fix the project for this process and those that it starts: the one that is named, else the nearest upward.

    Raises:
        Refusal: what is named is no project, or the file of one is broken.
    """
    if named == "":
        os.environ[places.PROJECT] = ""
    elif named is not None:
        folder = files.expand_user(named)
        if not folder.is_dir():
            here = files.why_no_such_folder(folder)
            what = "is a file; name the folder that holds it" if folder.is_file() else f"{here}; name a folder"
            raise Refusal(f"--project {named}: {what}, such as one that `stackproof init` made")
        if _file_in(folder) is None:
            raise Refusal(
                f"--project {named}: holds no {NAME} and no [{_TABLE}] in {_ALSO}; `stackproof init {named}` makes one"
            )
        os.environ[places.PROJECT] = str(folder.resolve())
    current.cache_clear()
    project = current()
    os.environ[places.PROJECT] = str(project.folder) if project else ""
    return project


@cache
def current() -> Project | None:
    """Return the project that this process is about, or None."""
    named = os.environ.get(places.PROJECT)
    if named == "":
        return None
    file = _file_in(Path(named)) if named else _nearest(Path.cwd())
    if named and file is None:
        raise Refusal(
            f"{places.PROJECT}={named}: holds no {NAME} and no [{_TABLE}] in {_ALSO}; unset it, or name another folder"
        )
    return load(file) if file else None


def at(folder: str) -> Project | None:
    """Return the project of a folder, such as a side's of a gate; None where no folder is named, or it holds none."""
    file = _file_in(Path(folder)) if folder else None
    return load(file) if file else None


def _nearest(start: Path) -> Path | None:
    """Look from a folder upward; a file that somebody else left in a shared folder above is not run by accident."""
    for folder in (start, *start.parents):
        file = _file_in(folder)
        if file is None:
            continue
        owner = file.stat().st_uid
        if owner not in (0, os.getuid(), start.stat().st_uid):
            raise Refusal(
                f"{file}: belongs to another user, and its code would be run; name it with --project {folder} if that is meant"
            )
        return file.resolve()
    return None


def _file_in(folder: Path) -> Path | None:
    own, also = folder / NAME, folder / _ALSO
    asked = also.is_file() and _names_us(also)
    if os.path.lexists(own) and not own.is_file():
        raise Refusal(f"{own}: is no file, and a project is described by a file of that name; rename it")
    if own.is_file() and asked:
        raise Refusal(f"{own} and [{_TABLE}] in {also} both describe a project; keep one of them")
    return own if own.is_file() else also if asked else None


def _names_us(pyproject: Path) -> bool:
    """Whether a file that may be somebody else's has our table, or what should be one."""
    text = pyproject.read_text(encoding="utf-8", errors="replace")
    try:
        tool = read_toml(pyproject).get("tool") if "stackproof" in text else None
    except Refusal:
        return f"[{_TABLE}" in text
    return isinstance(tool, dict) and "stackproof" in tool


def load(file: Path) -> Project:
    """Read the file of a project (Refusal: a key is unknown or wrong, or something that it names is not there)."""
    table = Table.load(file) if file.name == NAME else _inside(file)
    read = table.row(_File)
    folder = file.parent

    def place(key: str, usual: str) -> Path | None:
        value = getattr(read, key)
        path = folder / (value or usual)
        if value and not path.exists():
            raise table.refuse(key, f"is '{value}', and {path} does not exist{_ABSENT}")
        kind, fits = ("folder", path.is_dir()) if key in ("stacks", "suites") else ("file", path.is_file())
        if path.exists() and not fits:
            raise Refusal(f"{path}: is no {kind}, and the project's {key} are one; rename it")
        return path if path.exists() else None

    workloads = [
        path
        for text in (("workloads",) if read.workloads is None else read.workloads)
        for path in _modules(table, folder, text, read.workloads is not None)
    ]
    places = {key: place(key, key) for key in ("stacks", "suites")}
    tables = {key: place(key, f"{key}.toml") for key in ("benchmarks", "known_issues", "expected")}
    return Project(file, read.name or folder.name, tuple(workloads), **places, **tables)


def _inside(file: Path) -> Table:
    values: Any = read_toml(file)
    for key in _TABLE.split("."):
        values = values.get(key, {})
    if not isinstance(values, dict):
        raise Refusal(f"{file}: '{_TABLE}' is {values!r}; it must be a table")
    return Table(file, values, f"{_TABLE}.")


def _modules(table: Table, folder: Path, text: str, named: bool) -> list[Path]:
    """Return the files of workloads in a folder, or the file that is named; helpers start with an underscore."""
    path = folder / text
    if named and not path.exists():
        raise table.refuse("workloads", f"has '{text}', and {path} does not exist{_ABSENT}")
    if path.is_file():
        return [path]
    return sorted(file for file in path.glob("*.py") if not file.name.startswith(("_", "test_", "conftest")))


def stack_folders() -> tuple[Path, ...]:
    """Return the folders that hold stacks besides ours: the project's, and those of packages that offer some."""
    project = current()
    own = (project.stacks,) if project and project.stacks else ()
    carried = (Path(word) for word in os.environ.get(CARRIED, "").split(os.pathsep) if word)
    return (*own, *dict.fromkeys((*_offered(), *(path for path in carried if path.is_dir()))))


def carry() -> list[str]:
    """Let the processes of another environment find the stacks that packages offer; return the modules of workloads that stay behind."""
    folders = dict.fromkeys(map(str, stack_folders()))
    project = current()
    os.environ[CARRIED] = os.pathsep.join(
        folder for folder in folders if project is None or folder != str(project.stacks)
    )
    return sorted(point.value for point in importlib.metadata.entry_points(group=WORKLOADS))


@cache
def _offered() -> tuple[Path, ...]:
    paths = []
    for point in importlib.metadata.entry_points(group=STACKS):
        spec = None
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(point.value)
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise Refusal(
                f"the entry point '{point.name}' of {STACKS} names '{point.value}', which is no package with folders of stacks"
            )
        paths += [Path(place) for place in places]
    return tuple(paths)


def packaged() -> bool:
    return bool(importlib.metadata.entry_points(group=WORKLOADS))


def _commit(folder: Path) -> str:
    """Return the commit that a folder is at, and whether files in it differ; empty outside git."""
    commit, changes = git.head(folder), git.try_output(folder, "status", "--porcelain", ".")
    return git.as_recorded(commit[:12], bool(changes.strip())) if commit and changes is not None else ""
