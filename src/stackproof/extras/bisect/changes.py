"""The difference of two sides as a list of changes, which of them move together, and any mixture of both sides.

Changes are packages of the locks, variables, sources, and the range of commits. What the wheels of both ends ask for says which change
cannot be moved without which: one that names an exact version of another, as torch does of triton and nvidia-*, makes a unit of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackproof.api.base import text
from stackproof.api.environment import lockfile

Value = TypeVar("Value")
ABSENT = "none"
Requirements = Mapping[str, Sequence[Requirement]]
"""What each installed package asks for, by canonical name."""


class ChangeKind(str, Enum):
    """What sort of change it is."""

    PACKAGE = "package"
    VARIABLE = "variable"
    SOURCE = "source"
    COMMITS = "commits"


@dataclass(frozen=True)
class OneChange:
    """What a change changes, from what to what."""

    kind: ChangeKind
    name: str
    before: str
    after: str

    @property
    def label(self) -> str:
        """How people read it."""
        if self.kind is ChangeKind.COMMITS:
            return f"commits {self.before[:10]}..{self.after[:10] or 'this checkout as it is'}"
        mark = "=" if self.kind is ChangeKind.VARIABLE else " "
        source = " from" if self.kind is ChangeKind.SOURCE else ""
        return text.plain(f"{self.name}{source}{mark}{self.before} -> {self.after}", lines=False)


@dataclass(frozen=True)
class ChangeUnit:
    """Changes that move together, and the names of all units that they cannot be moved without."""

    name: str
    changes: tuple[OneChange, ...]
    needs: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """How people read it: of many, the first two."""
        shown = "; ".join(change.label for change in self.changes[:2])
        more = len(self.changes) - 2
        return f"{shown}; and {more} that move with them" if more > 0 else shown


@dataclass(frozen=True)
class Endpoint:
    """A side: the commit (empty for this checkout), the lock, variables, and packages from a checkout."""

    commit: str
    lock: lockfile.Lock
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Mixture:
    """A point between two ends: the good one with some of the changes."""

    commit: str
    pins: tuple[lockfile.Pin, ...]
    environment: Mapping[str, str]
    sources: Mapping[str, Path]


def differences(good: Endpoint, bad: Endpoint, described: Mapping[str, str] | None = None) -> list[OneChange]:
    """Return every change between two ends that can be moved here; `described`: the markers of the Python that both run on."""
    found = [*_packages(good.lock, bad.lock, described)]
    found += _values(ChangeKind.VARIABLE, good.environment, bad.environment)
    found += _values(ChangeKind.SOURCE, good.sources, bad.sources)
    if good.commit != bad.commit:
        found.append(OneChange(ChangeKind.COMMITS, "commits", good.commit, bad.commit))
    return found


def mixed(good: Endpoint, bad: Endpoint, moved: Collection[OneChange]) -> Mixture:
    """Return the good end with these changes."""
    names = {kind: {change.name for change in moved if change.kind is kind} for kind in ChangeKind}
    packages = names[ChangeKind.PACKAGE]
    pins = [pin for pin in good.lock.pins if pin.name not in packages]
    pins += [pin for pin in bad.lock.pins if pin.name in packages]
    return Mixture(
        bad.commit if names[ChangeKind.COMMITS] else good.commit,
        tuple(sorted(pins, key=lambda pin: (pin.name, pin.marker))),
        _moved(good.environment, bad.environment, names[ChangeKind.VARIABLE]),
        _moved(good.sources, bad.sources, names[ChangeKind.SOURCE]),
    )


def lock_text(like: lockfile.Lock, pins: Collection[lockfile.Pin]) -> str:
    """Return a lock of these pins with the header of another."""
    body = "".join(pin.text for pin in pins)
    header = {**like.header, "packages": str(len(pins)), "unhashed": str(sum(pin.unhashed for pin in pins))}
    header["content"] = lockfile.content_digest(body)
    lines = ["A mixture of two locks, made by `bisect`.", *(f"{key}: {header[key]}" for key in lockfile.HEADER_KEYS)]
    return "".join(f"# {line}\n" for line in lines) + body


def _packages(good: lockfile.Lock, bad: lockfile.Lock, described: Mapping[str, str] | None) -> Iterator[OneChange]:
    before, after = (
        _by_name(pin for pin in lock.pins if described is None or pin.applies(described)) for lock in (good, bad)
    )
    for name in sorted({*before, *after}):
        pins = before.get(name, []), after.get(name, [])
        old, new = (", ".join(sorted(pin.version for pin in side)) or ABSENT for side in pins)
        hashes = [{digest for pin in side for digest in pin.hashes} for side in pins]
        if old == new and all(hashes) and not hashes[0] & hashes[1]:  # the same version, built anew
            old, new = (f"{old} ({min(side).removeprefix('sha256:')[:8]})" for side in hashes)
        if old != new:
            yield OneChange(ChangeKind.PACKAGE, name, old, new)


def _by_name(pins: Iterable[lockfile.Pin]) -> dict[str, list[lockfile.Pin]]:
    found: dict[str, list[lockfile.Pin]] = {}
    for pin in pins:
        found.setdefault(pin.name, []).append(pin)
    return found


def _values(kind: ChangeKind, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[OneChange]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield OneChange(kind, name, str(before.get(name, ABSENT)), str(after.get(name, ABSENT)))


def _moved(before: Mapping[str, Value], after: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Return the values of the first, and of the second where a name is moved; one that it does not have is gone."""
    kept = {name: value for name, value in before.items() if name not in names}
    return kept | {name: value for name, value in after.items() if name in names}


