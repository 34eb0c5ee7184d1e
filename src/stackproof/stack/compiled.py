"""Compiled files against their sources: what Python would run in place of a source has to be what that source compiles to.

Python takes a file of `__pycache__` by the time and size of its source, or by a flag without any look at it; neither says what is in
it. Each is compared once, by compiling its source, and then remembered by size, times and inode as installed files are.

Source: https://docs.python.org/3/reference/import.html#cached-bytecode-invalidation
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stackproof.base import processes
from stackproof.stack import compiled_reader, installed_files

CACHE = "stackproof.compiled.json"
_FOLDER = "__pycache__"
_REWRITTEN = "-pytest-"
"""What pytest calls its own compiled files, with rewritten assertions; they are made anew in a moment."""
_MANY = 256
_READER = (sys.executable, "-I", "-S", compiled_reader.__file__)
_READ_S = 900.0
"""What a whole batch may take; 4,000 take half a minute of a core."""


def complaints(folders: Iterable[Path], cache: Path, deep: bool = False) -> list[str]:
    """Say which compiled files below these folders are not what their sources compile to, a line each.

    Args:
        folders: where to look; links to folders are not followed.
        cache: what was compared before is remembered there, also what lies elsewhere: an environment may serve several checkouts.
        deep: compare all again, whatever is remembered.
    """
    folders = tuple(folders)
    known = {} if deep else installed_files.remembered(cache)
    marks = {
        path: installed_files.mark(path, installed_files.mark(compiled_reader.source_of(path), ""))
        for path in compiled(folders)
    }
    fresh = [path for path, mark in marks.items() if known.get(path) != mark]
    wrong = {path: said for path, said in zip(fresh, _faults(fresh), strict=True) if said}
    right = {path: mark for path, mark in marks.items() if mark and path not in wrong}
    installed_files.remember(cache, {**_elsewhere(known, folders), **right}, known)
    return [f"! {path} {said}; delete it, it is made anew" for path, said in wrong.items()]


def _elsewhere(known: Mapping[str, str], folders: Iterable[Path]) -> dict[str, str]:
    """Return what is remembered of files that are in none of these folders and still there."""
    within = tuple(f"{folder}{os.sep}" for folder in folders)
    return {path: mark for path, mark in known.items() if not path.startswith(within) and os.path.exists(path)}  # noqa: PTH110


def _faults(paths: list[str]) -> list[str]:
    """Return what is wrong with each; thousands, as a first run leaves them, are compiled on several cores."""
    parts = min(8, processes.cores()) if len(paths) >= _MANY else 1
    with ThreadPoolExecutor(max_workers=parts) as pool:
        found = list(pool.map(_read, [paths[part::parts] for part in range(parts)]))
    return [found[place % parts][place // parts] for place in range(len(paths))]


def _read(paths: list[str]) -> list[str]:
    """Have them read by a process of its own, and by another one from there on where one dies of a file."""
    found: list[str] = []
    while len(found) < len(paths):
        asked = "".join(f"{json.dumps(path)}\n" for path in paths[len(found) :])
        try:
            ended = subprocess.run(_READER, input=asked, capture_output=True, text=True, timeout=_READ_S, check=False)
        except (subprocess.TimeoutExpired, OSError):
            return [
                *found,
                *["was not compared: its reader did not start or took too long"] * (len(paths) - len(found)),
            ]
        found += [json.loads(line) for line in ended.stdout.splitlines()]
        if len(found) < len(paths):
            how = processes.describe_exit(ended.returncode)
            found.append(f"cannot be compared: who reads it ends with {how}")
    return found


def compiled(folders: Iterable[Path]) -> Iterator[str]:
    """Yield the compiled files that Python may take; those of pytest's are removed, so that it compiles anew."""
    for folder in folders:
        for place, inner, names in os.walk(folder):
            if os.path.basename(place) != _FOLDER:  # noqa: PTH119 - thousands of them
                continue
            inner.clear()
            for name in names:
                if name.endswith(".pyc") and _REWRITTEN in name:
                    with contextlib.suppress(OSError):
                        Path(place, name).unlink()
                elif name.endswith(".pyc"):
                    yield f"{place}/{name}"
