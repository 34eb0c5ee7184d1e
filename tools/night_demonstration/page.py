"""The page of the demonstration: what was planted, and what nights said of it; what was not found is said as well."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from stackproof.extras.nights.drift.nights import VERB, Night, nights
from stackproof.extras.nights.drift.rules import SeriesKind
from stackproof.extras.nights.drift.series import Trend, trends
from stackproof.extras.nights.night import plan
from stackproof.gate.plan import of
from stackproof.record import store
from stackproof.record.records import Check, Record
from tools.gate_calibration.page import put
from tools.night_demonstration.story import NightStory, Planted

_SPREAD = 1.4826
"""From the median of absolute deviations to a standard deviation."""
_MOVED = {"code": SeriesKind.RATIO, "machine": SeriesKind.ANCHOR, "driver": SeriesKind.ANCHOR}


@dataclass(frozen=True)
class Held:
    """A night as it was held: its number, its record, and what it said of suspicions and of slowdowns."""

    number: int
    record: Record

    def said(self, name: str) -> list[Check]:
        """Return the checks of this name, or that begin so."""
        return [check for check in self.record.checks if check.id == name or check.id.startswith(f"{name}::")]

    @property
    def load(self) -> float:
        """The largest share of the host's cores that others used in a launch."""
        return max(float(value) for check in self.said("admission") for value in check.figures.values())


def told(folder: Path, story: NightStory) -> str:
    """Return the tables: events, then every suspicion."""
    loaded = store.read(store.files([folder], (VERB,)))
    found, _ = nights(loaded)
    held = [Held(number, loaded.records[one.path]) for number, one in enumerate(found, 1)]
    (trend,) = trends(found[0].place, found)
    return "\n".join([_first(held, trend, found), "", *_events(story, held, trend), "", *_suspicions(held), ""])


def _first(held: Sequence[Held], trend: Trend, found: Sequence[Night]) -> str:
    loads = sorted(one.load for one in held)
    limit = of(plan.load().admission.load, "cpu")
    out = sum(load > limit for load in loads)
    seconds = median(one.record.seconds for one in held)
    noise = {
        kind: 100 * _noise([float(one) for one in trend.values[kind]]) for kind in (SeriesKind.RATIO, SeriesKind.ANCHOR)
    }
    shown = f"{100 * loads[0]:.0f} to {100 * loads[-1]:.0f} %"
    return (
        f"{len(held)} nights of one figure, {trend.figure.label}, {found[0].started:%Y-%m-%d}, on {trend.place.devices}; half of "
        f"them took less than {seconds:.0f} s. Others used {shown} of the host's cores: with the shipped limit of {100 * limit:.0f} % "
        f"{out} of the {len(held)} nights would have been left out. From one night to the next the ratio varied by "
        f"{noise[SeriesKind.RATIO]:.0f} %, the anchor alone by {noise[SeriesKind.ANCHOR]:.0f} % (robust standard deviation of "
        "differences, over the root of two)."
    )


def _noise(values: Sequence[float]) -> float:
    steps = [after - before for before, after in pairwise(values)]
    middle = median(steps)
    return _SPREAD * median(abs(step - middle) for step in steps) / math.sqrt(2)


def _events(story: NightStory, held: Sequence[Held], trend: Trend) -> Iterator[str]:
    yield "| from night | planted | cause | series | what the series did | what nights said of that series until its next event |"
    yield "|---:|---|---|---|---:|---|"
    for event in story.event[1:]:
        if event.night <= len(held):
            kind = _MOVED[event.cause]
            before, after = _around(story, event, len(held))
            moved = _moved([float(one) for one in trend.values[kind]], before, event.night, after)
            said = _within(held, event.night, after, kind)
            yield f"| {event.night} | {event.title} | {event.cause} | {kind.value} | {moved} | {said} |"


def _around(story: NightStory, event: Planted, nights: int) -> tuple[int, int]:
    """Return from which night on, and before which, nothing else was planted that moves the same series."""
    alike = [one.night for one in story.event[1:] if _MOVED[one.cause] is _MOVED[event.cause]]
    return max([1, *(night for night in alike if night < event.night)]), min(
        [nights + 1, *(night for night in alike if night > event.night)]
    )


def _moved(values: Sequence[float], before: int, at: int, after: int) -> str:
    """Return how far apart the medians of the nights before and after are."""
    return f"{100 * math.expm1(median(values[at - 1 : after - 1]) - median(values[before - 1 : at - 1])):+.0f} %"


def _within(held: Sequence[Held], begin: int, end: int, kind: SeriesKind) -> str:
    found = [
        f"night {one.number}: {check.reason.partition(':')[0].partition(',')[0]}"
        for one in held
        if begin <= one.number < end
        for check in one.said("confirm")
        if check.id.endswith(f" {kind.value}")
    ]
    return "; ".join(found) or "**not found**: nothing was suspected"


def _suspicions(held: Sequence[Held]) -> Iterator[str]:
    yield "Every suspicion, and what its gate made of it:"
    yield ""
    for one in held:
        for check in one.said("confirm"):
            if "::" in check.id:
                yield f"- night {one.number}, {check.id.removeprefix('confirm::')}: {_short(check.reason)}"


def _short(reason: str) -> str:
    return reason.partition("; gate/")[0].replace(
        " (today's side moved and the frozen one did not, and the commit changed)", ""
    )


def write(text: str, page: Path | None) -> None:
    """Print the tables, or put them into a page."""
    print(text) if page is None else put(page, text)  # noqa: T201