def requirements_of(site: Path) -> dict[str, list[Requirement]]:
    """Return what the packages of an environment ask for, by their metadata."""
    return {
        canonicalize_name(package.metadata["Name"]): [*_requirements(package.requires or ())]
        for package in metadata.distributions(path=[str(site)])
        if package.metadata["Name"]
    }


def _requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    for line in lines:
        try:
            row = Requirement(line)
        except InvalidRequirement:
            continue
        if row.marker is None or row.marker.evaluate({"extra": ""}):
            yield row


def units(changes: Sequence[OneChange], good: Requirements, bad: Requirements) -> list[ChangeUnit]:
    """Return the changes as units, each after those that it needs."""
    reach = _reach(changes, _needs(changes, good, bad))
    groups: dict[frozenset[str], list[OneChange]] = {}
    for change in changes:
        together = frozenset(other for other in reach[change.name] if change.name in reach[other])
        groups.setdefault(together, []).append(change)
    titles = {group: "+".join(change.name for change in members) for group, members in groups.items()}
    unit_of = {change.name: titles[group] for group, members in groups.items() for change in members}
    found = []
    for group, members in groups.items():
        needs = {unit_of[other] for change in members for other in reach[change.name]} - {titles[group]}
        found.append(ChangeUnit(titles[group], tuple(members), frozenset(needs)))
    return sorted(found, key=lambda unit: len(unit.needs))


def _needs(changes: Sequence[OneChange], good: Requirements, bad: Requirements) -> dict[str, set[str]]:
    """Return for each change those without which what the wheels ask for does not hold."""
    moved = {change.name: change for change in changes if change.kind is ChangeKind.PACKAGE}
    found: dict[str, set[str]] = {change.name: set() for change in changes}
    for name in moved:
        for other in _unmet(bad.get(name, ()), {key: change.before for key, change in moved.items()}):
            found[name].add(other)  # its new wheel does not take the other's old one
        for other in _unmet(good.get(name, ()), {key: change.after for key, change in moved.items()}):
            found[other].add(name)  # its old wheel does not take the other's new one
    return found


def _unmet(rows: Iterable[Requirement], versions: Mapping[str, str]) -> Iterator[str]:
    """Yield what is asked for in another version than there is; of several for several Pythons any will do, an absent one will not."""
    for row in rows:
        name = canonicalize_name(row.name)
        if name in versions:
            parts = [part.strip() for part in versions[name].partition(" (")[0].split(",")]
            if not any(row.specifier.contains(part, prereleases=True) for part in parts if part not in ("", ABSENT)):
                yield name


def _reach(changes: Sequence[OneChange], needs: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """Return for each change all that it needs, over any number of steps, itself included."""
    found: dict[str, frozenset[str]] = {}
    for change in changes:
        seen, left = {change.name}, [change.name]
        while left:
            fresh = needs[left.pop()] - seen
            seen |= fresh
            left += fresh
        found[change.name] = frozenset(seen)
    return found
