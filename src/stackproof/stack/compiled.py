"""Compiled files against their sources: what Python would run in place of a source has to be what that source compiles to.

Python takes a file of `__pycache__` by the time and size of its source, or by a flag without any look at it; neither says what is in
it. Each is compared once, by compiling its source, and then remembered by size, times and inode as installed files are.

Source: https://docs.python.org/3/reference/import.html#cached-bytecode-invalidation
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import struct
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from stackproof.base import processes
from stackproof.stack import installed_files

CACHE = "stackproof.compiled.json"
_FOLDER = "__pycache__"
_REWRITTEN = "-pytest-"
"""What pytest calls its own compiled files, with rewritten assertions; they are made anew in a moment."""
_HEADER = 16
_MANY = 256
_BY_HASH, _CHECKED = 0b01, 0b10


def complaints(folders: Iterable[Path], cache: Path, deep: bool = False) -> list[str]:
    """Say which compiled files below these folders are not what their sources compile to, a line each.

    Args:
        folders: where to look; links to folders are not followed.
        cache: what was compared before is remembered there.
        deep: compare all again, whatever is remembered.
    """
    known = {} if deep else installed_files.remembered(cache)
    marks = {path: installed_files.mark(path, installed_files.mark(_source(path), "")) for path in compiled(folders)}
    fresh = [path for path, mark in marks.items() if known.get(str(path)) != mark]
    wrong = {path: said for path, said in zip(fresh, _faults(fresh), strict=True) if said}
    installed_files.remember(
        cache, {str(path): mark for path, mark in marks.items() if mark and path not in wrong}, known
    )
    return [f"! {path} {said}; delete it, it is made anew" for path, said in wrong.items()]


def _faults(paths: list[Path]) -> list[str]:
    """Return what is wrong with each; thousands, as a first run leaves them, are compiled on several cores."""
    if len(paths) < _MANY:
        return [fault(path) for path in paths]
    with ProcessPoolExecutor(max_workers=min(8, processes.cores())) as pool:
        return list(pool.map(fault, paths, chunksize=64))


def compiled(folders: Iterable[Path]) -> Iterator[Path]:
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
                    yield Path(place, name)


def fault(path: Path) -> str:
    """Say why a compiled file must not be there, or nothing: it is right, or Python does not take it."""
    try:
        content, source = path.read_bytes(), _source(path)
        text, seen = source.read_bytes(), source.stat()
    except OSError:
        return ""  # without its source it is not taken
    if len(content) <= _HEADER or not content.startswith(importlib.util.MAGIC_NUMBER):
        return ""
    flags, first, size = struct.unpack("<III", content[4:_HEADER])
    if flags == _BY_HASH:
        return f"is taken for {source.name} without a look at it"
    if flags == _BY_HASH | _CHECKED:
        taken = content[8:_HEADER] == importlib.util.source_hash(text)
    else:
        taken = (first, size) == (int(seen.st_mtime) & 0xFFFFFFFF, seen.st_size & 0xFFFFFFFF)
    return "" if not taken or _same(content[_HEADER:], text, path, source) else f"is not what {source.name} compiles to"


def _same(body: bytes, text: bytes, path: Path, source: Path) -> bool:
    """Whether a body is the code of a source, at the level of optimisation that its name says."""
    level = path.name.rpartition(".opt-")[2].removesuffix(".pyc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = marshal.loads(body)  # noqa: S302 - only compared, never run
            wanted = compile(
                text, str(source), "exec", dont_inherit=True, optimize=int(level) if level.isdecimal() else 0
            )
        except (ValueError, EOFError, TypeError, SyntaxError):
            return False
    return bool(found == wanted)


def _source(path: Path) -> Path:
    """Return the source that a compiled file stands for."""
    return path.parent.parent / f"{path.name.partition('.')[0]}.py"
