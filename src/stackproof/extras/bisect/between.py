"""The commits between two ends, by first parent, of which each changes something that a side is made of; and what is not committed."""

from __future__ import annotations

from pathlib import Path

from stackproof.api.base import Refusal
from stackproof.api.gate import commits
from stackproof.extras.bisect.checkouts import Repository

LOCAL = "what is not committed here"
"""The last place of a line that ends in a checkout with changes."""


def between(good: str, bad: str, of: Repository) -> list[str]:
    """Return the commits after the good one up to the bad one, oldest first; a commit that changes no side is left out.

    A bad side that is no commit is a checkout with changes: its commits, and then `LOCAL`.

    Raises:
        Refusal: the good commit does not come before the bad one.
    """
    if not good:
        raise Refusal(
            "the good side is this checkout as it is, which is no commit; name one with --good to search commits"
        )
    last = bad or commits.resolved("HEAD", of.folder)
    _require_before(good, last, of.folder)
    told = commits.git("rev-list", "--first-parent", "--reverse", f"{good}..{last}", "--", *of.paths, folder=of.folder)
    return told.split() if bad else [*told.split(), LOCAL]


def short(name: str) -> str:
    """Return the name of a commit as people read it."""
    return name if name == LOCAL else name[:10]


def _require_before(good: str, bad: str, folder: Path) -> None:
    try:
        base = commits.git("merge-base", good, bad, folder=folder).strip()
    except Refusal:  # git says nothing more
        raise Refusal(
            f"the history between {good[:10]} and {bad[:10]} is not here; in a shallow clone, `git fetch --unshallow` gets it"
        ) from None
    if base == bad != good:
        raise Refusal(
            f"the bad commit {bad[:10]} comes before the good one {good[:10]}; were --good and --bad swapped?"
        )
    if base != good:
        raise Refusal(
            f"the good commit {good[:10]} is no ancestor of the bad one {bad[:10]}; name their common one, --good {base[:10]}"
        )


def subjects(names: tuple[str, ...], of: Repository) -> dict[str, str]:
    """Return the subject line of each commit."""
    told = [name for name in names if name != LOCAL]
    return {name: commits.git("log", "-1", "--format=%s", name, folder=of.folder).strip() for name in told}


def is_merge(name: str, of: Repository) -> bool:
    """Whether a commit brought the commits of another branch, which were not tried one by one."""
    return name != LOCAL and len(commits.git("rev-list", "--parents", "-n", "1", name, folder=of.folder).split()) > 2
