"""Reads `requirements.in`, and says without a network whether a lock still satisfies it."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from . import locks
from .errors import Refusal
from .stacks import Stack


def requirements(path: Path) -> list[Requirement]:
    """Return what a `requirements.in` asks for; a name without a range is refused.

    Raises:
        Refusal: a line cannot be read, or names a package without a range.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: cannot be read ({error}); every stack needs one") from error
    found = [(number, f" {line}".partition(" #")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_requirement(path, number, line) for number, line in found if line]


def overrides(stack: Stack) -> list[Requirement]:
    """Return what uv must believe instead of what wheels ask for (`overrides.in`, which few stacks have).

    Source: https://docs.astral.sh/uv/concepts/resolution/#dependency-overrides
    """
    path = stack.folder / "overrides.in"
    return requirements(path) if path.exists() else []


def stale(stack: Stack) -> list[str]:
    """Return what the lock no longer satisfies of `requirements.in`, one sentence each; needs no network."""
    held = locks.read(stack.lock)
    found = []
    for python in stack.pythons:
        environment = _environment(python)
        pins = held.expected(environment)
        for wanted in _asked(stack):
            if wanted.marker is not None and not wanted.marker.evaluate(environment):
                continue
            version = pins.get(canonicalize_name(wanted.name))
            if version is None:
                found.append(f"{stack.lock}: does not pin {wanted.name} for Python {python}")
            elif not wanted.specifier.contains(version, prereleases=True):
                found.append(f"{stack.lock}: pins {wanted.name} {version} and {stack.inputs.name} asks for {wanted}")
    return found


def is_vendor_build(asked: Requirement) -> bool:
    """Whether a requirement names a local version such as `2.8.0+xpu`, which public indexes never serve."""
    return any("+" in part.version for part in asked.specifier)


def _asked(stack: Stack) -> list[Requirement]:
    """Return what the lock must satisfy: a rehearsal has substitutes in place of the vendor's wheels."""
    wanted = requirements(stack.inputs)
    if stack.lock.name == "requirements.lock":
        return wanted
    # A rehearsed stack has no vendor rows left; those of its inputs carry a local version.
    companions = [row for row in wanted if not is_vendor_build(row)]
    return companions + [Requirement(line) for line in stack.rehearsal.substitutes]


def _requirement(path: Path, number: int, line: str) -> Requirement:
    try:
        row = Requirement(line)
    except InvalidRequirement as error:
        remedy = "write a name and a range such as 'numpy>=2,<3'"
        raise Refusal(f"{path}:{number}: {line!r} is not a requirement; {remedy}") from error
    if not row.specifier:
        remedy = f"write one such as '{row.name}>=1,<2'"
        raise Refusal(f"{path}:{number}: '{line}' names a package without a range; {remedy}")
    return row


def _environment(python: str) -> dict[str, str]:
    """Describe Linux on x86-64 with that Python, for markers."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }
