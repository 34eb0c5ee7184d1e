"""Commits of this repository or of a project's, asked of git; what git cannot say is refused in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stackproof.base import git
from stackproof.base.errors import Refusal
from stackproof.base.git import GitMissingError
from stackproof.base.places import ROOT, require_checkout
from stackproof.project import projects


def require_commit(commit: str) -> None:
    """Refuse what names no commit, of a project where there is one, and where git cannot say."""
    project = projects.current()
    resolved(commit, project.folder if project else ROOT)


def resolved(commit: str, folder: Path = ROOT) -> str:
    """Return the whole hash of a revision; an empty one stays empty."""
    if not commit:
        return ""
    require_history(folder)
    found = git.try_output(
        folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", seconds=60
    )
    if found is None:
        raise Refusal(f"'{commit}' is no commit, branch or tag of this repository; `git fetch` it, or check its name")
    return found.strip()


def require_history(folder: Path = ROOT) -> None:
    """Refuse a folder that came without its commits, such as an unpacked archive; the sentence is not about the commit then."""
    if folder == ROOT:
        require_checkout("comparing commits, locks or sources")
    try:
        git.output(folder, "rev-parse", "--git-dir")
    except GitMissingError:
        raise
    except Refusal as refusal:
        owned = "dubious ownership" in str(refusal)
        why = "is not owned by you; see git's safe.directory" if owned else "has no git history"
        raise Refusal(
            f"{folder} {why}, so there are no commits to compare (was it unpacked from an archive?); clone the repository, or compare "
            "what needs none: variables, or a stored record"
        ) from None


def clean_head(folder: Path, paths: Sequence[str]) -> str:
    """Return the commit of a checkout; empty where something of these paths is changed or new in it, or it has no history.

    What git ignores does not count, nor do the records that we keep in it.
    """
    dirty = git.try_output(folder, "status", "--porcelain", "--", *paths, ":(exclude)results/local", seconds=60)
    return "" if dirty or dirty is None else (git.try_output(folder, "rev-parse", "HEAD") or "").strip()
