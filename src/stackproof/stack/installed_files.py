"""What is installed: which packages, and every file against the RECORD of its wheel, with nothing importable beside those files.

A file is hashed once, and again when its size, its inode or the time of its last change is another (ctime, which nobody can put back).
Source: https://packaging.python.org/en/latest/specifications/recording-installed-packages/#the-record-file
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import importlib.machinery
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackproof.base import files, processes
from stackproof.base.files import try_read_json, write_atomically

CACHE = "stackproof.files.json"
SEALED = "records"
"""What the stamp of an environment calls the digest over all its RECORDs, taken when it was built."""
BESIDE = "beside"
"""What it calls the files that were there and in no RECORD, with their hashes."""
FLAWED = "not as in RECORD"
"""What it calls the files that differ from their own wheel's RECORD, with package and hash: they stayed so when it was fetched anew."""
_METADATA = (".dist-info", ".egg-info")
_NAMED = re.compile(r"(.+?)-([^-]+)(?:-py3\.\d+)?\.(?:dist|egg)-info")
_IMPORTABLE = (*importlib.machinery.all_suffixes(), ".pth", ".egg", ".egg-link", ".zip")
_NUMBERED = ".so."
"""In the names of libraries such as libm.so.6: beside a wheel's own, the loader takes them before the system's (RPATH)."""


@dataclass(frozen=True)
class Listed:
    """A file that a RECORD lists: which distribution, where, and its hash as RECORD writes it (empty: none)."""

    owner: str
    path: str
    hash: str


@dataclass(frozen=True)
class Coverage:
    """How much was compared: files with a hash, how many of them were read now, files without one."""

    files: int
    read: int
    unhashed: int
    flawed: int = 0

    def sentence(self) -> str:
        """Say how many files equal their hashes."""
        beside = f", {self.unhashed} without one" if self.unhashed else ""
        if self.flawed:
            beside += f", {self.flawed} as their wheel holds them though its RECORD says otherwise"
        read = f"({self.read} read now, the others unchanged since)"
        return f"{self.files} files equal their wheels' hashes {read}{beside}"


def compare(site: Path, stamp: Mapping[str, object], deep: bool = False) -> tuple[Coverage, list[str]]:
    """Return what was compared in a folder of packages and what differs, a line each.

    A file is hashed once: as long as its size, its ctime, its inode and what RECORD says of it are the same, it is the same file.

    Args:
        site: the environment's site-packages.
        stamp: what was left in the environment when it was built.
        deep: hash every file again, whatever is remembered of it.
    """
    rows, hashed, marks = _marked(site)
    known = {} if deep else remembered(site / CACHE)
    fresh = [row for row in hashed if not marks[row.path] or known.get(row.path) != marks[row.path]]
    flawed, ours = (value if isinstance(value, dict) else {} for value in map(stamp.get, (FLAWED, BESIDE)))
    wrong = {path: reason for path, reason in _differences(site, fresh) if not _as_built(site, path, flawed)}
    remember(site / CACHE, {path: seen for path, seen in marks.items() if seen and path not in wrong}, known)
    seal = stamp.get(SEALED)
    broken = "! a RECORD is not the one that the build left, so that its hashes prove nothing"
    differ = [*([] if seal in (None, seal_of(site)) else [broken]), *wrong.values(), *_beside(site, rows, ours)]
    return Coverage(len(hashed), len(fresh), len(rows) - len(hashed), len(flawed)), differ


def seals(site: Path) -> dict[str, Any]:
    """Return what the stamp of a new environment keeps of its files: its RECORDs' digest, what is ours beside them, wheels' flaws.

    Every file is read once for that, and remembered, so that the first proof need not. A flaw is a file that is not as its RECORD says:
    who builds fetches its package anew.
    """
    rows, hashed, marks = _marked(site)
    owners = {row.path: package_of(row.owner) for row in hashed}
    flawed = {path: (owners[path], digest_at(site / path)) for path, _ in _differences(site, hashed)}
    remember(site / CACHE, {path: seen for path, seen in marks.items() if seen and path not in flawed}, {})
    beside = {name: hash_of(site / name, "sha256") for name in strays(site, rows)}
    return {SEALED: seal_of(site), BESIDE: beside, FLAWED: flawed}


def _marked(site: Path) -> tuple[list[Listed], list[Listed], dict[str, str]]:
    rows = [row for record in records(site) for row in listed(record)]
    hashed = [row for row in rows if row.hash]
    return rows, hashed, {row.path: file_state(f"{site}/{row.path}", row.hash) for row in hashed}


def _as_built(site: Path, path: str, flawed: Mapping[str, Sequence[str]]) -> bool:
    """Whether a file that RECORD denies is still what the build found in the wheel."""
    return path in flawed and [digest_at(site / path)] == list(flawed[path])[1:]


def _beside(site: Path, rows: list[Listed], ours: Mapping[str, str]) -> Iterator[str]:
    """Yield a complaint for what lies beside the wheels' files and was not there when the environment was built."""
    for name in strays(site, rows):
        if name not in ours:
            yield f"! {name}: is in no wheel's RECORD; nothing may lie beside the lock's files"
        elif hash_of(site / name, "sha256") != ours[name]:
            yield f"! {name}: is not what the build left"


def records(site: Path) -> list[Path]:
    """Return the RECORD of every distribution, in alphabetical order."""
    return sorted(site.glob("*.dist-info/RECORD"))


