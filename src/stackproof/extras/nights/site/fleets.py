"""The page of fleets: the newest judgement of each sweep, its picture, and every host that is not proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.api.base import Refusal, advice
from stackproof.api.record import Markup, el, outline
from stackproof.extras.fleet import judgement, picture, report
from stackproof.extras.fleet.judgement import FleetJudgement
from stackproof.extras.nights.site.html import page

NAME = "fleets.html"
_MOST = 12
"""Sweeps that are shown, the newest first."""


def files(folders: Sequence[Path]) -> list[Path]:
    """Return every judgement of a fleet below these folders."""
    return sorted(
        {path for top in folders for path in top.rglob(judgement.NAME) if path.is_file() and not path.is_symlink()}
    )


def read(paths: Sequence[Path]) -> tuple[list[FleetJudgement], list[str]]:
    """Return the judgements, the newest first, and a sentence for each file that is none."""
    found, problems = list[FleetJudgement](), list[str]()
    for path in paths:
        try:
            found.append(judgement.read(path))
        except Refusal as refusal:
            problems.append(str(refusal))
    return sorted(found, key=lambda one: (one.judged, one.fleet), reverse=True), problems


def render(found: Sequence[FleetJudgement], problems: Sequence[str]) -> str:
    """Return the page."""
    if not found:
        told = el(
            "p",
            "No fleet has been judged here. ",
            el("code", advice.step("NAME", "fleet", "judge", "FOLDER")),
            " keeps what it says.",
            class_="dim",
        )
        return page("Fleets", told, name=NAME)
    parts = [part for one in found[:_MOST] for part in _parts(one)]
    skipped = [el("p", f"skipped: {one}", class_="dim small") for one in problems]
    return page("Fleets: the odd one out", *parts, *skipped, name=NAME)


def _parts(one: FleetJudgement) -> Iterator[Markup]:
    """Yield the picture, and what a terminal says of the same."""
    drawn, what = Markup(picture.svg(one)), f"{one.fleet}: hosts by subject"
    told = list(report.parts(one))
    yield Markup(outline.html(told[:1], below=1))
    yield el("p", f"Judged {one.judged}.", class_="dim")
    yield el("div", drawn, class_="wide", tabindex=0, role="region", aria_label=what)
    yield Markup(outline.html(told[1:], below=1))
