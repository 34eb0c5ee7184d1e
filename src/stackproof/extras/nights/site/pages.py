"""Every page of the site: what it shows goes into a template of `data/site/templates` by jinja2; whatever is no markup is escaped."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from stackproof.api.base import advice, places, statistics, text
from stackproof.api.pages import console
from stackproof.api.record import Check, Verdict, repeat, store
from stackproof.extras.nights.drift import findings
from stackproof.extras.nights.drift.findings import Suspicion, SuspicionState
from stackproof.extras.nights.drift.series import Measured
from stackproof.extras.nights.site import drawing
from stackproof.extras.nights.site.model import SeriesView, SiteModel
from stackproof.extras.nights.site.stack_status import IndexedRun, ProofState, statuses, streak

TEMPLATES = places.DATA / "site" / "templates"
SCHEMA = "stackproof.extras.nights.site/1"
DATA = "data.json"
"""The first file of a site that is written; it tells that a folder is one."""
_MENU = (("index.html", "Overview"), ("changes.html", "Changes"), ("runs.html", "Runs"))
_SHAPES = {
    "passed": "✓", "known issue": "◆", "rehearsed": "◐", "unverified": "○", "failed": "✕", "stale": "◌", "in part": "◔", "never run": "○",
}  # fmt: skip
_MEANING = {
    ProofState.PASSED: "every check of the suite that ran on the card passed",
    ProofState.KNOWN_ISSUE: "passed, but for failures that are excused until a given day",
    ProofState.REHEARSED: "its software passed on a CPU; nothing is known of the card",
    ProofState.UNVERIFIED: "never ran whole, or cannot say",
    ProofState.FAILED: "a check failed, crashed or hung",
    ProofState.STALE: "no record within {days} days, whatever the last one said",
}  # fmt: skip
_OF_STACK = ("stack", "proved", "wanted", "scope", "day", "unpinned", "double")
_MOST, _MOST_CHANGES = 250, 100
_ROWS = 20
"""Points at the end of a curve that have a row in its table, as those have that something is said of."""
_KINDS = {Verdict.PASSED: "passed", Verdict.KNOWN_ISSUE: "known"} | dict.fromkeys(
    (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED, Verdict.UNAVAILABLE), "unverified"
)


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, finalize=drawing.escaped, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    made.filters |= {"counted": text.counted, "filled": _filled, "title_of": _title, "verdict": _verdict}
    made.globals |= {"advice": advice, "menu": _MENU, "shapes": _SHAPES}
    return made


def _filled(rows: Sequence[Sequence[object]]) -> list[int]:
    """Return the columns of a table in which some row has something."""
    return [at for at in range(len(rows[0])) if at == 0 or any(str(row[at]) for row in rows)]


def _page(template: str, title: str, name: str = "", scripts: Sequence[str] = (), **shows: object) -> tuple[str, str]:
    name = name or template
    shows |= {"title": title, "name": name, "up": "../" * name.count("/"), "scripts": scripts}
    return name, _environment().get_template(template).render(shows)


def pages(site: SiteModel) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every page and of what is for machines."""
    yield DATA, as_json(site)
    yield _index(site)
    yield _changes(site)
    yield _listing(site)
    for view in site.views:
        yield _series(site, view)
    for run in site.kept.values():
        yield _record(run)


def _word(text: str, kind: str, **attributes: object) -> Markup:
    return drawing.el("span", text, class_=f"word {kind}".rstrip(), **attributes)


def _link(run: IndexedRun | SeriesView, text: str) -> Markup:
    return drawing.el("a", text, href=run.page)


def _verdict(verdict: Verdict) -> Markup:
    return _word(verdict.value, _KINDS.get(verdict, "failed" if verdict.exit_code else "dim"))


# The first page, and the same for machines.


def _index(site: SiteModel) -> tuple[str, str]:
    cells, stacks = site.matrix, statuses(site.matrix, site.order.doubles)
    views = sorted(site.views, key=lambda view: (view.place.label, view.name))
    known = [status for status in stacks if status.word is not ProofState.NEVER]
    names = [status.stack for status in known]
    return _page(
        "index.html", "What is proved, and what changed", scripts=("site.js",), site=site, cells=cells, statuses=known,
        never=[status.stack for status in stacks if status.word is ProofState.NEVER], suites=cells.shown(names),
        streaks={name: streak(site.index.runs, name) for name in names},
        confirmed=_steps_of(site, "confirmed"), suspected=_steps_of(site, "suspected"),
        meanings=[(state.value, meaning.format(days=cells.days)) for state, meaning in _MEANING.items()],
        places=[(label, [*map(_figure, group)]) for label, group in groupby(views, key=lambda view: view.place.label)],
    )  # fmt: skip


