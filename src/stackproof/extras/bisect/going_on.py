"""How a search that was stopped goes on: the command for that, and what must still be as it was, so that no two states are mixed."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.api.base import Refusal, places
from stackproof.api.gate import commits
from stackproof.extras.bisect.atoms import End
from stackproof.extras.bisect.checkouts import Repository

_FLAG = "--continue"
_SHOWN, _DIGITS = 10, 12


def command(given: Sequence[str], journal: Path) -> str:
    """Return what goes on, to be pasted to a shell: the words of this call, where it was typed, with its journal."""
    words = [sys.executable, "-m", places.PACKAGE.name, *_without(given), _FLAG, str(journal.absolute())]
    source = [] if places.INSTALLED else ["env", f"PYTHONPATH={places.PACKAGE.parent}"]
    return f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join([*source, *words])}"


def _without(given: Sequence[str]) -> Iterator[str]:
    """Yield the words but for where this call itself went on."""
    value = False
    for word in given:
        if value and not word.startswith("-"):
            value = False
            continue
        value = word == _FLAG
        if not value and not word.startswith(f"{_FLAG}="):
            yield word


def state(ends: Sequence[End], of: Repository, words: Sequence[str]) -> dict[str, str]:
    """Return what the sides are made of besides their ends: of one without a commit, the folder as it is; and the command's own files."""
    found = {"files of the command": _listed([Path(word) for word in words if Path(word).is_file()])}
    if all(end.commit for end in ends):
        return found
    try:
        head = commits.resolved("HEAD", of.folder)
        changed = commits.git("diff", "--name-only", "-z", "HEAD", "--", *of.paths, folder=of.folder).split("\0")
        top = of.top
    except Refusal:  # no repository, or one without a commit
        return found
    return {**found, "HEAD": head[:_DIGITS], "changed files": _listed([top / name for name in changed if name])}


def _listed(paths: Sequence[Path]) -> str:
    """Return files by name and content: the first by name, all by their digests."""
    told = [f"{path.name} {_digest(path)}" for path in paths]
    more = f" and {len(told) - _SHOWN} more {_sum(' '.join(told).encode())}" if len(told) > _SHOWN else ""
    return (", ".join(told[:_SHOWN]) + more) or "none"


def _digest(path: Path) -> str:
    try:
        return _sum(os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes())
    except OSError:
        return "gone"


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
