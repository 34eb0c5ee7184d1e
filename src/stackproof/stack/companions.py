"""Torch's companions in an environment that is not ours: what is not the lock's, and the lock's pins as constraints for pip.

In a vendor's container pip takes the newest transformers and numpy beside an older torch: what then fails is not the stack's fault.
What the vendor built stays as it is installed: no index serves it, and an upstream build in its place breaks the stack.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackproof.stack import lockfile
from stackproof.stack.lockfile import Lock
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
    for wanted in lockfile.asked(stack, environment):
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


def installed() -> dict[str, str]:
    """Return what this Python has: version by canonical name, the first on its path."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            found.setdefault(canonicalize_name(name), distribution.version)
    return found


def constraints(lock: Lock, there: Mapping[str, str]) -> Iterator[str]:
    """Yield a line of pip's constraints for each package: the lock's version, or what is there already if a vendor built it.

    Source: https://pip.pypa.io/en/stable/user_guide/#constraints-files
    """
    pins = {canonicalize_name(pin.name): pin for pin in lock.pins if pin.applies()}
    for name, pin in pins.items():
        if name in there and (pin.unhashed or _is_local(pin.version) or _is_local(there[name])):
            yield _pin(name, there[name], f"the lock has {pin.version}" if there[name] != pin.version else "")
        else:
            yield pin.requirement
    for other in sorted(there.keys() - pins.keys()):
        if _is_local(there[other]):
            yield _pin(other, there[other], "not in the lock")


def weaknesses(lock: Lock, there: Mapping[str, str]) -> Iterator[str]:
    """Yield what makes these constraints weaker than they look."""
    python = ".".join(platform.python_version_tuple()[:2])
    if python not in lock.header["python"].split(", "):
        yield f"the lock is for Python {lock.header['python']} and this is {python}; not every version may exist for it"
    if "torch" not in there:
        yield "this Python has no torch; run it with the Python of the container, so that the vendor's builds are held as they are"


def _is_local(version: str) -> bool:
    """Whether a version has the `+...` of a build that is not upstream's; one that is no version at all is such a build too."""
    try:
        return Version(version).local is not None
    except InvalidVersion:
        return True


def _pin(name: str, version: str, why: str) -> str:
    comment = "  # installed here" + (f"; {why}" if why else "")
    try:
        return f"{name}=={Version(version)}{comment}"
    except InvalidVersion:
        return f"{name}==={version}{comment}"  # compared as text
