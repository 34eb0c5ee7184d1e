"""The commits between two ends, by first parent, of which each changes something that a side is made of."""

from __future__ import annotations

from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.bisect.checkouts import Repository
from stackproof.gate import commits


def between(good: str, bad: str, of: Repository) -> list[str]:
    """Return the commits after the good one up to the bad one, oldest first; a commit that changes no side is left out.

    Raises:
        Refusal: the good commit does not come before the bad one.
    """
    if not good:
        raise Refusal(
            "the good side is this checkout as it is, which is no commit; name one with --good to search commits"
        )
    if not bad:
        return []  # local changes: one state, not a line
    _require_before(good, bad, of.folder)
    told = commits.git("rev-list", "--first-parent", "--reverse", f"{good}..{bad}", "--", *of.paths, folder=of.folder)
    return told.split()


def _require_before(good: str, bad: str, folder: Path) -> None:
    base = commits.git("merge-base", good, bad, folder=folder).strip()
    if base == bad:
        raise Refusal(
            f"the bad commit {bad[:10]} comes before the good one {good[:10]}; were --good and --bad swapped?"
        )
    if base != good:
        raise Refusal(
            f"the good commit {good[:10]} is no ancestor of the bad one {bad[:10]}; name their common one, --good {base[:10]}"
        )


def subjects(names: tuple[str, ...], of: Repository) -> dict[str, str]:
    """Return the subject line of each commit."""
    return {name: commits.git("log", "-1", "--format=%s", name, folder=of.folder).strip() for name in names}
