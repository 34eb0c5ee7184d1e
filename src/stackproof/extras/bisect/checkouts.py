"""Whose commits are searched: ours, a project's, or those of the repository where a command runs; and checkouts to run it in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import ROOT, Refusal, in_shell
from stackproof.api.gate import commits
from stackproof.api.gate import plan as gate_plan
from stackproof.api.stack import projects


@dataclass(frozen=True)
class Repository:
    """A folder of a repository, what of it a side brings along, and whether locks and harness are in it too."""

    folder: Path
    paths: tuple[str, ...]
    ours: bool

    @property
    def top(self) -> Path:
        """The folder of the whole checkout."""
        return Path(commits.git("rev-parse", "--show-toplevel", folder=self.folder).rstrip("\n"))


def repository(own_command: bool) -> Repository:
    """Return whose commits a side can name: a project's, for a command those around the folder where one stands, else ours."""
    if project := projects.current():
        return Repository(project.folder, (":/",) if own_command else (".",), ours=False)
    if not own_command:
        return Repository(ROOT, gate_plan.load().compared.paths, ours=True)
    here = Path.cwd().resolve()
    return Repository(here, (":/",), ours=here.is_relative_to(ROOT.resolve()))


def any_repository() -> Checkouts:
    """Return none: no command runs."""
    return Checkouts(repository(own_command=False))


@dataclass
class Checkouts:
    """Checkouts of commits in which a command runs, in the folder there that one stands in here.

    `home`: where they are laid out; None where no command runs, or none of the commits has the folder where one stands.
    """

    repository: Repository
    home: Path | None = None
    laid: dict[str, Path] = field(default_factory=dict)

    def folder(self, commit: str) -> Path | None:
        """Return where a command runs at a commit, laid out once; None where it runs as one stands.

        Raises:
            Refusal: git cannot lay it out, or that commit has no such folder.
        """
        if self.home is None or not commit or (inner := self._inner()) is None:
            return None
        if commit not in self.laid:
            self.home.mkdir(parents=True, exist_ok=True)
            tree = self.home / commit[:16]
            commits.git(
                "worktree", "add", "--quiet", "--force", "--detach", str(tree), commit, folder=self.repository.top
            )
            self.laid[commit] = tree
        found = self.laid[commit] / inner
        if not found.is_dir():
            raise Refusal(f"commit {commit[:10]} has no folder {inner}; stand in one that every commit has")
        return found

    def _inner(self) -> Path | None:
        """Return the folder where one stands, from the top of the repository; None outside of it."""
        here, top = Path.cwd().resolve(), self.repository.top.resolve()
        return here.relative_to(top) if here.is_relative_to(top) else None

    def again(self, commit: str) -> str:
        """Return what lays a checkout out once more, for a shell; those of the search are taken away."""
        if commit not in self.laid:
            return ""
        tree = str(self.laid[commit])
        words = ["git", "-C", str(self.repository.top), "worktree", "add", "--force", "--detach", tree, commit]
        return f"{{ {in_shell(['test', '-d', tree])} || {in_shell(words)}; }} && "

    @contextmanager
    def swept(self) -> Iterator[None]:
        """Take the checkouts away in the end, whatever ends it."""
        try:
            yield
        finally:
            for tree in self.laid.values():
                commits.git("worktree", "remove", "--force", str(tree), folder=self.repository.top)
