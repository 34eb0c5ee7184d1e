"""What asv's publishing lacks: speed where histories are long. Imports asv."""

from __future__ import annotations

from asv.plugins.git import Git


class Commits(list[str]):
    """The commits of a branch in order, in which one is found without looking at all."""

    def __init__(self, commits: list[str]) -> None:
        super().__init__(commits)
        self._known = frozenset(commits)

    def __contains__(self, commit: object) -> bool:
        return commit in self._known


class Branches(Git):  # type: ignore[misc]
    """asv's git repository with commits that are found at once: `asv publish` looks every result up in every branch."""

    dvcs = "git-quick"

    def get_branch_commits(self, branch: str | None) -> Commits:
        """Return the commits of a branch, the last one first."""
        return Commits(super().get_branch_commits(branch))
