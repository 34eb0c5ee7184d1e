"""Writes a stack's pins as constraints for pip, for an environment that is not ours, such as a vendor's container.

What the vendor built stays as it is installed: no index serves it, and an upstream build in its place breaks the stack.
Source: https://pip.pypa.io/en/stable/user_guide/#constraints-files
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackproof.stack.lockfile import Lock, Pin


def installed() -> dict[str, str]:
    """Return what this Python has: version by canonical name, the first on its path."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            found.setdefault(canonicalize_name(name), distribution.version)
    return found


def lines(lock: Lock, there: Mapping[str, str]) -> Iterator[str]:
    """Yield one constraint for each package: the lock's version, or what is there already if a vendor built it."""
    pins = {canonicalize_name(pin.name): pin for pin in lock.pins if pin.applies()}
    for name, pin in pins.items():
        if name in there and _of_a_vendor(pin, there[name]):
            yield _held(name, there[name], f"the lock has {pin.version}" if there[name] != pin.version else "")
        else:
            yield pin.requirement
    for other in sorted(there.keys() - pins.keys()):
        if _is_local(there[other]):
            yield _held(other, there[other], "not in the lock")


def notes(lock: Lock, there: Mapping[str, str]) -> Iterator[str]:
    """Yield what makes these constraints weaker than they look."""
    python = ".".join(platform.python_version_tuple()[:2])
    if python not in lock.header["python"].split(", "):
        yield f"the lock is for Python {lock.header['python']} and this is {python}; not every version may exist for it"
    if "torch" not in there:
        yield "this Python has no torch; run it with the Python of the container, so that the vendor's builds are held as they are"


def _of_a_vendor(pin: Pin, version: str) -> bool:
    return pin.unhashed or _is_local(pin.version) or _is_local(version)


def _is_local(version: str) -> bool:
    """Whether a version has the `+...` of a build that is not upstream's; one that is no version at all is such a build too."""
    try:
        return Version(version).local is not None
    except InvalidVersion:
        return True


def _held(name: str, version: str, why: str) -> str:
    comment = "  # installed here" + (f"; {why}" if why else "")
    try:
        return f"{name}=={Version(version)}{comment}"
    except InvalidVersion:
        return f"{name}==={version}{comment}"  # compared as text
