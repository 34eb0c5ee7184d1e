"""Suspicions: where a series stepped, how far, in which states before and after, who is the likeliest cause, and what confirms it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stackproof.api.base import advice, git
from stackproof.api.record import Place
from stackproof.extras.nights.drift.nights import FigureKey, Night
from stackproof.extras.nights.drift.rules import Cause, SeriesKind, rules
from stackproof.extras.nights.drift.scan import Steps, Values, at_split, scan
from stackproof.extras.nights.drift.series import Trend

_Z = 1.959964


@dataclass(frozen=True)
class Suspicion:
    """A step that a series seems to have made; nobody is told of a slowdown before a gate has confirmed it.

    `size`: log of after over before, with its 95 % interval `low` to `high`; above 0 is slower. `score`: in standard errors.
    `before` and `after`: the last night before the step and the first after it; `between`: the first nights that are about as likely.
    `asks`: what the gate is asked that confirms or refutes it; `interleaved`: whether both states run side by side in it.
    """

    place: Place
    figure: FigureKey
    kind: SeriesKind
    size: float
    low: float
    high: float
    score: float
    before: Night
    after: Night
    between: tuple[str, str]
    nights: int
    moved: tuple[SeriesKind, ...]
    changed: tuple[Cause, ...]
    causes: tuple[Cause, ...]
    why: str
    asks: tuple[str, ...]
    interleaved: bool

    @property
    def slower(self) -> bool:
        """Whether it is for the worse."""
        return self.size > 0

    @property
    def command(self) -> str:
        """The gate, as people type it."""
        return advice.command(self.place.stack, "gate", *self.asks)


def suspect(trends: Sequence[Trend], values: Sequence[dict[SeriesKind, Values]]) -> list[Suspicion]:
    """Return what is suspected as of the last night, one for a step: the ratio's first, then the anchor's, then what users get.

    Args:
        trends: the figures of one place, over the same nights.
        values: their series with what gates have settled already left out, in the same order.
    """
    if not trends:
        return []
    limits, found = rules().scan, list[Suspicion]()
    rows = np.array([one[kind] for one in values for kind in SeriesKind])
    steps, kinds = scan(rows, limits), list(SeriesKind)
    for number, trend in enumerate(trends):
        first = number * len(kinds)
        told: list[tuple[int, int]] = []
        for offset, kind in enumerate(kinds):
            row = first + offset
            span = (int(steps.latest[row]), int(steps.earliest[row]))
            if steps.suspected[row] and not any(span[0] <= last and near <= span[1] for near, last in told):
                found += _suspicion(trend, values[number], kind, row, steps)
                told.append(span)
    return found


def _suspicion(
    trend: Trend, values: dict[SeriesKind, Values], kind: SeriesKind, row: int, steps: Steps
) -> list[Suspicion]:
    """Return the suspicion of one series, or none where the uncertainty of a chained anchor explains it."""
    there = np.flatnonzero(~np.isnan(values[kind]))
    place = {
        count: int(there[-count]) for count in {int(steps.after[row]), int(steps.latest[row]), int(steps.earliest[row])}
    }
    split = place[int(steps.after[row])]
    before, after = trend.nights[int(there[there < split][-1])], trend.nights[split]
    earliest, latest = trend.nights[place[int(steps.earliest[row])]], trend.nights[place[int(steps.latest[row])]]
    size, error, score = float(steps.size[row]), float(steps.error[row]), float(steps.score[row])
    wide = math.hypot(error, _link_error(trend, kind, before, after))
    limit = rules().scan.single if steps.after[row] == 1 else rules().scan.several
    if abs(score) * error / wide < limit:
        return []
    settled = trend.nights[int(there[there < place[int(steps.earliest[row])]][-1])]
    return [
        describe(trend, values, kind, (before, after), (size, wide, score * error / wide), (settled, latest), earliest)
    ]


def describe(
    trend: Trend, values: dict[SeriesKind, Values], kind: SeriesKind, around: tuple[Night, Night],
    step: tuple[float, float, float], span: tuple[Night, Night], earliest: Night,
) -> Suspicion:  # fmt: skip
    """Return a suspicion with its causes: `around` the split, `step` as size, error and score, and the `span` in which states changed."""
    before, after = around
    size, error, score = step
    index = trend.nights.index(after)
    moved = tuple(one for one in SeriesKind if one is kind or _moved(values[one], index))
    changed = _changed(trend.nights, span)
    row = rules().blame(moved, changed)
    asks, interleaved = confirming(trend, kind, row.causes, before, after)
    return Suspicion(
        trend.place, trend.figure, kind, size, size - _Z * error, size + _Z * error, score, before, after,
        (earliest.day, span[1].day), len(trend.nights) - index, moved, changed, row.causes, row.why, asks, interleaved,
    )  # fmt: skip


def _link_error(trend: Trend, kind: SeriesKind, before: Night, after: Night) -> float:
    """Return the standard error of the chain where the step is where the anchor changed."""
    if kind is SeriesKind.RAW or before.anchor == after.anchor:
        return 0.0
    return next((one.error for one in trend.links if (one.former, one.anchor) == (before.anchor, after.anchor)), 0.0)


def _moved(values: Values, split: int) -> bool:
    """Whether a series has a step of its own at this night."""
    behind = int((~np.isnan(values[split:])).sum())
    if not behind:
        return False
    score, size, _ = at_split(values, np.array([behind]), rules().scan)
    return bool(abs(score[0]) >= rules().moved.score and abs(size[0]) >= rules().scan.effect / 2)


def _changed(nights: Sequence[Night], span: tuple[Night, Night]) -> tuple[Cause, ...]:
    """Return which classes changed from one night of the span to the next; a class that changed and came back counts."""
    first, last = nights.index(span[0]), nights.index(span[1])
    table = rules()
    seen = {
        cause for place in range(first, last)
        for cause in table.changed(nights[place].state, nights[place + 1].state)
    }  # fmt: skip
    return tuple(cause for cause in Cause if cause in seen)


def confirming(
    trend: Trend, kind: SeriesKind, causes: Sequence[Cause], before: Night, after: Night
) -> tuple[tuple[str, ...], bool]:
    """Return what a gate is asked that measures both states, and whether side by side.

    Two commits, with the locks that they hold, run interleaved. A driver or a machine of yesterday cannot: there today's state is held
    against the record of the night before, which shows whether it lasts.
    """
    base, head = before.state.commit, after.state.commit
    known = git.is_reachable(base) and git.is_reachable(head) and base != head
    interleaved = known and kind is not SeriesKind.ANCHOR and causes[0] not in (Cause.DRIVER, Cause.MACHINE)
    sides = ("--base", base, "--head", head) if interleaved else ("--base-record", str(before.path), "--unlike")
    return (*sides, "--only", trend.figure.subject), interleaved


def side_by_side(step: Suspicion) -> tuple[str, ...]:
    """Return what a gate is asked that runs both commits of a step in turns."""
    return "--base", step.before.state.commit, "--head", step.after.state.commit, "--only", step.figure.subject
