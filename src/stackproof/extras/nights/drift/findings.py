"""All that nights tell: what is confirmed, what is suspected, what was refuted, and what nothing can be said of yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.api.record import Place, store
from stackproof.extras.nights.drift.longterm import LongTerm, long_term
from stackproof.extras.nights.drift.nights import VERB, Night, by_place, nights
from stackproof.extras.nights.drift.rules import rules
from stackproof.extras.nights.drift.series import Trend, trends
from stackproof.extras.nights.drift.suspicions import Suspicion, suspect
from stackproof.extras.nights.drift.verdicts import GATE, Confirmed, GateSaid, Refuted, said, settle

PASSED, SLOWER, TOO_FEW = 0, 1, 6
"""Exit codes: nothing is told, a slowdown is confirmed, there are too few nights to look at."""


@dataclass(frozen=True)
class PlaceDrift:
    """What is known of one place; `confirmed` and `refuted` are oldest first, `suspicions` as of the last night."""

    place: Place
    nights: tuple[Night, ...]
    trends: tuple[Trend, ...]
    suspicions: tuple[Suspicion, ...]
    confirmed: tuple[Confirmed, ...]
    refuted: tuple[Refuted, ...]

    @property
    def slowdowns(self) -> list[Confirmed]:
        """Return the slowdowns that people are told: confirmed in the last nights, and no later gate saw the figure faster again."""
        recent = self.nights[-rules().told.nights :][0].started if self.nights else None
        latest = {one.suspicion.figure: one for one in self.confirmed}
        return [one for one in latest.values() if one.suspicion.slower and recent and one.gate.started >= recent]

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
        return f"{'SLOWER' if slower else 'QUIET'}: {told}, {open_} suspected"


def look(tops: Iterable[Path], stack: str = "") -> Drift:
    """Read the records of nights and gates below these folders and return what they tell; a bad one is skipped and named.

    So is one whose day cannot be true (`record.dated`). `stack`: of this stack alone.
    """
    loaded = store.dated(store.read(store.files(tops, (VERB, GATE))))
    found, problems = nights(loaded)
    gates = said(loaded.records)
    groups = by_place(one for one in found if stack in ("", one.place.stack))
    places = [examine(place, those, gates) for place, those in groups.items()]
    chains = [sentence for one in places for trend in one.trends for sentence in trend.problems]
    return Drift(tuple(sorted(places, key=lambda one: one.place.label)), (*loaded.problems, *problems, *chains))


def examine(place: Place, found: Sequence[Night], gates: Sequence[GateSaid]) -> PlaceDrift:
    """Return what the nights of one place tell, oldest first, with what gates said of them."""
    drawn = trends(place, found)
    settled = [settle(one, gates) for one in drawn]
    verdicts = sorted((one for _, those in settled for one in those), key=lambda one: one.gate.started)
    return PlaceDrift(
        place, tuple(found), tuple(drawn), tuple(suspect(drawn, [values for values, _ in settled])),
        tuple(one for one in verdicts if isinstance(one, Confirmed)),
        tuple(one for one in verdicts if isinstance(one, Refuted)),
    )  # fmt: skip
