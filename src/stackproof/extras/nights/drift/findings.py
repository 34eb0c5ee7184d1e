"""All that nights tell: what is confirmed, what is suspected, what was refuted, and what nothing can be said of yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stackproof.api.record import store
from stackproof.extras.nights.drift.nights import VERB, Night, by_place, nights
from stackproof.extras.nights.drift.rules import rules
from stackproof.extras.nights.drift.series import LongTerm, Trend, long_term, trends
from stackproof.extras.nights.drift.suspicions import (
    GATE,
    GateResult,
    Suspicion,
    SuspicionState,
    gate_results,
    settle,
    suspect,
)

PASSED, SLOWER, TOO_FEW = 0, 1, 6
"""Exit codes: nothing is told, a slowdown is confirmed, there are too few nights to look at."""


@dataclass(frozen=True)
class PlaceDrift:
    """What is known of one place; `settled` by gates, oldest first; `suspicions` as of the last night."""

    place: store.Place
    nights: tuple[Night, ...]
    trends: tuple[Trend, ...]
    suspicions: tuple[Suspicion, ...]
    settled: tuple[Suspicion, ...]

    @property
    def confirmed(self) -> list[Suspicion]:
        """Return what gates have confirmed, oldest first."""
        return [one for one in self.settled if one.state is SuspicionState.CONFIRMED]

    @property
    def refuted(self) -> list[Suspicion]:
        """Return what gates have refuted, oldest first."""
        return [one for one in self.settled if one.state is SuspicionState.REFUTED]

    @property
    def slowdowns(self) -> list[Suspicion]:
        """Return the slowdowns that people are told: confirmed in the last nights, and no later gate saw the figure faster again."""
        return [one for one in self.settled if one.told]

    @property
    def lacking(self) -> int:
        """How many more nights are needed before any figure can be looked at; 0 if one can."""
        return max(0, rules().scan.fewest + 1 - max((one.usable for one in self.trends), default=0))

    @property
    def long_terms(self) -> list[LongTerm]:
        """Return how far each figure has come since the first anchor, the greatest loss first."""
        found = [one for trend in self.trends if (one := long_term(trend))]
        return sorted(found, key=lambda one: -one.size)

    @property
    def disturbed(self) -> list[Night]:
        """Return the nights that count for nothing."""
        return [one for one in self.nights if one.disturbed]


@dataclass(frozen=True)
class Drift:
    """Every place, and what was wrong with the records."""

    places: tuple[PlaceDrift, ...]
    problems: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """The exit code of the contracts."""
        if any(one.slowdowns for one in self.places):
            return SLOWER
        return PASSED if any(not one.lacking for one in self.places) else TOO_FEW

    @property
    def headline(self) -> str:
        """Say in one line what matters."""
        slower = sum(len(one.slowdowns) for one in self.places)
        open_ = sum(len(one.suspicions) for one in self.places)
        if self.exit_code == TOO_FEW:
            lacking = min((one.lacking for one in self.places), default=rules().scan.fewest + 1)
            return f"NOTHING TO LOOK AT: {lacking} more {'night' if lacking == 1 else 'nights'} needed before a step can be seen"
        told = (
            f"{slower} confirmed {'slowdown' if slower == 1 else 'slowdowns'}" if slower else "no slowdown is confirmed"
        )
        far = [one for place in self.places for one in place.long_terms if one.clear and one.size > 0]
        furthest = max(far, key=lambda one: one.size, default=None)
        since = f"; {furthest.figure.label} is {furthest.sentence}" if furthest else ""
        return f"{'SLOWER' if slower else 'DRIFTED' if far else 'QUIET'}: {told}, {open_} suspected{since}"


def look(tops: Iterable[Path], stack: str = "") -> Drift:
    """Read the records of nights and gates below these folders and return what they tell; a bad one is skipped and named.

    So is one whose day cannot be true (`record.dated`). `stack`: of this stack alone.
    """
    return drift_of(store.dated(store.read(store.files(tops, (VERB, GATE)))), stack)


def drift_of(loaded: store.Loaded, stack: str = "") -> Drift:
    """Return what records tell, place by place."""
    found, problems = nights(loaded)
    gates = gate_results(loaded.records)
    groups = by_place(one for one in found if stack in ("", one.place.stack))
    places = [examine(place, those, gates) for place, those in groups.items()]
    chains = [sentence for one in places for trend in one.trends for sentence in trend.problems]
    return Drift(tuple(sorted(places, key=lambda one: one.place.label)), (*loaded.problems, *problems, *chains))


def examine(place: store.Place, found: Sequence[Night], gates: Sequence[GateResult]) -> PlaceDrift:
    """Return what the nights of one place tell, oldest first, with what gates saw of them."""
    drawn = trends(place, found)
    by_gates = [settle(one, gates) for one in drawn]
    settled = [one for _, those in by_gates for one in those]
    settled = _reported(sorted(settled, key=lambda one: one.gate.started if one.gate else one.after.started), found)
    suspicions = suspect(drawn, [values for values, _ in by_gates])
    return PlaceDrift(place, tuple(found), tuple(drawn), tuple(suspicions), tuple(settled))


def _reported(settled: Sequence[Suspicion], found: Sequence[Night]) -> list[Suspicion]:
    """Mark the slowdowns of which people are told."""
    recent = found[-rules().told.nights :][0].started if found else None
    latest = {one.figure: one for one in settled if one.state is SuspicionState.CONFIRMED}
    told = [one for one in latest.values() if one.slower and recent and one.gate and one.gate.started >= recent]
    return [replace(one, told=one in told) for one in settled]
