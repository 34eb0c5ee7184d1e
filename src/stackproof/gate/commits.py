"""Commits of this repository or of a project's, asked of git; what git cannot say is refused in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.git import GitMissingError, output
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
    try:
        return git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", folder=folder).strip()
    except GitMissingError:
        raise
    except Refusal:
        raise Refusal(
            f"'{commit}' is no commit, branch or tag of this repository; `git fetch` it, or check its name"
        ) from None


def require_history(folder: Path) -> None:
    """Refuse a folder that came without its commits, such as an unpacked archive; the sentence is not about the commit then."""
    git("--version", folder=folder)  # refuses where there is no git
    try:
        git("rev-parse", "--git-dir", folder=folder)
    except Refusal as refusal:
        why = (
            "is not owned by you; see git's safe.directory"
            if "dubious ownership" in str(refusal)
            else "has no git history"
        )
        raise Refusal(
            f"{folder} {why}, so there are no commits to compare (was it unpacked from an archive?); clone the repository, or compare "
            "what needs none: variables, or a stored record"
        ) from None


def git(*arguments: str, folder: Path = ROOT) -> str:
    """Return what git prints."""
    if folder == ROOT:
        require_checkout("comparing commits, locks or sources")
    return output(folder, *arguments)


def git_bytes(*arguments: str, folder: Path = ROOT) -> bytes:
    """Return what git prints, as it is."""
    return git(*arguments, folder=folder).encode("utf-8", errors="surrogateescape")


def clean_head(folder: Path, paths: Sequence[str]) -> str:
    """Return the commit of a checkout; empty where something of these paths is changed or new in it, or it has no history.

    What git ignores does not count, nor do the records that we keep in it.
    """
    try:
        dirty = git("status", "--porcelain", "--", *paths, ":(exclude)results/local", folder=folder)
        return "" if dirty else resolved("HEAD", folder)
    except Refusal:
        return ""
