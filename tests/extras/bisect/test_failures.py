"""Failures at rates of their own: the rarer of two culprits is named too, or its failures are told; a good side that fails ends it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from stackproof.extras.bisect import plan
from stackproof.extras.bisect.evidence import FailureRate, NoAnswer, Settled, SetWord
from stackproof.extras.bisect.failures import FailureSearch
from stackproof.extras.bisect.splits import Blame

UNITS = ("A", "B", "D", "E")


class GoodFailsError(Exception):
    """The good end failed."""


@dataclass
class World:
    """Changes that fail at rates, evenly spread; `meeting`: only both together do; `good_for`: so often the good end is clean."""

    rates: Mapping[str, float]
    meeting: Collection[str] = ()
    good_for: int = 1000
    mute: Collection[str] = ()
    runs: int = 0
    clean: int = 0
    due: dict[str, float] = field(default_factory=dict)
    told: dict[frozenset[str], Settled] = field(default_factory=dict)

    def run(self, units: Collection[str], _: int = 0) -> float | NoAnswer:
        """Run a set once; one that holds only what is mute says nothing."""
        self.runs += 1
        if units and set(units) == set(self.mute):
            return NoAnswer("does not import")
        met = bool(self.meeting) and set(self.meeting) <= set(units)
        return float(sum(self._comes(name) for name in self.rates if name in units) > 0 or met)

    def _comes(self, name: str) -> bool:
        """Whether it fails this time: at a rate of 0.4 in the third run of five, and in the fifth."""
        due = self.due.get(name, 0.0) + self.rates[name]
        self.due[name] = due % 1.0
        return due >= 1.0

    def keep_good(self, runs: int) -> None:
        """Run the good end."""
        while self.clean < runs:
            if self.clean >= self.good_for:
                raise GoodFailsError
            self.runs, self.clean = self.runs + 1, self.clean + 1

    def blamed(self, units: Collection[str] = UNITS) -> tuple[list[Blame], FailureSearch]:
        """Confirm both ends as the product does, and search."""
        rules, bad = plan.load().failure, list[float]()
        while not bad or not rules.enough(int(sum(bad)), len(bad)):
            bad.append(float(self.run(units) == 1.0))
        self.keep_good(rules.always if all(bad) else len(bad))
        rate = FailureRate((0, self.clean), (int(sum(bad)), len(bad)))
        found = FailureSearch(
            tuple(units), lambda _: frozenset(), rate, self.run, self.keep_good, lambda *_: None,
            lambda names, settled, _: self.told.update({names: settled}), plan.load(),
        )  # fmt: skip
        return found.blame(), found


def proved(found: list[Blame]) -> bool:
    """Whether each is bad alone, and all without them is good."""
    return all(one.alone is SetWord.BAD for one in found) and found[-1].without is SetWord.GOOD


@pytest.mark.parametrize(
    "rates",
    [{"B": 1.0, "D": 0.3}, {"D": 1.0, "B": 0.3}, {"A": 1.0, "E": 0.5}, {"E": 1.0, "A": 0.125}, {"B": 0.75, "D": 0.2}],
)
def test_a_rarer_culprit_behind_one_that_fails_more_is_named_too(rates: dict[str, float]) -> None:
    found, search = World(rates).blamed()
    assert {unit for one in found for unit in one.units} == set(rates) and proved(found)
    failed, runs = search.counts(found[0].left)
    assert found[0].without is SetWord.BAD and 0 < failed < runs


def test_one_culprit_that_always_fails_costs_a_proof_of_ten_clean_runs() -> None:
    world = World({"B": 1.0})
    (blame,), search = world.blamed()
    assert blame.proved and blame.left == ("A", "D", "E") and search.counts(blame.left) == (0, 10) and world.runs < 30


def test_a_pair_that_must_meet_stays_a_pair() -> None:
    (blame,), _ = World({}, meeting="BE").blamed()
    assert set(blame.units) == {"B", "E"} and blame.proved


def test_what_fails_too_seldom_to_be_searched_is_told_and_nothing_is_proved() -> None:
    world = World({"B": 1.0})
    turns = iter([1.0, *[0.0] * 100])
    plain = world.run

    def run(units: Collection[str], _: int = 0) -> float | NoAnswer:
        return next(turns) if set(units) == {"A", "D", "E"} else plain(units)

    world.run = run  # type: ignore[method-assign]
    found, search = world.blamed()
    assert [one.units for one in found] == [("B",)] and found[0].without is SetWord.BAD
    assert search.counts(found[0].left) == (1, 40) and world.clean == 40


def test_a_good_end_that_fails_itself_ends_it() -> None:
    world = World({"B": 1.0, "D": 0.3}, good_for=5)
    with pytest.raises(GoodFailsError):
        world.blamed()


def test_a_proof_that_says_nothing_is_no_proof() -> None:
    (blame,), _ = World({"B": 1.0}, mute="ADE").blamed()
    assert (blame.alone, blame.without) == (SetWord.BAD, SetWord.UNRESOLVED)
