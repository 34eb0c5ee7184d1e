"""What changed: confirmed steps newest first, as a page and as a feed, and below them what is only suspected, refuted or flagged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from stackproof.api.base import percent
from stackproof.api.history import Change
from stackproof.api.record import Markup, el, joined
from stackproof.extras.nights.drift import report
from stackproof.extras.nights.drift.suspicions import Suspicion
from stackproof.extras.nights.site.curves import SeriesView
from stackproof.extras.nights.site.html import command, link, page, table
from stackproof.extras.nights.site.model import SiteModel
from stackproof.extras.nights.site.series import facts_of

_MOST = 100
_HINT = (
    "Neighbours in the history of bench and asv that differ by 5 % in speed and whose intervals are apart: a reason to look, "
    "nothing more."
)
_NEVER = datetime(1970, 1, 1, tzinfo=timezone.utc)


def confirmed(site: SiteModel) -> list[tuple[SeriesView, Suspicion]]:
    """Return what gates have confirmed, newest first."""
    found = [(view, step) for view in site.views for step in view.steps if step.word.startswith("confirmed")]
    return sorted(found, key=lambda one: (one[1].after.started, one[0].id), reverse=True)


def others(site: SiteModel, word: str) -> list[tuple[SeriesView, Suspicion]]:
    """Return the steps of one word, newest first."""
    found = [(view, step) for view in site.views for step in view.steps if step.word == word]
    return sorted(found, key=lambda one: (one[1].after.started, one[0].id), reverse=True)


def title_of(view: SeriesView, told: Suspicion) -> str:
    """Return what happened in one line."""
    size = report.seen(told.gate) if told.gate else report.size(told)
    causes = " and ".join(cause.value for cause in told.causes)
    return f"{view.name} on {view.place.stack}: {size}, {causes}"


def render(site: SiteModel) -> str:
    """Return the page of changes."""
    found = confirmed(site)
    none = "No change is confirmed." if site.drift.places else "There are no nights yet, so nothing could be confirmed."
    return page(
        "Changes", el("p", site.sentence), el("h2", "Confirmed by a gate"),
        joined(_article(site, *one) for one in found[:_MOST]) if found else el("p", none),
        _rest(len(found)), _section(site, "Suspected, not confirmed", "suspected"), _section(site, "Refuted by a gate", "refuted"),
        _flags(site.flags), name="changes.html",
    )  # fmt: skip


def _rest(count: int) -> Markup:
    return el("p", f"and {count - _MOST} older ones, in data.json", class_="dim") if count > _MOST else Markup("")


def _article(site: SiteModel, view: SeriesView, told: Suspicion) -> Markup:
    head = el(
        "h3",
        el("span", told.word, class_=f"word {'failed' if told.slower else 'passed'}"),
        " ",
        link(view.page, title_of(view, told)),
    )
    facts = Markup("".join(facts_of(site, told)).replace('href="../', 'href="'))
    where = el("p", f"{told.after.day}, {view.place.label}", class_="dim")
    return el("article", head, where, facts, class_="step", id=_anchor(site, view, told))


def _anchor(site: SiteModel, view: SeriesView, told: Suspicion) -> str:
    """Return the name of one change: two series can step on a day, and two gates can judge one step."""
    gate = site.kept[told.gate.path].id.rpartition("-")[2] if told.gate else "open"
    return f"{view.id}-{told.after.day}-{told.kind.value}-{gate}"


def _section(site: SiteModel, title: str, word: str) -> Markup:
    rows = [
        [link(view.page, view.name), view.place.label, step.kind.value, report.size(step), step.after.day,
         report.causes(step), command(site.shown(step.command))]
        for view, step in others(site, word)[:_MOST]
    ]  # fmt: skip
    heads = ("figure", "where", "series", "time", "since", "likeliest cause", "what judges it")
    inner = table(title, heads, rows)
    return joined((el("h2", title), inner or el("p", "None.")))


def _flags(steps: Sequence[Change]) -> Markup:
    if not steps:
        return Markup("")
    rows = [
        [
            f"{step.key.subject} ({step.key.preset})",
            f"{step.after.when:%Y-%m-%d}",
            _speed(step),
            step.place.label,
            step.after.because,
        ]
        for step in steps[:_MOST]
    ]
    heads = ("figure", "day", "time", "where", "what changed")
    return joined(
        (el("h2", "Flagged in histories, not confirmed"), el("p", _HINT, class_="dim"), table("Flags", heads, rows))
    )


def _speed(step: Change) -> Markup:
    told = f"{percent(-math.log(step.ratio))} {'slower' if step.worse else 'faster'}"
    return el("span", told, class_=f"word {'failed' if step.worse else 'passed'}")


def feed(site: SiteModel) -> str:
    """Return the confirmed changes as Atom (RFC 4287); a change has the same id for good."""
    found = confirmed(site)[:_MOST]
    newest = max((one.gate.started for _, one in found if one.gate), default=_NEVER)
    entries = [_entry(site, *one) for one in found]
    whole = el(
        "feed", el("title", "stackproof: confirmed changes"), el("id", "urn:stackproof:confirmed-changes"),
        el("updated", _stamp(newest)), _link("feed.xml", "self"), _link("changes.html", "alternate"),
        el("author", el("name", "stackproof")), *entries, xmlns="http://www.w3.org/2005/Atom",
    )  # fmt: skip
    return f'<?xml version="1.0" encoding="utf-8"?>\n{whole}\n'


def _link(target: str, kind: str) -> Markup:
    return Markup(el("link", href=target, rel=kind)[:-1] + "/>")


def _entry(site: SiteModel, view: SeriesView, told: Suspicion) -> Markup:
    what = "\n".join(_lines(site, told))
    when = told.gate.started if told.gate else told.after.started
    return el(
        "entry", el("title", title_of(view, told)), el("id", f"urn:stackproof:{_anchor(site, view, told)}"), el("updated", _stamp(when)),
        _link(f"changes.html#{_anchor(site, view, told)}", "alternate"), el("summary", what),
    )  # fmt: skip


def _lines(site: SiteModel, told: Suspicion) -> Iterator[str]:
    yield report.when(told)
    yield report.causes(told)
    yield from report.differences(told)
    yield site.shown(told.command)


def _stamp(when: datetime) -> str:
    return f"{when.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
