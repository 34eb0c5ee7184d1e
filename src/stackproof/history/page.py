"""Writes histories as one static page of rates: everything escaped, nothing fetched from elsewhere, no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.processes import BUSY
from stackproof.base.text import in_html
from stackproof.base.units import RATES, rate, shown
from stackproof.history.timeline import Change, History, Point, Series, flagged, span, subject
from stackproof.record.records import write_atomically
from stackproof.record.reference import Reference, find

_MOST_DRAWN = 120
_MOST_CHANGES = 200
_MOST_STATES = 200
_WIDTH, _HEIGHT, _MARGIN = 180, 30, 3
_NUMBERS = {"speed", "before", "after", "now", "±", "since before", "runs"}

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #888; --worse: #c62828; --better: #2e7d32; --mark: #1565c0; }
@media (prefers-color-scheme: dark) { :root { --worse: #ef9a9a; --better: #a5d6a7; --mark: #90caf9; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 82rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; } td, th { padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 500; } tr + tr td { border-top: 1px solid var(--line); }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } .dim { color: var(--dim); }
.worse { color: var(--worse); font-weight: 600; } .better { color: var(--better); font-weight: 600; }
svg { display: block; } polyline { fill: none; stroke: var(--mark); stroke-width: 1.5; } circle { fill: var(--mark); }
circle.worse { fill: var(--worse); } circle.better { fill: var(--better); } .wrap { overflow-wrap: anywhere; }
"""


def write(histories: Sequence[History], problems: Sequence[str], path: Path) -> None:
    """Write the page in one step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, render(histories, problems))
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); choose another file with --html") from error


def render(histories: Sequence[History], problems: Sequence[str] = ()) -> str:
    """Return the page: what changed, then the figures of each place, then its states."""
    changes = sorted(
        (step for one in histories for step in one.changes), key=lambda step: step.after.when, reverse=True
    )
    body = [
        "<h1>Rates</h1>",
        "<p>Rates are higher-is-better; plain times, such as start-up, are lower-is-better. A change is of speed in either case: "
        "minus is worse. Intervals are of the median, 95 %.</p>",
        *(f"<p class='worse'>{in_html(sentence)}</p>" for sentence in problems),
        _changes(changes),
        *(_place(one) for one in histories),
    ]
    if not histories:
        body.append("<p>There are no figures yet.</p>")
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>stackproof: rates</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _changes(changes: Sequence[Change]) -> str:
    if not changes:
        return "<p class='dim'>No change is flagged.</p>"
    rows = [
        f"<tr><td class='dim'>{_day(step.after)}</td>{_moved(step)}"
        f"<td>{in_html(step.key.subject)} <span class='dim'>{in_html(step.key.preset)}</span></td>"
        f"<td class='n'>{_figure(step.before, step.key.unit)}</td><td class='n'>{_figure(step.after, step.key.unit)}</td>"
        f"<td>{in_html(step.place.label)}</td><td class='wrap'>{in_html(step.after.because)}</td></tr>"
        for step in changes[:_MOST_CHANGES]
    ]
    more = f"<p class='dim'>and {len(changes) - _MOST_CHANGES} older ones</p>" if len(changes) > _MOST_CHANGES else ""
    return (
        "<h2>Flagged changes</h2>" + _table(["", "speed", "", "before", "after", "where", "what changed"], rows) + more
    )


def _place(history: History) -> str:
    heads = ["", "preset", "now", "±", "since before", "trend", "reference, measured by others"]
    rows = [_series(one) for one in history.series]
    return f"<h2>{in_html(history.place.label)}</h2>" + _table(heads, rows) + _states(history)


def _series(one: Series) -> str:
    return (
        f"<tr><td>{in_html(one.key.subject)} <span class='dim'>v{in_html(one.version)}</span></td>"
        f"<td class='dim'>{in_html(one.key.preset)}</td>"
        f"<td class='n' title='{_title(one.newest)}'>{_figure(one.newest, one.key.unit)}</td>"
        f"<td class='n dim'>{one.newest.seconds.relative:.1%}</td>"
        f"{_moved(one.last)}<td>{_trend(one)}</td><td class='dim'>{_references(one)}</td></tr>"
    )


def _moved(step: Change | None) -> str:
    """Return the cell of a change of speed, coloured where it is flagged, with a word for those who see no colour."""
    if step is None:
        return "<td class='n dim'>first</td>"
    word = ("worse" if step.worse else "better") if flagged(step) else ""
    if step.busy:
        return f"<td class='n dim'>{step.ratio - 1:+.1%} {BUSY}</td>"
    return f"<td class='n {word or 'dim'}'>{step.ratio - 1:+.1%}{' ' + word if word else ''}</td>"


def _figure(point: Point, unit: str) -> str:
    return in_html(shown(point.seconds.median, unit))


def _title(point: Point) -> str:
    return in_html(f"{point.when:%Y-%m-%d %H:%M} UTC, commit {point.commit[:12]}, state {point.state}")


def _day(point: Point) -> str:
    return f"{point.when:%Y-%m-%d}"


def _references(one: Series) -> str:
    return "<br>".join(_reference(row) for row in find(one.key.subject, one.key.preset, one.key.unit))


def _reference(row: Reference) -> str:
    ranks = f" on {row.ranks} ranks" if row.ranks > 1 else ""
    told = in_html(f"{shown(row.seconds, row.unit)}{ranks}, {row.device}")
    return f"<span title='{in_html(row.source)}'>{told}</span>"


def _trend(one: Series) -> str:
    """Draw what is shown, as it is shown: a rate that falls goes down."""
    points = one.points[-_MOST_DRAWN:]
    values = [rate(point.seconds.median, one.key.unit)[0] for point in points]
    low, high = span(values)
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(values) - 1)
    scale = (_HEIGHT - 2 * _MARGIN) / (high - low)
    places = [
        (_MARGIN + number * step, _HEIGHT - _MARGIN - (value - low) * scale) for number, value in enumerate(values)
    ]
    marked = {step.after: step for step in one.changes}
    dots = "".join(_dot(place, marked.get(point)) for place, point in zip(places, points, strict=True))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    told = in_html(f"{len(one.points)} points from {_told(one, min(values), max(values))}")
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' role='img' aria-label='{told}'><title>{told}</title>"
        f"<polyline points='{line}' fill='none' stroke='#1565c0'/>{dots}</svg>"
    )


def _told(one: Series, low: float, high: float) -> str:
    unit = RATES.get(one.key.unit, one.key.unit)
    return f"{low:.3g} to {high:.3g} {unit}"


def _dot(place: tuple[float, float], step: Change | None) -> str:
    if step is None:
        return ""
    return f"<circle class='{'worse' if step.worse else 'better'}' cx='{place[0]:.1f}' cy='{place[1]:.1f}' r='3'/>"


def _states(history: History) -> str:
    points = [(stay, index) for index, stay in enumerate(history.stays)][-_MOST_STATES:]
    rows = [
        f"<tr><td class='dim'>{stay.entries[0].started:%Y-%m-%d}</td><td class='dim'>{in_html(stay.state.digest[:8])}</td>"
        f"<td class='n dim'>{len(stay.entries)}</td>"
        f"<td class='wrap'>{in_html(subject(history.stays[index - 1] if index else None, stay))}</td></tr>"
        for stay, index in reversed(points)
    ]
    title = f"<summary>{len(history.stays)} states of the stack</summary>"
    return f"<details>{title}{_table(['since', 'state', 'runs', 'what changed'], rows)}</details>"


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th{' class=n' if word in _NUMBERS else ''}>{in_html(word)}</th>" for word in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table>"
