"""Are the figures of two commands the same, such as losses? Each position of the run is held against each, over all launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.jobs import metrics
from stackproof.record.records import CellWord

Series = Sequence[Sequence[float]]
"""One sequence of values for each launch of a side."""
_ENOUGH = 5
"""Launches of each side from which on it is no chance (below 1 %) that all of one lie above all of the other: 2 / C(2n, n)."""


@dataclass(frozen=True)
class Compared:
    """What is said of one figure; `worst`: its largest relative difference between the sides."""

    word: CellWord
    reason: str
    worst: float = 0.0


def of_callback(steps: Path) -> dict[str, list[float]]:
    """Return the figures that a callback wrote beside the seconds, such as the loss of every step."""
    found: dict[str, list[float]] = {}
    for row in metrics.rows_of(steps):
        for name, value in row.items():
            if name not in ("seconds", "step"):  # what is no finite number is a word there
                found.setdefault(name, []).append(float(value))
    return found


def compare(base: Series, head: Series, within: float = 0.0) -> Compared:
    """Compare all values of a figure; `within`: a relative difference that is allowed, 0 for none.

    Where each side says the same in every launch, so must both. One that varies by itself can only be seen to have moved: its
    means over a run of all launches of one side lie beyond all of the other's.
    """
    counts = {side: {len(one) for one in series} for side, series in (("base", base), ("head", head))}
    if any(len(count) > 1 for count in counts.values()):
        return Compared(CellWord.NOT_JUDGED, "not judged: one side gives now more and now fewer values of it by itself")
    many, other = counts["base"].pop(), counts["head"].pop()
    if many != other:
        return Compared(CellWord.CHANGED, f"CHANGED the base gives {many} values of it, the head {other}", math.inf)
    bad = next((value for one in (*base, *head) for value in one if not math.isfinite(value)), None)
    if bad is not None:
        return Compared(CellWord.CHANGED, f"CHANGED a value is {bad}", math.inf)
    own = max(_spread(base), _spread(head))
    if own > within:
        return _varying(base, head, own)
    return _steady(base[0], head[0], within)


def _steady(base: Sequence[float], head: Sequence[float], within: float) -> Compared:
    shares = [_share(before, after) for before, after in zip(base, head, strict=True)]
    worst = max(shares)
    allowed = f"within {100 * within:.3g} %" if within else "to the digit"
    if worst <= within:
        return Compared(CellWord.SAME, f"SAME {allowed}: {len(base)} values, the last is {head[-1]:g}", worst)
    at = next(number for number, share in enumerate(shares) if share > within)
    first = f"value {at + 1} of {len(base)} is {head[at]:.8g} and was {base[at]:.8g}"
    return Compared(CellWord.CHANGED, f"CHANGED {first}; the largest difference is {100 * worst:.3g} %", worst)


def _varying(base: Series, head: Series, own: float) -> Compared:
    sides = [[sum(one) / len(one) for one in series] for series in (base, head)]
    middles = [sum(side) / len(side) for side in sides]
    worst, seen = _share(*middles), f"means over a run are {middles[0]:.6g} and {middles[1]:.6g}"
    apart = max(sides[0]) < min(sides[1]) or max(sides[1]) < min(sides[0])
    if apart and min(map(len, sides)) >= _ENOUGH:
        return Compared(CellWord.CHANGED, f"CHANGED beyond what varies by itself ({100 * own:.3g} %): {seen}", worst)
    return Compared(
        CellWord.NOT_JUDGED,
        f"not judged: it varies by {100 * own:.3g} % by itself from launch to launch; {seen}",
        worst,
    )


def _spread(series: Series) -> float:
    """Return the largest relative difference between launches of one side."""
    return max((_share(min(values), max(values)) for values in zip(*series, strict=True)), default=0.0)


def _share(before: float, after: float) -> float:
    size = max(abs(before), abs(after))
    return abs(after - before) / size if size else 0.0
