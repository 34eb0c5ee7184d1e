"""The page of a series: what is known of its steps, its curves, its states, and the same as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from stackproof.api.base import Interval, counted, shown
from stackproof.api.record import Markup, Verdict, el, joined, reference
from stackproof.extras.nights.drift import report
from stackproof.extras.nights.drift.suspicions import Suspicion
from stackproof.extras.nights.site.curves import SeriesView
from stackproof.extras.nights.site.drawing import legend, plot, resolution, stamp, start_of, value
from stackproof.extras.nights.site.html import command, link, page, table
from stackproof.extras.nights.site.model import SiteModel

_ROWS = 10
"""Points that have a row of their own at the end of a table; older ones share a row a month, but for those that say something."""
_SCRIPTS = ("site.js",)
_BISECT, _CULPRIT = "bisect", "bisect/culprit::"


def render(site: SiteModel, view: SeriesView) -> str:
    """Return the page of one series."""
    curves = [joined((el("h2", curve.title), _unit(curve.unit, curve.up), plot(view, curve))) for curve in view.curves]
    return page(
        view.name, el("p", view.place.label, class_="dim"), _now(view), *_references(view),
        el("div", *curves, class_="curves", data_start=f"{start_of(view.times):%Y-%m-%dT%H:%M:%SZ}", data_seconds=resolution(view.times)),
        legend(), _states(view), *(_step(site, step) for step in view.steps),
        *(el("p", sentence, class_="dim") for sentence in view.sentences), _table(site, view),
        name=view.page, scripts=_SCRIPTS,
    )  # fmt: skip


def _unit(unit: str, up: bool) -> Markup:
    return el("p", f"{unit}, {'higher' if up else 'lower'} is better", class_="dim small")


def _now(view: SeriesView) -> Markup:
    points = sum(not math.isnan(one.median) for one in view.curves[-1].values)
    told = f"{value(view.now)} {view.curves[-1].unit}"
    what = f"{points} of {counted(len(view.times), 'night' if view.nightly else 'state')} count"
    now = el("p", el("strong", "Now: "), f"{told}; {what}, {stamp(view.times, 0)} to {stamp(view.times, -1)}.")
    far = el("p", el("strong", "Since the first anchor: "), f"for users {view.far.sentence}.") if view.far else ""
    return joined((now, far))


def _references(view: SeriesView) -> Iterator[Markup]:
    """Yield what others measured of the same work: nobody verified it, so it is text beside the curves and no point of them."""
    for row in reference.find(view.subject, view.preset, view.unit):
        ranks = f" on {row.ranks} ranks" if row.ranks > 1 else ""
        told = f"{shown(row.seconds, row.unit)}{ranks} on {row.device}, measured by others ({row.source})"
        yield el("p", el("strong", "Reference: "), told, class_="dim")


def _step(site: SiteModel, told: Suspicion) -> Markup:
    step = told
    kind = "unverified" if told.word == "suspected" else "worse" if step.slower else "better"
    size = f"{report.seen(told.gate)}, by the gate" if told.gate else report.size(step)
    return el(
        "section", el("h2", el("span", told.word, class_=f"word {kind if told.word != 'refuted' else 'dim'}"), f" {size}"),
        *facts_of(site, told), class_="step",
    )  # fmt: skip


def facts_of(site: SiteModel, told: Suspicion) -> Iterator[Markup]:
    """Yield what is known of a step: cause, nights, states, the gate that judged it, and the command that repeats that."""
    step = told
    first, last = (stamp((step.before.started, step.after.started), at) for at in range(2))
    rows: list[tuple[str, object]] = [("likeliest cause", report.causes(step)), ("when", report.when(step))]
    rows += [("what changed", el("ul", *(el("li", one) for one in report.differences(step))))]
    rows += [
        (
            "nights",
            joined((_run(site, step.before.path, first), " and ", _run(site, step.after.path, last))),
        )
    ]
    if told.gate:
        how = "" if step.interleaved else " (not interleaved: it shows that the change lasts)"
        rows.append(
            (
                f"{told.word.split(' ', 1)[0]} by",
                joined((_run(site, told.gate.path, "this gate"), f": {report.seen(told.gate)}{how}")),
            )
        )
    rows.append(("repeat it" if told.gate else "confirm it", command(site.shown(step.command))))
    rows += [("found by", one) for one in _blamed(site, told)]
    yield el("dl", *(joined((el("dt", name), el("dd", content))) for name, content in rows))


def _blamed(site: SiteModel, told: Suspicion) -> Iterator[Markup]:
    """Yield what searches of this figure at this place have named since, each with its page, newest first."""
    step = told
    for run in site.kept.values():
        record = run.record
        about = (record.verb, record.verdict, record.provenance.get("subject"), run.place.stack, run.place.host)
        place = step.place
        if (
            about != (_BISECT, Verdict.PASSED, step.figure.subject, place.stack, place.host)
            or run.started < step.after.started
        ):
            continue
        culprits = ", ".join(check.subject for check in record.checks if check.id.startswith(_CULPRIT))
        yield joined((_run(site, run.path, "this search"), f": {culprits}"))


def _run(site: SiteModel, path: object, text: str) -> object:
    run = next((run for run in (site.kept.get(path),) if run), None)  # type: ignore[call-overload]
    return link(f"../{run.page}", text) if run else text


def _states(view: SeriesView) -> Markup:
    if not view.states:
        return Markup("")
    rows = [el("li", el("strong", stamp(view.times, mark.at)), f" {'; '.join(mark.phrases)}") for mark in view.states]
    return joined((el("h2", "When the state of the stack changed"), el("ol", *rows)))


def _table(site: SiteModel, view: SeriesView) -> Markup:
    single = {mark.at for curve in view.curves for mark in curve.marks} | {mark.at for mark in view.states}
    newest = range(max(0, len(view.times) - _ROWS), len(view.times))
    rows = list[Sequence[object]]()
    for month, group in groupby(
        range(len(view.times)), key=lambda at: 0 if at in single or at in newest else _month(view, at)
    ):
        those = list(group)
        rows += [_months(view, those)] if month else [_row(site, view, at) for at in those]
    heads = [
        "night" if view.nightly else "from",
        *(curve.title.split(":", 1)[0] for curve in view.curves),
        "n",
        "what is said",
    ]
    return table("The same as a table, newest first", heads, reversed(rows), class_="points")


def _month(view: SeriesView, at: int) -> int:
    return view.times[at].year * 12 + view.times[at].month


def _row(site: SiteModel, view: SeriesView, at: int) -> Sequence[object]:
    day = stamp(view.times, at)
    path = view.paths[at]
    said = [mark.word for curve in view.curves for mark in curve.marks if mark.at == at]
    said += [f"state {number}" for number, mark in enumerate(view.states, 1) if mark.at == at]
    night = _run(site, path, day) if path else day
    return [
        night,
        *(value(curve.values[at]) for curve in view.curves),
        view.counts[at] or "",
        "; ".join(filter(None, (*said, view.notes[at]))),
    ]


def _months(view: SeriesView, those: Sequence[int]) -> Sequence[object]:
    """Return one row for several points: the median of theirs, between the least and the greatest."""
    cells = []
    for curve in view.curves:
        found = [curve.values[at].median for at in those if not math.isnan(curve.values[at].median)]
        cells.append(value(Interval(median(found), min(found), max(found))) if found else "")
    odd = sum(bool(view.notes[at]) for at in those) if view.nightly else 0
    note = f"{counted(len(those), 'night' if view.nightly else 'state')}, median and range{f', {odd} left out' if odd else ''}"
    return [f"{view.times[those[0]]:%Y-%m}", *cells, "", note]
