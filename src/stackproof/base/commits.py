"""How records say which code ran: a commit, and whether files differed from it."""

from __future__ import annotations

_LOCAL_CHANGES = " (with local changes)"
UNKNOWN = "unknown"


def told(commit: str, changed: bool) -> str:
    """Return what a record says of the commit that a folder is at."""
    return f"{commit}{_LOCAL_CHANGES}" if changed else commit


def can_be_had(said: str) -> bool:
    """Whether somebody else can go to what a record says: no commit is known, or files differed from it, and nobody can."""
    return said != UNKNOWN and not said.endswith(_LOCAL_CHANGES)
