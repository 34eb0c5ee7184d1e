"""The difference of two sides as one list: packages of their locks, variables, sources, and the range of commits; and any mixture of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from stackproof.api.base import plain
from stackproof.api.environment import Lock, Pin, lockfile

Value = TypeVar("Value")
ABSENT = "none"


class AtomKind(str, Enum):
    """What sort of change it is."""

    PACKAGE = "package"
    VARIABLE = "variable"
    SOURCE = "source"
    COMMITS = "commits"


@dataclass(frozen=True)
class Atom:
    """One change: what it changes, from what to what."""

    kind: AtomKind
    name: str
    before: str
    after: str

    @property
    def label(self) -> str:
        """How people read it."""
        if self.kind is AtomKind.COMMITS:
            return f"commits {self.before[:10]}..{self.after[:10] or 'this checkout as it is'}"
        mark = "=" if self.kind is AtomKind.VARIABLE else " "
        source = " from" if self.kind is AtomKind.SOURCE else ""
        return plain(f"{self.name}{source}{mark}{self.before} -> {self.after}", lines=False)


@dataclass(frozen=True)
class End:
    """One side as a point: the commit (empty for this checkout), the lock, variables, and packages from a checkout."""

    commit: str
    lock: Lock
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Mixture:
    """A point between two ends: the good one with some of the changes."""

    commit: str
    pins: tuple[Pin, ...]
    environment: Mapping[str, str]
    sources: Mapping[str, Path]


def differences(good: End, bad: End, described: Mapping[str, str] | None = None) -> list[Atom]:
    """Return every change between two ends that can be moved here; `described`: the markers of the Python that both run on."""
    found = [*_packages(good.lock, bad.lock, described)]
    found += _values(AtomKind.VARIABLE, good.environment, bad.environment)
    found += _values(AtomKind.SOURCE, _texts(good.sources), _texts(bad.sources))
    if good.commit != bad.commit:
        found.append(Atom(AtomKind.COMMITS, "commits", good.commit, bad.commit))
    return found


def mixed(good: End, bad: End, moved: Collection[Atom]) -> Mixture:
    """Return the good end with these changes."""
    names = {kind: {atom.name for atom in moved if atom.kind is kind} for kind in AtomKind}
    packages = names[AtomKind.PACKAGE]
    pins = [pin for pin in good.lock.pins if pin.name not in packages]
    pins += [pin for pin in bad.lock.pins if pin.name in packages]
    return Mixture(
        bad.commit if names[AtomKind.COMMITS] else good.commit,
        tuple(sorted(pins, key=lambda pin: (pin.name, pin.marker))),
        _moved(good.environment, bad.environment, names[AtomKind.VARIABLE]),
        _moved(good.sources, bad.sources, names[AtomKind.SOURCE]),
    )


def lock_text(like: Lock, pins: Iterable[Pin]) -> str:
    """Return a lock of these pins with the header of another."""
    rows = list(pins)
    body = "".join(pin.text for pin in rows)
    said = {**like.header, "packages": str(len(rows)), "unhashed": str(sum(pin.unhashed for pin in rows))}
    said["content"] = lockfile.content_digest(body)
    lines = ["A mixture of two locks, made by `bisect`.", *(f"{key}: {said[key]}" for key in lockfile.HEADER_KEYS)]
    return "".join(f"# {line}\n" for line in lines) + body


def _packages(good: Lock, bad: Lock, described: Mapping[str, str] | None) -> Iterator[Atom]:
    before, after = (
        _by_name(pin for pin in lock.pins if described is None or pin.applies(described)) for lock in (good, bad)
    )
    for name in sorted({*before, *after}):
        old, new = before.get(name, []), after.get(name, [])
        if _versions(old) != _versions(new):
            yield Atom(AtomKind.PACKAGE, name, _versions(old), _versions(new))
        elif _files(old) and _files(new) and not _files(old) & _files(new):  # the same version, built anew
            yield Atom(AtomKind.PACKAGE, name, *(f"{_versions(pins)} ({_first_hash(pins)})" for pins in (old, new)))


def _by_name(pins: Iterable[Pin]) -> dict[str, list[Pin]]:
    found: dict[str, list[Pin]] = {}
    for pin in pins:
        found.setdefault(pin.name, []).append(pin)
    return found


def _versions(pins: Iterable[Pin]) -> str:
    return ", ".join(sorted(pin.version for pin in pins)) or ABSENT


def _files(pins: Iterable[Pin]) -> set[str]:
    return {one for pin in pins for one in pin.hashes}


def _first_hash(pins: Iterable[Pin]) -> str:
    return min(_files(pins)).removeprefix("sha256:")[:8]


def _texts(sources: Mapping[str, Path]) -> dict[str, str]:
    return {name: str(path) for name, path in sources.items()}


def _values(kind: AtomKind, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Atom]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield Atom(kind, name, before.get(name, ABSENT), after.get(name, ABSENT))


def _moved(before: Mapping[str, Value], after: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Return the values of the first, and of the second where a name is moved; one that it does not have is gone."""
    kept = {name: value for name, value in before.items() if name not in names}
    return kept | {name: value for name, value in after.items() if name in names}
