"""What to do about a culprit, and how to see it again: the lock or the variable that takes it back, and the gate of both."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from stackproof.api.base import files, text
from stackproof.extras.bisect.changes import ABSENT, ChangeKind, Endpoint, Mixture, OneChange, lock_text, mixed
from stackproof.extras.bisect.commits import LOCAL, short
from stackproof.extras.bisect.search import FirstBad


def remedy(
    culprit: Sequence[OneChange], rest: Collection[OneChange], good: Endpoint, bad: Endpoint, folder: Path
) -> str:
    """Say what takes the culprit back; of a package that is a lock, which is written: the bad one without it."""
    steps = [_of(change) for change in culprit if change.kind is not ChangeKind.PACKAGE]
    packages = [change for change in culprit if change.kind is ChangeKind.PACKAGE]
    if packages:
        path = folder / "remedy.lock"
        files.write_atomically(path, lock_text(bad.lock, mixed(good, bad, rest).pins))
        names = ", ".join(f"{change.name} {change.before}" for change in packages[:4])
        more = f" and {len(packages) - 4} more" if len(packages) > 4 else ""
        steps.append(f"hold {names}{more}: {path} is the bad side's lock with that")
    return "; ".join(steps)


def _of(change: OneChange) -> str:
    if change.kind is ChangeKind.VARIABLE:
        if change.before == ABSENT:
            return f"unset {change.name}"
        return f"export {text.in_shell([f'{change.name}={change.before}'])}"
    if change.kind is ChangeKind.SOURCE:
        return f"take {change.name} from {change.before}"
    return f"look at {change.label}"


def revert(guilty: FirstBad, merge: bool) -> str:
    """Say what takes a commit back."""
    first = guilty.names[0][:12]
    if len(guilty.names) > 1:
        return f"one of {', '.join(map(short, guilty.names))}: they could not be told apart"
    if guilty.names[0] == LOCAL:
        return "look at `git status` and `git diff HEAD`"
    if merge:
        return f"git revert -m 1 {first} (a merge; `git log --oneline {first}^1..{first}^2` lists what it brought)"
    return f"git revert {first} (later commits were not tried without it)"


def command(
    begin: Sequence[str], moved: Collection[OneChange], good: Endpoint, bad: Endpoint, subject: str, folder: Path
) -> str:
    """Return the gate of the good side and of it with the culprit, after its first words; locks that it needs are written."""
    ends = {"base": mixed(good, bad, ()), "head": mixed(good, bad, moved)}
    locks = any(change.kind is ChangeKind.PACKAGE for change in moved)
    words = list(begin)
    for side, mixture in ends.items():
        words += _side(side, mixture, good, folder if locks else None)
    return text.in_shell([*words, *(["--only", subject] if subject else [])])


def _side(side: str, mixture: Mixture, good: Endpoint, folder: Path | None) -> list[str]:
    words = [f"--{side}", mixture.commit] if mixture.commit else []
    if folder:
        path = folder / {"base": "good.lock", "head": "culprit.lock"}[side]
        files.write_atomically(path, lock_text(good.lock, mixture.pins))
        words += [f"--{side}-lock", str(path)]
    for name, value in mixture.environment.items():
        words += [f"--{side}-env", f"{name}={value}"]
    for name, source in mixture.sources.items():
        words += [f"--{side}-source", f"{name}={source}"]
    return words
