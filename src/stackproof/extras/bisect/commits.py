"""Whose commits are searched, the line of them between two ends, and checkouts to run a command in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import Refusal, git, places, text
from stackproof.api.gate import commits as revisions
from stackproof.api.gate import plan as gate_plan
from stackproof.api.stack import projects

LOCAL = "what is not committed here"
"""The last place of a line that ends in a checkout with changes."""


@dataclass(frozen=True)
class Repository:
    """A folder of a repository, what of it a side brings along, and whether locks and harness are in it too."""

    folder: Path
    paths: tuple[str, ...]
    ours: bool

    @property
    def top(self) -> Path:
        """The folder of the whole checkout."""
        return Path(git.output(self.folder, "rev-parse", "--show-toplevel").rstrip("\n"))

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits after the good one up to the bad one, oldest first, by first parent; one that changes no side is left out.

        A bad side that is no commit is a checkout with changes: its commits, and then `LOCAL`.

        Raises:
            Refusal: the good commit does not come before the bad one.
        """
        if not good:
            raise Refusal(
                "the good side is this checkout as it is, which is no commit; name one with --good to search commits"
            )
        last = bad or revisions.resolved("HEAD", self.folder)
        self._require_before(good, last)
        line = git.output(self.folder, "rev-list", "--first-parent", "--reverse", f"{good}..{last}", "--", *self.paths)
        return line.split() if bad else [*line.split(), LOCAL]

    def _require_before(self, good: str, bad: str) -> None:
        base = (git.try_output(self.folder, "merge-base", good, bad) or "").strip()
        if not base:
            raise Refusal(
                f"the history between {good[:10]} and {bad[:10]} is not here; in a shallow clone, `git fetch --unshallow` gets it"
            )
        if base == bad != good:
            raise Refusal(
                f"the bad commit {bad[:10]} comes before the good one {good[:10]}; were --good and --bad swapped?"
            )
        if base != good:
            raise Refusal(
                f"the good commit {good[:10]} is no ancestor of the bad one {bad[:10]}; name their common one, --good {base[:10]}"
            )

    def subjects(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the subject line of each commit."""
        commits = [name for name in names if name != LOCAL]
        return {name: git.output(self.folder, "log", "-1", "--format=%s", name).strip() for name in commits}

    def is_merge(self, name: str) -> bool:
        """Whether a commit brought the commits of another branch, which were not tried one by one."""
        return name != LOCAL and len(git.output(self.folder, "rev-list", "--parents", "-n", "1", name).split()) > 2


def short(name: str) -> str:
    """Return the name of a commit as people read it."""
    return name if name == LOCAL else name[:10]


def repository(own_command: bool) -> Repository:
    """Return whose commits a side can name: a project's, for a command those around the folder where one stands, else ours."""
    if project := projects.current():
        return Repository(project.folder, (":/",) if own_command else (".",), ours=False)
    if not own_command:
        return Repository(places.ROOT, gate_plan.load().compared, ours=True)
    here = Path.cwd().resolve()
    return Repository(here, (":/",), ours=here.is_relative_to(places.ROOT.resolve()))


@dataclass
class Checkouts:
    """Checkouts of commits in which a command runs, in the folder there that one stands in here.

    `home`: where they are laid out; None where no command runs, or none of the commits has the folder where one stands.
    """

    repository: Repository = field(default_factory=lambda: repository(own_command=False))
    home: Path | None = None
    laid: dict[str, Path] = field(default_factory=dict)

    def folder(self, commit: str) -> Path | None:
        """Return where a command runs at a commit, laid out once; None where it runs as one stands.

        Raises:
            Refusal: git cannot lay it out, or that commit has no such folder.
        """
        if self.home is None or not commit:
            return None
        here, top = Path.cwd().resolve(), self.repository.top.resolve()
        if not here.is_relative_to(top):
            return None
        inner = here.relative_to(top)
        if commit not in self.laid:
            self.home.mkdir(parents=True, exist_ok=True)
            tree = self.home / commit[:16]
            git.output(top, "worktree", "add", "--quiet", "--force", "--detach", str(tree), commit)
            self.laid[commit] = tree
        found = self.laid[commit] / inner
        if not found.is_dir():
            raise Refusal(f"commit {commit[:10]} has no folder {inner}; stand in one that every commit has")
        return found

    def again(self, commit: str) -> str:
        """Return what lays a checkout out once more, for a shell; those of the search are taken away."""
        if commit not in self.laid:
            return ""
        tree = str(self.laid[commit])
        words = ["git", "-C", str(self.repository.top), "worktree", "add", "--force", "--detach", tree, commit]
        return f"{{ {text.in_shell(['test', '-d', tree])} || {text.in_shell(words)}; }} && "

    @contextmanager
    def swept(self) -> Iterator[None]:
        """Take the checkouts away in the end, whatever ends it."""
        try:
            yield
        finally:
            for tree in self.laid.values():
                git.output(self.repository.top, "worktree", "remove", "--force", str(tree))
