"""Curves as SVG without scripts: a line, the band of its intervals, a rule at each change of state, a mark at each step.

The plot has whole numbers as coordinates and stretches with the window; what is text stands outside of it and does not.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import pairwise
from statistics import median

from stackproof.api.base import statistics
from stackproof.extras.nights.site import charts
from stackproof.extras.nights.site.model import Curve, StateMark

TALL = 400
"""Steps of a plot's height: two a pixel, and short to write."""
_HEIGHT, _BELOW = 200, 22
_FEW = 40
"""So few points have a dot each, as every point that stands alone: a line says little of three nights, and nothing of one."""
_LEAST_SPAN = 0.05
"""A plot shows this much on either side of the median at least, so that noise looks as small as it is."""
_PAUSE = 5
"""A pause of more than so many usual steps breaks the line."""
_STEPS = (86400, 3600, 60, 1)
_OPEN = ("suspected", "refuted")
"""What is not settled, or settled as nothing, has an open mark."""
_Point = tuple[int, float, float, float]


def resolution(times: Sequence[datetime]) -> int:
    """Return how many seconds a step of the time axis has: a day where each point has its own, else an hour, a minute, a second."""
    steps = (seconds for seconds in _STEPS if len({int(time.timestamp()) // seconds for time in times}) == len(times))
    return next(steps, 1)


def start_of(times: Sequence[datetime]) -> datetime:
    """Return where the time axis begins: at the first point's day, hour, minute or second."""
    seconds = resolution(times)
    return datetime.fromtimestamp(int(times[0].timestamp()) // seconds * seconds, timezone.utc)


def steps_of(times: Sequence[datetime]) -> list[int]:
    """Return where points stand, in steps of the time axis."""
    seconds, start = resolution(times), start_of(times)
    return [int((time - start).total_seconds() // seconds) for time in times]


def stamp(times: Sequence[datetime], at: int) -> str:
    """Return when a point was: the day, and the time where a day has several."""
    return f"{times[at]:%Y-%m-%d}" if resolution(times) == _STEPS[0] else f"{times[at]:%Y-%m-%d %H:%M}"


def plot(times: Sequence[datetime], states: Sequence[StateMark], curve: Curve) -> charts.Markup:
    """Return the plot of one curve; without a point, a sentence."""
    places = steps_of(times)
    points = [
        (x, point.median, point.low, point.high) for x, point in zip(places, curve.values, strict=True) if not math.isnan(point.median)
    ]  # fmt: skip
    if not points:
        return charts.el("p", "No night has a value here yet.", class_="dim")
    low, high = span(points)
    wide = max(1, places[-1])
    label = f"{curve.title}: {len(points)} points from {_number(low)} to {_number(high)} {curve.unit}, the last {value(curve.newest)}"
    box = f"0 0 {wide} {TALL}" if places[-1] else f"-1 0 2 {TALL}"  # a point alone stands in the middle
    inner = charts.el(
        "svg", *_drawn(states, curve, places, points, (low, high)), viewBox=box, preserveAspectRatio="none",
        width="100%", height=_HEIGHT, class_="plot", data_low=f"{low:.6g}", data_high=f"{high:.6g}",
    )  # fmt: skip
    field = charts.el(
        "svg", inner, *_labels(times, states, places), width="100%", height=_HEIGHT + _BELOW, class_="field"
    )
    return charts.el("div", _scale((low, high)), field, role="img", aria_label=label, class_="chart")


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


def span(points: Sequence[_Point]) -> tuple[float, float]:
    """Return the range to draw: all values and nearly all of their bounds, and `_LEAST_SPAN` around the middle at least."""
    values = [point[1] for point in points]
    middle = median(values)
    lows, highs = sorted(point[2] for point in points), sorted(point[3] for point in points)
    few = len(points) // 20
    low = min(*values, middle * (1 - _LEAST_SPAN), max(lows[few], 0.0))
    high = max(*values, middle * (1 + _LEAST_SPAN), min(highs[-1 - few], 10 * max(values)))
    return low, high


def _drawn(
    states: Sequence[StateMark], curve: Curve, places: Sequence[int], points: Sequence[_Point], ends: tuple[float, float]
) -> Iterator[charts.Markup]:  # fmt: skip
    left_out = [x for x, interval in zip(places, curve.values, strict=True) if math.isnan(interval.median)]
    step = _PAUSE * max(median([after - before for before, after in pairwise(places)] or [1]), 1)
    runs = _unbroken(points, left_out, step)
    across = "".join(f"M-1 {_y(tick, ends)}h{places[-1] + 2}" for tick in charts.ticks(*ends))
    yield charts.el("path", class_="grid", d=charts.Markup(across))
    yield charts.el("path", class_="band", d=charts.Markup("".join(_band(run, ends) for run in runs)))
    for mark in states:
        yield charts.el("path", class_="state", d=charts.Markup(f"M{places[mark.at]} 0v{TALL}"))
    lines = (charts.line([(x, _y(figure, ends)) for x, figure, _, _ in run]) for run in runs)
    yield charts.el("path", class_="line", d=charts.Markup("".join(lines)))
    dots = points if len(points) <= _FEW else [run[0] for run in runs if len(run) == 1]
    if dots:
        yield charts.el(
            "path", class_="dots", d=charts.Markup("".join(f"M{x} {_y(figure, ends)}h0" for x, figure, _, _ in dots))
        )
    for step_ in curve.marks:
        point = curve.values[step_.at].median
        y = _y(point, ends) if not math.isnan(point) else TALL // 2
        kind = "better" if not step_.worse else "worse"
        shape = step_.word.split(" ", 1)[0]
        spot = charts.Markup(f"M{places[step_.at]} {y}h0")
        yield charts.el("path", charts.el("title", step_.word), class_=f"mark {kind} {shape}", d=spot)
        if shape in _OPEN:
            yield charts.el("path", class_="hole", d=spot)


def _unbroken(points: Sequence[_Point], left_out: Sequence[int], step: float) -> list[list[_Point]]:
    """Return the stretches between which points are left out, or long missing: nothing was measured there, so nothing is drawn."""
    runs = list[list[_Point]]()
    for point in points:
        last = runs[-1][-1][0] if runs else 0
        if not runs or point[0] - last > step or bisect_left(left_out, last) < bisect_left(left_out, point[0]):
            runs.append([])
        runs[-1].append(point)
    return runs


def _y(figure: float, ends: tuple[float, float]) -> int:
    share = (figure - ends[0]) / (ends[1] - ends[0] or 1.0)
    return round(TALL * (1 - min(max(share, 0.0), 1.0)))


def _band(run: Sequence[_Point], ends: tuple[float, float]) -> str:
    return charts.band([(x, _y(high, ends)) for x, _, _, high in run], [(x, _y(low, ends)) for x, _, low, _ in run])


def _scale(ends: tuple[float, float]) -> charts.Markup:
    """Return the numbers of the lines that lie across a plot, beside it and not under its curve."""
    words = [
        charts.el("text", _number(tick), x="100%", y=min(max(_y(tick, ends) * _HEIGHT // TALL, 6), _HEIGHT - 4))
        for tick in charts.ticks(*ends)
    ]
    return charts.el("svg", *words, height=_HEIGHT + _BELOW, class_="scale")


def _labels(times: Sequence[datetime], states: Sequence[StateMark], places: Sequence[int]) -> Iterator[charts.Markup]:
    wide = max(1, places[-1])
    for number, mark in enumerate(states, 1):
        share = 100 * places[mark.at] / wide
        yield charts.el("text", number, x=f"{share:.2f}%", y=11, class_="number", data_x=places[mark.at])
    yield charts.el("text", stamp(times, 0), x=0, y=_HEIGHT + 16, class_="date")
    if len(times) > 1:
        yield charts.el("text", stamp(times, -1), x="100%", y=_HEIGHT + 16, class_="date last")
