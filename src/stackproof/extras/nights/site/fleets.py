"""The page of fleets: the newest judgement of each sweep, its picture, and every host that is not proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.api.base import Refusal, advice
from stackproof.api.record import Markup, el, joined
from stackproof.extras.fleet import judgement, picture
from stackproof.extras.fleet.judgement import FleetJudgement, HostVerdict, JudgedHost
from stackproof.extras.nights.site.html import page, table

NAME = "fleets.html"
_MOST = 12
"""Sweeps that are shown, the newest first."""
_MOST_HOSTS = 500
_CLASSES = {HostVerdict.PROVED: "passed", HostVerdict.WRONG: "failed", HostVerdict.SLOW: "failed"}


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
    parts = [_fleet(one) for one in found[:_MOST]]
    skipped = [el("p", f"skipped: {one}", class_="dim small") for one in problems]
    return page("Fleets: the odd one out", *parts, *skipped, name=NAME)


def _fleet(one: FleetJudgement) -> Markup:
    return joined(_parts(one))


def _parts(one: FleetJudgement) -> Iterator[Markup]:
    """Yield the sentence, the picture, what is to be done, and the hosts that are not proved."""
    yield el("h2", one.headline)
    yield el(
        "p", f"Judged {one.judged}; a host took {one.minutes:.1f} minutes, the longest {one.longest:.1f}.", class_="dim"
    )
    yield el(
        "div",
        Markup(picture.svg(one)),
        class_="wide",
        tabindex=0,
        role="region",
        aria_label=f"{one.fleet}: hosts by subject",
    )
    yield from (el("p", note) for note in one.notes)
    if lines := list(one.drains()):
        yield el("p", "To take out of service, where a second sweep says the same:")
        yield el("pre", "\n".join(lines))
    odd = [host for host in one.hosts if host.standing is not HostVerdict.PROVED]
    yield table(
        f"{one.fleet}: hosts that are not proved",
        ("host", "standing", "why"),
        map(_row, odd[:_MOST_HOSTS]),
    )


def _row(host: JudgedHost) -> list[object]:
    word = el("span", host.standing.value, class_=f"word {_CLASSES.get(host.standing, '')}".strip())
    return [host.host, word, host.reason]
