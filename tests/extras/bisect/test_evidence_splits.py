"""The search among changes: a culprit, two of them, two that must meet, what cannot be built, and what needs what."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stackproof.extras.bisect.evidence import Blame, SetWord, Splitting, needed

BAD, GOOD, UNRESOLVED = SetWord.BAD, SetWord.GOOD, SetWord.UNRESOLVED
UNITS = [f"u{number}" for number in range(12)]


def world(is_bad: Callable[[frozenset[str]], bool], asked: list[frozenset[str]]) -> Callable[[frozenset[str]], SetWord]:
    """Return a test that tells the truth and keeps what it was asked."""

    def test(units: frozenset[str]) -> SetWord:
        asked.append(units)
        return BAD if is_bad(units) else GOOD

    return test


@pytest.mark.parametrize("culprit", UNITS)
def test_one_culprit_is_found_by_halves_and_proved(culprit: str) -> None:
    asked: list[frozenset[str]] = []
    (found,) = Splitting(UNITS, world(lambda units: culprit in units, asked)).blame()
    assert found == Blame((culprit,), BAD, GOOD) and found.proved
    assert len(asked) <= 6 and len(set(asked)) == len(asked)


def test_two_culprits_are_both_named() -> None:
    found = Splitting(UNITS, world(lambda units: bool({"u2", "u9"} & units), [])).blame()
    assert [one.units for one in found] == [("u2",), ("u9",)]
    assert [one.without for one in found] == [BAD, GOOD]


@pytest.mark.parametrize("count", [2, 3])
def test_changes_that_must_meet_are_found_together(count: int) -> None:
    units = [f"u{number}" for number in range(40)]
    for seed in range(50):
        asked: list[frozenset[str]] = []
        pair = frozenset(random.Random(seed).sample(units, count))
        (found,) = Splitting(units, world(pair.issubset, asked)).blame()
        assert set(found.units) == pair and found.proved
        assert len(asked) < 15 * count


def test_a_set_that_cannot_be_built_is_stepped_over() -> None:
    def test(units: frozenset[str]) -> SetWord:
        if len({"u5", "u6"} & units) == 1:
            return UNRESOLVED
        return BAD if "u9" in units else GOOD

    (found,) = Splitting(UNITS, test).blame()
    assert found.units == ("u9",) and found.proved


def test_a_culprit_that_runs_only_with_another_is_named_with_it() -> None:
    def test(units: frozenset[str]) -> SetWord:
        if len({"u5", "u6"} & units) == 1:
            return UNRESOLVED
        return BAD if "u6" in units else GOOD

    (found,) = Splitting(UNITS, test).blame()
    assert set(found.units) == {"u5", "u6"} and found.proved


def test_what_a_change_needs_is_moved_with_it() -> None:
    asked: list[frozenset[str]] = []
    needs = {"u7": frozenset({"u3"})}
    splitting = Splitting(UNITS, world(lambda units: "u7" in units, asked), lambda unit: needs.get(unit, frozenset()))
    (found,) = splitting.blame()
    assert found.units == ("u7",) and found.proved
    assert all("u3" in units for units in asked if "u7" in units)


def test_a_culprit_that_others_need_is_taken_back_with_them() -> None:
    asked: list[frozenset[str]] = []
    needs = {"u7": frozenset({"u3"})}
    splitting = Splitting(UNITS, world(lambda units: "u3" in units, asked), lambda unit: needs.get(unit, frozenset()))
    assert splitting.blame()[0].units == ("u3",)
    assert frozenset(UNITS) - {"u3", "u7"} in asked


def test_what_hides_another_change_is_no_reason_to_blame_wrongly() -> None:
    def is_bad(units: frozenset[str]) -> bool:
        return "u1" in units and ("u8" not in units or "u10" in units)

    for one in Splitting(UNITS, world(is_bad, [])).blame():
        assert is_bad(frozenset(one.units)) and one.alone is BAD


@pytest.mark.parametrize("seed", range(20))
def test_what_is_needed_leaves_nothing_that_can_be_left_out(seed: int) -> None:
    dice = random.Random(seed)
    triple, lame = frozenset(dice.sample(UNITS, 3)), frozenset(dice.sample(UNITS, 2))

    def ask(units: object) -> SetWord:
        whole = frozenset(units)  # type: ignore[call-overload]
        return UNRESOLVED if len(lame & whole) == 1 else BAD if triple <= whole else GOOD

    found = needed(UNITS, ask)
    assert triple <= set(found) and ask(found) is BAD
    assert all(ask([unit for unit in found if unit != one]) is not BAD for one in found)
