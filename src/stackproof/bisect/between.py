"""The commits between two ends, by first parent, of which each changes something that a side is made of."""

from __future__ import annotations

from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.places import ROOT
from stackproof.gate import commits
from stackproof.gate import plan as gate_plan
from stackproof.project import projects


def between(good: str, bad: str) -> list[str]:
    """Return the commits after the good one up to the bad one, oldest first; a commit that changes no side is left out.

    Raises:
        Refusal: the good commit does not come before the bad one.
    """
    folder, paths = _where()
    if not good:
        raise Refusal(
            "the good side is this checkout as it is, which is no commit; name one with --good to search commits"
        )
    if not bad:
        return []  # local changes: one state, not a line
    _require_before(good, bad, folder)
    told = commits.git("rev-list", "--first-parent", "--reverse", f"{good}..{bad}", "--", *paths, folder=folder)
    return told.split()


def _where() -> tuple[Path, tuple[str, ...]]:
    """Return the repository, and what of it a side brings along."""
    project = projects.current()
    return (project.folder, (".",)) if project else (ROOT, gate_plan.load().compared.paths)


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


def subjects(names: tuple[str, ...]) -> dict[str, str]:
    """Return the subject line of each commit."""
    folder, _ = _where()
    return {name: commits.git("log", "-1", "--format=%s", name, folder=folder).strip() for name in names}
