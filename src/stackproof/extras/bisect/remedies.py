"""What to do about a culprit, and how to see it again: the lock or the variable that takes it back, and the gate of both."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from stackproof.api.base import in_shell
from stackproof.api.record import write_atomically
from stackproof.extras.bisect import between
from stackproof.extras.bisect.atoms import ABSENT, Atom, AtomKind, End, Mixture, lock_text, mixed
from stackproof.extras.bisect.between import LOCAL
from stackproof.extras.bisect.search import FirstBad


def remedy(culprit: Sequence[Atom], rest: Collection[Atom], good: End, bad: End, folder: Path) -> str:
    """Say what takes the culprit back; of a package that is a lock, which is written: the bad one without it."""
    told = [_of(atom) for atom in culprit if atom.kind is not AtomKind.PACKAGE]
    packages = [atom for atom in culprit if atom.kind is AtomKind.PACKAGE]
    if packages:
        path = folder / "remedy.lock"
        write_atomically(path, lock_text(bad.lock, mixed(good, bad, rest).pins))
        names = ", ".join(f"{atom.name} {atom.before}" for atom in packages[:4])
        more = f" and {len(packages) - 4} more" if len(packages) > 4 else ""
        told.append(f"hold {names}{more}: {path} is the bad side's lock with that")
    return "; ".join(told)


def _of(atom: Atom) -> str:
    if atom.kind is AtomKind.VARIABLE:
        if atom.before == ABSENT:
            return f"unset {atom.name}"
        return f"export {in_shell([f'{atom.name}={atom.before}'])}"
    if atom.kind is AtomKind.SOURCE:
        return f"take {atom.name} from {atom.before}"
    return f"look at {atom.label}"


def revert(guilty: FirstBad, merge: bool) -> str:
    """Say what takes a commit back."""
    first = guilty.names[0][:12]
    if len(guilty.names) > 1:
        return f"one of {', '.join(map(between.short, guilty.names))}: they could not be told apart"
    if guilty.names[0] == LOCAL:
        return "look at `git status` and `git diff HEAD`"
    if merge:
        return f"git revert -m 1 {first} (a merge; `git log --oneline {first}^1..{first}^2` lists what it brought)"
    return f"git revert {first} (later commits were not tried without it)"


def command(begin: Sequence[str], moved: Collection[Atom], good: End, bad: End, subject: str, folder: Path) -> str:
    """Return the gate of the good side and of it with the culprit, after its first words; locks that it needs are written."""
    ends = {"base": mixed(good, bad, ()), "head": mixed(good, bad, moved)}
    locks = any(atom.kind is AtomKind.PACKAGE for atom in moved)
    words = list(begin)
    for side, mixture in ends.items():
        words += _side(side, mixture, good, folder if locks else None)
    return in_shell([*words, *(["--only", subject] if subject else [])])


def _side(side: str, mixture: Mixture, good: End, folder: Path | None) -> list[str]:
    words = [f"--{side}", mixture.commit] if mixture.commit else []
    if folder:
        path = folder / {"base": "good.lock", "head": "culprit.lock"}[side]
        write_atomically(path, lock_text(good.lock, mixture.pins))
        words += [f"--{side}-lock", str(path)]
    for name, value in mixture.environment.items():
        words += [f"--{side}-env", f"{name}={value}"]
    for name, source in mixture.sources.items():
        words += [f"--{side}-source", f"{name}={source}"]
    return words
