"""What is seen first: the sentence, the matrix, the series of each place; and the same for machines and as badges."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import groupby

from stackproof.api.base import advice, counted, percent
from stackproof.api.record import Markup, el, joined
from stackproof.extras.nights.drift.suspicions import Suspicion
from stackproof.extras.nights.site import told
from stackproof.extras.nights.site.cards import SHAPES, badge_names, cards
from stackproof.extras.nights.site.curves import SeriesView
from stackproof.extras.nights.site.drawing import spark, value
from stackproof.extras.nights.site.html import link, page, table
from stackproof.extras.nights.site.matrix import CellState, MatrixCell
from stackproof.extras.nights.site.model import SiteModel
from stackproof.extras.nights.site.standing import StackStanding, standings

SCHEMA = "stackproof.extras.nights.site/1"
_NARROW = 3
"""So many stacks fit beside each other on a telephone."""
_MEANING = {
    CellState.PASSED: "every check of the suite that ran on the card passed",
    CellState.KNOWN_ISSUE: "so, but for failures that are excused until a day",
    CellState.REHEARSED: "its software passed on a CPU; nothing is known of the card", CellState.UNVERIFIED: "never ran, or cannot say",
    CellState.FAILED: "a check failed, crashed or hung",
    CellState.STALE: "no record within {days} days, whatever the last one said",
}  # fmt: skip


def index(site: SiteModel) -> str:
    """Return the page that opens first."""
    cells = site.matrix
    return page(
        "What is proved, and what changed", el("p", site.sentence, class_="sentence"),
        el("p", f"As of {cells.today}.", id="as-of", class_="dim", data_day=str(cells.today), data_days=cells.days),
        cards(site), _problems(site), _changes(site), el("h2", "Stack by suite"), _matrix(site), _key(site),
        el("h2", "Figures"), _figures(site.views), name="index.html", scripts=("site.js",),
    )  # fmt: skip


def _problems(site: SiteModel) -> Markup:
    if not site.problems:
        return Markup("")
    rows = [el("li", one) for one in site.problems[:50]]
    more = el("p", f"and {len(site.problems) - 50} more") if len(site.problems) > 50 else ""
    return el(
        "details",
        el("summary", f"{counted(len(site.problems), 'problem')} with records"),
        el("ul", *rows),
        more,
        open=True,
        class_="problems",
    )


def _matrix(site: SiteModel) -> Markup:
    cells = site.matrix
    stacks = [one.stack for one in standings(cells, site.doubles)]
    heads = ["suite", *stacks]
    rows = [
        [suite, *(_cell(cells.cells[stack, suite], str(cells.today.year)) for stack in stacks)]
        for suite in cells.suites
    ]
    hint = el(
        "p",
        f"{len(cells.stacks)} stacks, more to the right: scroll sideways \N{RIGHTWARDS ARROW}",
        class_="sideways small",
    )
    told = table("Each cell links to the record that proves it", heads, rows, class_="matrix")
    told = joined((hint, told)) if len(cells.stacks) > _NARROW else told
    if any(cell.run for cell in cells.cells.values()):
        return told
    none = el(
        "p",
        "No suite has been verified here yet. ",
        el("code", advice.command("NAME", "verify")),
        " proves the stack of a host.",
    )
    return joined((none, el("details", el("summary", f"All {len(cells.suites)} suites"), told)))


def _cell(cell: MatrixCell, year: str) -> Markup:
    kind = cell.state.value.replace(" ", "-")
    inner = (el("span", SHAPES[cell.state.value], aria_hidden="true"), f" {cell.state.value}")
    if cell.run is None:
        return el("td", el("span", *inner, class_="cell", title=cell.why), class_="never")
    unpinned = el("span", " unpinned", class_="dim") if cell.run.record.provenance.get("pinned") is False else ""
    day = el("span", cell.run.day[5:] if cell.run.day[:4] == year else cell.run.day, class_="day")
    told_ = f"{cell.stack} {cell.suite}: {cell.state.value}, {cell.run.day}, host {cell.run.place.host}: {cell.why}"
    return el("td", link(cell.run.page, joined((*inner, day, unpinned)), class_="cell", title=told_), class_=kind)


def _key(site: SiteModel) -> Markup:
    rows = [el("li", _word(state), f" {meaning.format(days=site.matrix.days)}") for state, meaning in _MEANING.items()]
    badges = [el("li", link(f"badge/{name}.svg", f"badge of {name}")) for name in badge_names(site)]
    return joined((el("ul", *rows, class_="key"), el("details", el("summary", "Badges"), el("ul", *badges))))


def _word(state: CellState) -> Markup:
    return el("span", f"{SHAPES[state.value]} {state.value}", class_=f"word {state.value.split(' ')[0]}")


def _changes(site: SiteModel) -> Markup:
    found = told.confirmed(site)[:5]
    rows = [el("li", f"{step.after.day}: ", link(view.page, told.title_of(view, step))) for view, step in found]
    suspected = [
        el("li", "suspected: ", link(view.page, told.title_of(view, step)))
        for view, step in told.others(site, "suspected")[:5]
    ]
    if not rows and not suspected:
        return Markup("")
    return joined(
        (
            el("h2", "Changes"),
            el("ul", *rows, *suspected, class_="changes"),
            el("p", link("changes.html", "All changes, with causes and commands")),
        )
    )


def _figures(views: Sequence[SeriesView]) -> Markup:
    if not views:
        return el(
            "p",
            "There are no figures yet. ",
            el("code", advice.command("NAME", "bench")),
            " measures some; nights make series of them.",
        )
    by_place = groupby(
        sorted(views, key=lambda view: (view.place.label, not view.nightly, view.name)),
        key=lambda view: view.place.label,
    )
    tables = [joined((el("h3", label), _place(list(those)))) for label, those in by_place]
    return el("div", *tables, id="figures")


def _place(views: Sequence[SeriesView]) -> Markup:
    rows = [
        [link(view.page, view.name), value(view.now), view.curves[-1].unit, _against(view), _far(view), _said(view), spark(view),
         f"{view.times[-1]:%Y-%m-%d}", counted(len(view.times), "night" if view.nightly else "state")]
        for view in views
    ]  # fmt: skip
    heads = ("figure", "now", "unit", "against the anchor", "since the first anchor", "steps", "trend", "last", "of")
    return table(f"Figures: {views[0].place.label}", heads, rows, (1, 3, 4), class_="figures")


def _against(view: SeriesView) -> str:
    """Return how much more time today takes than the anchor does; its curve shows the speed."""
    newest = view.curves[0].newest.median
    if not view.nightly or math.isnan(newest):
        return ""
    return f"{percent(-math.log(newest))} {'slower' if newest < 1 else 'faster'}"


def _far(view: SeriesView) -> str:
    """Return how much more time users give than the first anchor took; a new anchor hides none of it."""
    if not view.far:
        return ""
    return f"{percent(view.far.size)} {'slower' if view.far.size > 0 else 'faster'}" if view.far.clear else "as then"


def _said(view: SeriesView) -> object:
    if not view.word:
        flagged = view.curves[-1].marks[-1:] if not view.nightly else ()
        return f"flagged {len(view.curves[-1].marks)} times" if flagged else ""
    return el("span", view.word, class_=f"word {'failed' if view.word == 'confirmed slower' else 'unverified'}")


def as_json(site: SiteModel) -> str:
    """Return the same for machines: cells, changes and series, with the pages that show them."""
    found = {
        "schema": SCHEMA, "as_of": str(site.matrix.today), "stale_after_days": site.matrix.days, "sentence": site.sentence,
        "stacks": [_stack(one) for one in standings(site.matrix, site.doubles)],
        "cells": [_told(site, cell) for cell in site.matrix.cells.values()],
        "steps": [_step(site, view, step) for view in site.views for step in view.steps],
        "series": [_series(view) for view in site.views], "problems": list(site.problems),
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _stack(one: StackStanding) -> dict[str, object]:
    return {
        "stack": one.stack, "word": one.word.value, "proved": one.proved, "wanted": one.wanted, "scope": one.scope, "day": one.day,
        "unpinned": one.unpinned, "double": one.double,
    }  # fmt: skip


def _told(site: SiteModel, cell: MatrixCell) -> dict[str, object]:
    proof = {"record": cell.run.page, "day": cell.run.day, "host": cell.run.place.host} if cell.run else {}
    return {"stack": cell.stack, "suite": cell.suite, "state": cell.state.value, "why": site.shown(cell.why), **proof}


def _step(site: SiteModel, view: SeriesView, one: Suspicion) -> dict[str, object]:
    step = one
    return {
        "said": one.word, "figure": view.name, "place": view.place.label, "page": view.page, "series": step.kind.value,
        "ratio": math.exp(one.gate.ratio if one.gate else step.size), "low": math.exp(one.gate.low if one.gate else step.low),
        "high": math.exp(one.gate.high if one.gate else step.high), "since": step.after.day,
        "causes": [cause.value for cause in step.causes], "command": site.shown(step.command),
    }  # fmt: skip


def _series(view: SeriesView) -> dict[str, object]:
    now = [None if math.isnan(one) else float(f"{one:.6g}") for one in (view.now.median, view.now.low, view.now.high)]
    return {
        "page": view.page, "figure": view.name, "place": view.place.label, "stack": view.place.stack, "unit": view.curves[-1].unit,
        "since first anchor": float(f"{math.exp(view.far.size):.6g}") if view.far else None,
        "now": now, "points": len(view.times), "last": f"{view.times[-1]:%Y-%m-%d}", "said": view.word,
    }  # fmt: skip