def _figure(view: SeriesView) -> Sequence[object]:
    """Return the row of a figure: its value, how much more time it takes than the anchor and than the first anchor did."""
    against, far, newest = "", "", view.curves[0].newest.median
    if not math.isnan(newest):
        against = f"{statistics.percent(-math.log(newest))} {'slower' if newest < 1 else 'faster'}"
    if view.far:
        way = f"{statistics.percent(view.far.size)} {'slower' if view.far.size > 0 else 'faster'}"
        far = way if view.far.clear else "no change"
    word: object = _word(view.word, "failed" if view.word == "confirmed slower" else "unverified") if view.word else ""
    return (
        _link(view, view.name), drawing.value(view.now), view.curves[-1].unit, against, far, word,
        f"{view.times[-1]:%Y-%m-%d}", text.counted(len(view.times), "night"),
    )  # fmt: skip


def as_json(site: SiteModel) -> str:
    tables = {
        "schema": SCHEMA, "as_of": str(site.matrix.today), "stale_after_days": site.matrix.days, "sentence": site.sentence,
        "stacks": [
            {"word": status.word.value} | {key: getattr(status, key) for key in _OF_STACK}
            for status in statuses(site.matrix, site.order.doubles)
        ],
        "cells": [
            {"stack": cell.stack, "suite": cell.suite, "state": cell.state.value, "why": site.shown(cell.why)}
            | ({"record": cell.run.page, "day": cell.run.day, "host": cell.run.place.host} if cell.run else {})
            for cell in site.matrix.cells.values()
        ],
        "steps": [_json_of_step(site, view, step) for view in site.views for step in view.steps],
        "series": [_json_of_series(view) for view in site.views], "problems": list(site.problems),
    }  # fmt: skip
    return json.dumps(tables, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _json_of_step(site: SiteModel, view: SeriesView, step: Suspicion) -> dict[str, object]:
    size, low, high = step.seen
    return {
        "said": step.word, "figure": view.name, "place": view.place.label, "page": view.page, "series": step.kind.value,
        "ratio": math.exp(size), "low": math.exp(low), "high": math.exp(high), "since": step.after.day,
        "causes": [cause.value for cause in step.causes], "command": site.shown(step.command),
    }  # fmt: skip


def _json_of_series(view: SeriesView) -> dict[str, object]:
    now = [
        None if math.isnan(value) else float(f"{value:.6g}") for value in (view.now.median, view.now.low, view.now.high)
    ]
    return {
        "page": view.page, "figure": view.name, "place": view.place.label, "stack": view.place.stack, "unit": view.curves[-1].unit,
        "since first anchor": float(f"{math.exp(view.far.size):.6g}") if view.far else None,
        "now": now, "points": len(view.times), "last": f"{view.times[-1]:%Y-%m-%d}", "said": view.word,
    }  # fmt: skip


# What changed, and the page of each series.


def _changes(site: SiteModel) -> tuple[str, str]:
    steps = {state.value: [_step(site, *row) for row in _steps_of(site, state.value)] for state in SuspicionState}
    return _page("changes.html", "Changes", site=site, most=_MOST_CHANGES, steps=steps)


def _steps_of(site: SiteModel, state: str) -> list[tuple[SeriesView, Suspicion]]:
    steps = [(view, step) for view in site.views for step in view.steps if step.state.value == state]
    return sorted(steps, key=lambda row: (row[1].after.started, row[0].id), reverse=True)


def _title(view: SeriesView, step: Suspicion) -> str:
    return f"{view.name} on {view.place.stack}: {findings.size_seen(step)}, {findings.cause_names(step)}"


def _step(site: SiteModel, view: SeriesView, step: Suspicion) -> dict[str, Any]:
    """Return what pages show of a step; two series can step on a day."""
    colours = {"suspected": "unverified", "refuted": "dim", "confirmed": "worse" if step.slower else "better"}
    return {
        "view": view, "word": step.word, "state": step.state.value, "kind": colours[step.state.value], "slower": step.slower,
        "size": findings.size_seen(step), "title": _title(view, step), "day": step.after.day,
        "series": step.kind.value, "causes": findings.causes(step), "when": findings.when(step), "differences": findings.differences(step),
        "nights": [_shown_run(site, night.path, drawing.stamp(night.started)) for night in (step.before, step.after)],
        "gate": _shown_run(site, step.gate.path, "this gate") if step.gate else None, "command": site.shown(step.command),
        "anchor": f"{view.id}-{step.after.day}-{step.kind.value}",
    }  # fmt: skip


def _shown_run(site: SiteModel, path: Path | None, text: str) -> dict[str, str]:
    run = site.kept.get(path) if path else None
    return {"page": run.page if run else "", "text": text}


def _series(site: SiteModel, view: SeriesView) -> tuple[str, str]:
    points = sum(not math.isnan(value.median) for value in view.curves[-1].values)
    span = f"{drawing.stamp(view.times[0])} to {drawing.stamp(view.times[-1])}"
    unit, nights = view.curves[-1].unit, text.counted(len(view.times), "night")
    now = f"{drawing.value(view.now)} {unit}; {points} of {nights} count, {span}."
    heads = ["night", *(curve.title.split(":", 1)[0] for curve in view.curves), "n", "remarks"]
    return _page(
        "series.html", view.name, view.page, view=view, now=now,
        curves=[(curve, drawing.plot(view.times, view.states, curve)) for curve in view.curves],
        states=[(drawing.stamp(view.times[mark.at]), "; ".join(mark.phrases)) for mark in view.states],
        steps=[_step(site, view, step) for step in view.steps], heads=heads, rows=[*reversed([*_points(site, view)])],
    )  # fmt: skip


def _points(site: SiteModel, view: SeriesView) -> Iterator[Sequence[object]]:
    """Yield a row for each of the last points and those that something is said of."""
    shown = {mark.at for curve in view.curves for mark in curve.marks} | {mark.at for mark in view.states}
    shown |= {*range(max(0, len(view.times) - _ROWS), len(view.times))}
    yield from (_point(site, view, at) for at in sorted(shown))


def _point(site: SiteModel, view: SeriesView, at: int) -> Sequence[object]:
    words = [mark.word for curve in view.curves for mark in curve.marks if mark.at == at]
    words += [f"state {number}" for number, mark in enumerate(view.states, 1) if mark.at == at]
    night = view.trend.nights[at]
    run = _shown_run(site, night.path, drawing.stamp(view.times[at]))
    first = drawing.el("a", run["text"], href=f"../{run['page']}") if run["page"] else run["text"]
    values = (drawing.value(curve.values[at]) for curve in view.curves)
    words += [f"left out: {night.disturbed}"] if night.disturbed else []
    count = len(night.figures.get(view.trend.figure, {}).get(Measured.TODAY, ()))
    return first, *values, count or "", "; ".join(words)


# Runs: all of them, each with its record.


def _listing(site: SiteModel) -> tuple[str, str]:
    rows = [
        [_link(run, run.minute), run.record.verb, console.label(run.record), run.place.host, _verdict(run.record.verdict),
         console.verdict_line(run.record).partition(": ")[2]]
        for run in site.kept.values()
    ]  # fmt: skip
    return _page("runs.html", "Runs", rows=rows, hidden=len(site.index.runs) - len(rows))


def _record(run: IndexedRun) -> tuple[str, str]:
    record, own = run.record, run.page.rpartition("/")[2].removesuffix(".html")
    provenance = sorted(record.provenance.items())
    facts = [[name, str(fact), store.group_of(name) or "not compared"] for name, fact in provenance]
    facts += [[f"digest of {name}", digest, ""] for name, digest in sorted(record.digests.items())]
    return _page(
        "record.html", f"{record.verb}: {console.label(record)}, {run.day}", run.page, run=run, record=record, own=own, most=_MOST,
        line=console.verdict_line(record).partition("  ")[2], command=repeat.command_of(record),
        bad=[_check(check) for check in record.checks if check.verdict.exit_code],
        fine=[_check(check, repro=False) for check in record.checks if not check.verdict.exit_code],
        figures=console.figures(record) if record.measurements else None, facts=facts,
    )  # fmt: skip


def _check(check: Check, repro: bool = True) -> Sequence[object]:
    reason: object = check.reason
    if repro and (code := str(check.figures.get("repro", ""))):
        pre = drawing.el("pre", drawing.el("code", code), tabindex=0)
        reason = drawing.el(
            "div", check.reason, drawing.el("details", drawing.el("summary", "code that repeats it"), pre)
        )
    return check.id, _verdict(check.verdict), f"{check.seconds:.1f}", reason
