"""Curves as SVG without scripts: a line, the band of its intervals, a rule at each change of state, a mark at each step.

The plot has whole numbers as coordinates and stretches with the window; what is text stands outside of it and does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from statistics import median

from markupsafe import Markup

from stackproof.api.base import statistics, text
from stackproof.extras.nights.site.model import Curve, StateMark

TALL = 400
"""Steps of a plot's height: two a pixel, and short to write."""
_HEIGHT, _BELOW = 200, 22
_FEW = 40
"""So few points have a dot each, as every point that stands alone: a line says little of three nights, and nothing of one."""
_LEAST_SPAN = 0.05
"""A plot shows this much on either side of the median at least, so that noise looks as small as it is."""
_TICKS = 4
_OPEN = ("suspected", "refuted")
"""What is not settled, or settled as nothing, has an open mark."""
_Point = tuple[int, float, float, float]


def escaped(value: object) -> Markup:
    """Return anything as markup; an escaping of jinja2's own would let through what a terminal or a reader obeys."""
    return value if isinstance(value, Markup) else Markup(text.in_html(str(value)))  # noqa: S704 - it is escaped


def el(tag: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` is class, `aria_label` is aria-label."""
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    words = "".join(f' {names[key]}="{escaped(value)}"' for key, value in attributes.items())
    return Markup(f"<{tag}{words}>{''.join(escaped(child) for child in children)}</{tag}>")  # noqa: S704 - each part is escaped above


def stamp(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


def minutes_of(times: Sequence[datetime]) -> list[int]:
    """Return where points stand on the time axis: minutes since the first."""
    return [int((time - times[0]).total_seconds() // 60) for time in times]


def plot(times: Sequence[datetime], states: Sequence[StateMark], curve: Curve) -> Markup:
    """Return the plot of one curve; without a point, a sentence."""
    places = minutes_of(times)
    every = [(x, point.median, point.low, point.high) for x, point in zip(places, curve.values, strict=True)]
    # Where a night has no value nothing is drawn.
    runs = [list(run) for there, run in groupby(every, lambda point: not math.isnan(point[1])) if there]
    points = [point for run in runs for point in run]
    if not points:
        return el("p", "No night has a value here yet.", class_="dim")
    low, high = span([figure for _, figure, _, _ in points])
    wide = max(1, places[-1])
    label = f"{curve.title}: {len(points)} points from {_number(low)} to {_number(high)} {curve.unit}, the last {value(curve.newest)}"
    box = f"0 0 {wide} {TALL}" if places[-1] else f"-1 0 2 {TALL}"  # a point alone stands in the middle
    inner = el(
        "svg", *_drawn(states, curve, places, runs, (low, high)), viewBox=box, preserveAspectRatio="none",
        width="100%", height=_HEIGHT, class_="plot",
    )  # fmt: skip
    field = el("svg", inner, *_labels(times, states, places), width="100%", height=_HEIGHT + _BELOW, class_="field")
    return el("div", _scale((low, high)), field, role="img", aria_label=label, class_="chart")


def value(interval: statistics.Interval) -> str:
    return (
        ""
        if math.isnan(interval.median)
        else f"{_number(interval.median)} [{_number(interval.low)}, {_number(interval.high)}]"
    )


def _number(figure: float) -> str:
    if not math.isfinite(figure):
        return "no number"
    return f"{figure:,.0f}" if abs(figure) >= 10000 else f"{figure:.4g}"


def span(figures: Sequence[float]) -> tuple[float, float]:
    """Return the range to draw: all figures, and `_LEAST_SPAN` around the middle at least; bands end at its edges."""
    middle = median(figures)
    return min(*figures, middle * (1 - _LEAST_SPAN)), max(*figures, middle * (1 + _LEAST_SPAN))


def _drawn(
    states: Sequence[StateMark], curve: Curve, places: Sequence[int], runs: Sequence[Sequence[_Point]], ends: tuple[float, float]
) -> Iterator[Markup]:  # fmt: skip
    across = "".join(f"M-1 {_y(tick, ends)}h{places[-1] + 2}" for tick in ticks(*ends))
    yield _shape("grid", across)
    yield _shape("band", "".join(_band(run, ends) for run in runs))
    for mark in states:
        yield _shape("state", f"M{places[mark.at]} 0v{TALL}")
    yield _shape("line", "".join(_path([(x, _y(figure, ends)) for x, figure, _, _ in run]) for run in runs))
    few = sum(map(len, runs)) <= _FEW
    dots = [point for run in runs for point in run if few or len(run) == 1]
    if dots:
        yield _shape("dots", "".join(f"M{x} {_y(figure, ends)}h0" for x, figure, _, _ in dots))
    for step in curve.marks:
        point = curve.values[step.at].median
        y = _y(point, ends) if not math.isnan(point) else TALL // 2
        shape = step.word.split(" ", 1)[0]
        spot = f"M{places[step.at]} {y}h0"
        yield _shape(f"mark {'worse' if step.worse else 'better'} {shape}", spot, el("title", step.word))
        if shape in _OPEN:
            yield _shape("hole", spot)


def _shape(kind: str, path: str, *children: Markup) -> Markup:
    return el("path", *children, class_=kind, d=Markup(path))  # noqa: S704 - a path is numbers, and longer than text may be


def _y(figure: float, ends: tuple[float, float]) -> int:
    share = (figure - ends[0]) / (ends[1] - ends[0] or 1.0)
    return round(TALL * (1 - min(max(share, 0.0), 1.0)))


def _band(run: Sequence[_Point], ends: tuple[float, float]) -> str:
    upper, lower = [(x, _y(high, ends)) for x, _, _, high in run], [(x, _y(low, ends)) for x, _, low, _ in run]
    return f"{_path([*upper, *reversed(lower)])}z"


def _path(corners: Sequence[tuple[int, int]]) -> str:
    """Return a path from corner to corner; one alone is a dot where the style has round ends."""
    return f"M{'L'.join(f'{x} {y}' for x, y in corners)}{'h0' if len(corners) == 1 else ''}"


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two ends, a few of them."""
    rough = (high - low) / _TICKS or 1.0
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _scale(ends: tuple[float, float]) -> Markup:
    """Return the numbers of the lines that lie across a plot, beside it and not under its curve."""
    words = [
        el("text", _number(tick), x="100%", y=min(max(_y(tick, ends) * _HEIGHT // TALL, 6), _HEIGHT - 4))
        for tick in ticks(*ends)
    ]
    return el("svg", *words, height=_HEIGHT + _BELOW, class_="scale")


def _labels(times: Sequence[datetime], states: Sequence[StateMark], places: Sequence[int]) -> Iterator[Markup]:
    wide = max(1, places[-1])
    for number, mark in enumerate(states, 1):
        share = 100 * places[mark.at] / wide
        yield el("text", number, x=f"{share:.2f}%", y=11, class_="number")
    yield el("text", stamp(times[0]), x=0, y=_HEIGHT + 16, class_="date")
    if len(times) > 1:
        yield el("text", stamp(times[-1]), x="100%", y=_HEIGHT + 16, class_="date last")
