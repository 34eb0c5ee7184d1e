"""Which changes cannot be moved without which: from what the wheels of both ends ask for; and units, which move together.

A wheel that names an exact version of another, as torch does of triton and nvidia-*, makes one unit of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackproof.extras.bisect.atoms import Atom, AtomKind

Asked = Mapping[str, Sequence[Requirement]]
"""What each installed package asks for, by canonical name."""


@dataclass(frozen=True)
class MovingUnit:
    """Changes that move together, and the names of all units that they cannot be moved without."""

    name: str
    atoms: tuple[Atom, ...]
    needs: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """How people read it: of many, the first two."""
        shown = "; ".join(atom.label for atom in self.atoms[:2])
        more = len(self.atoms) - 2
        return f"{shown}; and {more} that move with them" if more > 0 else shown


def asked_by(site: Path) -> dict[str, list[Requirement]]:
    """Return what the packages of an environment ask for, by their metadata."""
    found: dict[str, list[Requirement]] = {}
    for package in metadata.distributions(path=[str(site)]):
        name = package.metadata["Name"]
        if name:
            found[canonicalize_name(name)] = [*_read(package.requires or ())]
    return found


def _read(lines: Iterable[str]) -> Iterable[Requirement]:
    for line in lines:
        try:
            row = Requirement(line)
        except InvalidRequirement:
            continue
        if row.marker is None or row.marker.evaluate({"extra": ""}):
            yield row


def units(atoms: Sequence[Atom], good: Asked, bad: Asked) -> list[MovingUnit]:
    """Return the changes as units, each after those that it needs."""
    reach = _closures(atoms, _needs(atoms, good, bad))
    groups: dict[frozenset[str], list[Atom]] = {}
    for atom in atoms:
        together = frozenset(other for other in reach[atom.name] if atom.name in reach[other])
        groups.setdefault(together, []).append(atom)
    named = {name: _name(group) for group in groups.values() for name in (atom.name for atom in group)}
    found = []
    for group in groups.values():
        needs = {named[other] for atom in group for other in reach[atom.name]} - {_name(group)}
        found.append(MovingUnit(_name(group), tuple(group), frozenset(needs)))
    return sorted(found, key=lambda unit: len(unit.needs))


def _name(group: Sequence[Atom]) -> str:
    return "+".join(atom.name for atom in group)


def _needs(atoms: Sequence[Atom], good: Asked, bad: Asked) -> dict[str, set[str]]:
    """Return for each change those without which what the wheels ask for does not hold."""
    moved = {atom.name: atom for atom in atoms if atom.kind is AtomKind.PACKAGE}
    found: dict[str, set[str]] = {atom.name: set() for atom in atoms}
    for name in moved:
        for other in _unmet(bad.get(name, ()), {key: atom.before for key, atom in moved.items()}):
            found[name].add(other)  # its new wheel does not take the other's old one
        for other in _unmet(good.get(name, ()), {key: atom.after for key, atom in moved.items()}):
            found[other].add(name)  # its old wheel does not take the other's new one
    return found


def _unmet(asked: Iterable[Requirement], versions: Mapping[str, str]) -> Iterable[str]:
    for row in asked:
        name = canonicalize_name(row.name)
        version = versions.get(name)
        if version is not None and not _takes(row, version.partition(" ")[0]):
            yield name


def _takes(row: Requirement, version: str) -> bool:
    """Whether a version will do; one that is absent will not, and of several for several Pythons any."""
    parts = [part.strip() for part in version.split(",") if part.strip() and part.strip() != "none"]
    return any(row.specifier.contains(part, prereleases=True) for part in parts)


def _closures(atoms: Sequence[Atom], needs: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """Return for each change all that it needs, over any number of steps, itself included."""
    found: dict[str, frozenset[str]] = {}
    for atom in atoms:
        seen, left = {atom.name}, [atom.name]
        while left:
            fresh = needs[left.pop()] - seen
            seen |= fresh
            left += fresh
        found[atom.name] = frozenset(seen)
    return found
