"""`python -m stackproof VERB`: in an environment of ours with compiled code of its own, in a damaged one with a sentence.

Python takes a `.pyc` beside a source by its stamp, whatever it was compiled from. Here all of it, for this process and for those that it
starts, comes from one folder of the environment; what the last run did not leave there, or whose source is another, goes first.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from stackproof.base import advice, files, places
from stackproof.base.text import plain

Mark = list[int]


def marks(folder: Path) -> Iterator[tuple[str, Mark]]:
    """Yield each file of compiled code with what changes as soon as it or its source does: ctimes, which nobody can put back.

    Of a link, which Python does not write, and of what has no source any more, that is nothing.
    """
    for at, inner, names in os.walk(folder):
        source = Path(at[len(str(folder)) :])
        for name in [*names, *(name for name in inner if Path(at, name).is_symlink())]:
            mark = []
            with contextlib.suppress(OSError):
                rows = Path(at, name).lstat(), (source / f"{name.partition('.')[0]}.py").stat()
                linked = stat.S_ISLNK(rows[0].st_mode)
                mark = [] if linked else [part for row in rows for part in (row.st_ctime_ns, row.st_ino)]
            yield f"{at}/{name}", mark


def sweep(folder: Path, seal: Path) -> dict[str, Mark]:
    """Delete the compiled code that the last run did not leave, and return what it left (OSError: it cannot be deleted)."""
    value = files.try_read_json(seal)
    known = value if isinstance(value, dict) else {}
    if folder.is_symlink():
        folder.unlink()
    for path, mark in list(marks(folder)):
        if not mark or known.get(path) != mark:
            Path(path).unlink(missing_ok=True)
    return known


def main() -> int:
    """Run the verb, and end with one line where it is interrupted before it listens, or as it leaves."""
    try:
        return _run()
    except KeyboardInterrupt:
        print("stackproof: interrupted", file=sys.stderr)  # noqa: T201
        return 130


def _run() -> int:
    """Run the verb; where something of it cannot be imported, it is missing or damaged, and that is said."""
    folder, seal = places.COMPILED_CODE, Path(sys.prefix, "stackproof.compiled.json")
    known = None
    try:
        if places.STAMP.is_file():
            sys.pycache_prefix = os.environ[places.COMPILED] = str(folder)
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # it lies beside nobody's sources
            sys.dont_write_bytecode = False
            known = sweep(folder, seal)
        from stackproof import cli
    except Exception as error:
        if (refusal := advice.unloadable(error)) is None:
            raise
        print(f"stackproof: {plain(str(refusal))}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    try:
        return cli.main()
    finally:
        if known is not None and (left := {path: mark for path, mark in marks(folder) if mark}) != known:
            with contextlib.suppress(OSError):  # else the next run compiles again
                files.write_atomically(seal, json.dumps(left), durably=False)


if __name__ == "__main__":
    sys.exit(main())
