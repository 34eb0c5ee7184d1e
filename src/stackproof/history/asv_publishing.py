"""What asv's pages lack: rates, and speed where histories are long. Imports asv.

asv shows seconds and draws with scripts from elsewhere. Beside its pages, `rates.html` shows rates and needs nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asv.plugins.git import Git
from asv.publishing import OutputPublisher

from stackproof.history import page
from stackproof.history.timeline import entries, histories
from stackproof.record import store

_NAVIGATION = '<li id="nav-li-regressions">'
_LINKS = '<li><a href="rates.html">Rates</a></li>\n\t'


class Rates(OutputPublisher):  # type: ignore[misc]
    """Writes `rates.html` from the store, and a link to it into asv's navigation."""

    name = "rates"
    button_label = "Rates"
    description = "What is measured, as rates"
    order = 4

    @classmethod
    def publish(cls, conf: Any, repo: Any, benchmarks: Any, graphs: Any, revisions: Any) -> None:  # noqa: ARG003 - asv's signature
        """Called by `asv publish` for each of its pages."""
        if conf.environment_type != "stack":  # the states' history is the same figures
            return
        html = Path(conf.html_dir)
        loaded = store.load(store.folders())
        page.write(histories(entries(loaded.records)), loaded.problems, html / "rates.html")
        link(html / "index.html")


def link(index: Path) -> None:
    """Put a link to the rates into asv's page, where this version of asv has its other links."""
    text = index.read_text(encoding="utf-8")
    if _LINKS not in text:
        index.write_text(text.replace(_NAVIGATION, _LINKS + _NAVIGATION, 1), encoding="utf-8")


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
