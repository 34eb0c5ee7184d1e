"""How records say which code ran: a commit, and whether files differed from it."""

from __future__ import annotations

_LOCAL_CHANGES = " (with local changes)"
UNKNOWN = "unknown"
_VERSION = "version "


def told(commit: str, changed: bool) -> str:
    """Return what a record says of the commit that a folder is at."""
    return f"{commit}{_LOCAL_CHANGES}" if changed else commit


def of_package(version: str) -> str:
    """Return what a record says where no checkout ran but an installed package."""
    return f"{_VERSION}{version}"


def is_package(said: str) -> bool:
    """Whether an installed package ran, which has no sessions of nox."""
    return said.startswith(_VERSION)


def can_be_had(said: str) -> bool:
    """Whether somebody else can go to what a record says: no commit is known, or files differed from it, and nobody can."""
    return said != UNKNOWN and not said.endswith(_LOCAL_CHANGES)
