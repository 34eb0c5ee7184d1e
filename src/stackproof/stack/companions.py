"""Holds torch's companions in an environment that is not ours against what the stack was locked with.

In a vendor's container pip takes the newest transformers and numpy beside an older torch: what then fails is not the stack's fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackproof.stack import lockfile
from stackproof.stack.stacks import Stack


@dataclass(frozen=True)
class Companion:
    """A package that the stack asks for, and that is here in another version than in the lock, or not at all."""

    name: str
    here: str
    """Empty where it is not installed."""
    locked: str
    asked: str
    """The range in the stack's inputs."""
    fits: bool
    """Whether what is here is in that range."""
    vendors: bool
    """Whether the vendor builds it, so that no index serves it."""

    def __str__(self) -> str:
        asked = "" if self.vendors else f", asked for {self.asked}"
        return f"{self.name} {self.here} (locked {self.locked}{asked})" if self.here else self.name


def other(stack: Stack, there: Mapping[str, str], python: str) -> Iterator[Companion]:
    """Yield what is not the lock's of the packages that the stack asks for by name; all else follows from these.

    `there`: versions by canonical name. `python`: such as "3.10". A vendor's own build may carry any local version.
    """
    environment = lockfile.environment_of(python)
    locked = lockfile.read(stack.lock).expected(environment)
    for wanted in lockfile.asked(stack):
        if wanted.marker is not None and not wanted.marker.evaluate(environment):
            continue
        name = canonicalize_name(wanted.name)
        here, pinned, vendors = there.get(name, ""), locked.get(name, ""), lockfile.is_vendor_build(wanted)
        if here != pinned and pinned:
            yield Companion(name, here, pinned, str(wanted.specifier), _fits(wanted, here, vendors), vendors)


def _fits(wanted: Requirement, here: str, vendors: bool) -> bool:
    try:
        version = Version(here)
    except InvalidVersion:
        return False
    if not vendors:
        return wanted.specifier.contains(version, prereleases=True)
    return any(Version(part.version).public == version.public for part in wanted.specifier)


def sentence(stack: Stack, found: list[Companion]) -> str:
    """Say which are out of range, in few words for a check's reason; empty where none is."""
    outside = [str(one) for one in found if one.here and not one.fits]
    return f"not what {stack.name} asks for: {', '.join(outside)}" if outside else ""