def listed(record: Path) -> Iterator[Listed]:
    """Yield what a RECORD lists; itself and compiled files have no hash there and are left out."""
    owner = record.parent.name.removesuffix(".dist-info")
    with record.open(encoding="utf-8", newline="") as stream:
        for row in csv.reader(stream):
            if len(row) == 3 and not row[0].endswith((".pyc", "/RECORD", "/RECORD.jws", "/RECORD.p7s")):
                yield Listed(owner, row[0], row[1])


def seal_of(site: Path) -> str:
    """Return the digest over all RECORDs: who edits a file and its RECORD breaks this."""
    whole = hashlib.sha256()
    for record in records(site):
        whole.update(f"{record.parent.name}\0{hashlib.sha256(record.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def digest_of(site: Path, package: str) -> str:
    """Return the digest over the files of one distribution, such as one that a checkout was installed over the lock."""
    rows = (row for record in records(site) for row in listed(record))
    mine = (row.path for row in rows if package_of(row.owner) == canonicalize_name(package))
    paths = sorted(path for path in mine if ".dist-info/" not in path)
    text = "".join(f"{path} {hash_of(site / path, 'sha256')}\n" for path in paths)
    return hashlib.sha256(text.encode()).hexdigest() if paths else "unknown"


def strays(site: Path, rows: Iterable[Listed]) -> list[str]:
    """Return what can be imported or loaded, or announces a package, and is in no RECORD."""
    known = {os.path.normpath(row.path) if "./" in row.path else row.path for row in rows}
    lines, root = list[str](), f"{site}{os.sep}"
    folders = {
        parent.as_posix() for home in set(map(os.path.dirname, known)) for parent in (Path(home), *Path(home).parents)
    }
    for folder, inner, names in os.walk(site):
        inner[:] = [name for name in inner if name != "__pycache__"]
        within = f"{folder}{os.sep}"[len(root) :]
        metadata = within.partition(os.sep)[0].endswith(_METADATA)
        chosen = [
            name for name in names if name.endswith(_IMPORTABLE) or _NUMBERED in name or (metadata and name != "RECORD")
        ]
        # A link to a folder into which no wheel has put anything; nobody looks behind it here.
        chosen += [name for name in inner if f"{within}{name}" not in folders and Path(folder, name).is_symlink()]
        lines += [path for name in chosen if (path := f"{within}{name}") not in known]
    return sorted(lines)


def installed(folders: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Return what is installed in folders but for us, by canonical name, in all versions that are there, as metadata is called."""
    groups: dict[str, set[str]] = {}
    for path in (path for folder in folders for path in folder.glob("*-info")):
        if (match := _NAMED.fullmatch(path.name)) and (name := canonicalize_name(match[1])) != "stackproof":
            groups.setdefault(name, set()).add(normal_version(match[2]))
    return {name: tuple(sorted(versions)) for name, versions in sorted(groups.items())}


def normal_version(version: str) -> str:
    """Return a version as locks write it; what is no version stays as it is."""
    return str(version_of(version) or version)


def version_of(text: str) -> Version | None:
    """Return the version that a text is, if it is one."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def package_of(owner: str) -> str:
    """Return the canonical name of a distribution, such as `torch-2.8.0`."""
    return canonicalize_name(owner.rpartition("-")[0])


def digest_at(path: Path) -> str:
    """Return a file's SHA-256 as RECORD writes it; empty where there is no file."""
    return hash_of(path, "sha256") if path.is_file() else ""


def hash_of(path: Path, algorithm: str) -> str:
    """Return a file's hash as RECORD writes it."""
    return base64.urlsafe_b64encode(files.digest(path, algorithm)).rstrip(b"=").decode()


def _differences(site: Path, rows: list[Listed]) -> Iterator[tuple[str, str]]:
    """Yield path and complaint of every file that is not what RECORD says; hashing leaves Python's lock, so threads help."""
    with ThreadPoolExecutor(max_workers=min(8, processes.cores())) as pool:
        for row, reason in zip(rows, pool.map(lambda row: _difference(site, row), rows), strict=True):
            if reason:
                first = f"; before that, `uv cache clean {package_of(row.owner)}`: the cache may hold the same file"
                yield row.path, f"! {row.owner}: {row.path} {reason}{first}"


def _difference(site: Path, row: Listed) -> str:
    algorithm, _, expected = row.hash.partition("=")
    try:
        if not stat.S_ISREG(os.stat(site / row.path).st_mode):  # noqa: PTH116 - 27,000 of them; a pipe would be waited for
            return "is no file"
        same = hash_of(site / row.path, algorithm) == expected
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError) as error:
        return f"cannot be compared ({error})"
    return "" if same else "is not the file that its wheel held (another hash)"


def file_state(path: Path | str, expected: str) -> str:
    """Return what must be the same for a file to be the one that was hashed; empty if it is not there."""
    try:
        seen = os.stat(path)  # noqa: PTH116 - 27,000 of them
    except OSError:
        return ""
    return f"{seen.st_size} {seen.st_ctime_ns} {seen.st_dev} {seen.st_ino} {expected}"


def remembered(cache: Path) -> dict[str, str]:
    """Return what was seen before; nothing if that cannot be read, since a damaged cache is made anew."""
    value = try_read_json(cache)
    return value if isinstance(value, dict) else {}


def remember(cache: Path, marks: dict[str, str], known: dict[str, str]) -> None:
    """Keep what was seen; where nothing can be written, the next run reads every file again."""
    if marks == known:
        return
    with contextlib.suppress(OSError):
        write_atomically(cache, json.dumps(marks), durably=False)
