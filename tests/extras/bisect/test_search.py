"""The search on top of an instrument that tells the truth: units, tests, commits, and what is said meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from stackproof.extras.bisect.duels import Build
from stackproof.extras.bisect.endpoints import ChangeKind, ChangeUnit, OneChange
from stackproof.extras.bisect.evidence import Exact, FailureRate, NoAnswer, SetWord, Weigher
from stackproof.extras.bisect.search import Bisection, Workshop
from stackproof.gate.interleave import SideSpec

LINE = [f"{number:040x}" for number in range(1, 11)]


class Workbench:
    """Builds candidates of names alone; a commit in `broken` cannot be built."""

    def __init__(self, broken: tuple[str, ...] = ()) -> None:
        self.broken = broken

    def candidate(self, name: str, moved: list[OneChange], commit: str = "") -> SideSpec | NoAnswer:
        """Return a side whose environment says what was moved."""
        if commit in self.broken:
            return NoAnswer("cannot be built")
        told = {"MOVED": ",".join(sorted(atom.name for atom in moved)), "COMMIT": commit}
        return SideSpec(name, Path(), Path(), told, "cpu", False, "fast", "")

    def sweep_caches(self) -> None:
        """Nothing was kept."""


class Truth:
    """Says bad where all of some names were moved, from a commit of the line on where there is one."""

    def __init__(self, culprits: set[str], first: str = "") -> None:
        self.culprits, self.first, self.keys = culprits, first, list[str]()

    def weigher(self) -> Weigher:
        """One run tells."""
        return Exact()

    def duel(self, key: str, build: Build, _: int) -> float | NoAnswer:
        """Build, and look at what was moved."""
        self.keys.append(key)
        side = build()
        if isinstance(side, NoAnswer):
            return side
        moved = set(side.environment["MOVED"].split(","))
        if commit := side.environment["COMMIT"]:
            return float(commit >= self.first and self.culprits - {"commits"} <= moved)
        return float(self.culprits <= moved)


def bisection(truth: Truth, broken: tuple[str, ...] = (), count: int = 6) -> tuple[Bisection, list[str]]:
    """Return a search among packages, a variable and commits, and what it says."""
    atoms = [OneChange(ChangeKind.PACKAGE, f"p{number}", "1", "2") for number in range(count)]
    atoms += [
        OneChange(ChangeKind.VARIABLE, "V", "0", "1"),
        OneChange(ChangeKind.COMMITS, "commits", "a" * 40, LINE[-1]),
    ]
    units = [ChangeUnit(atom.name, (atom,)) for atom in atoms]
    said: list[str] = []
    return Bisection(cast(Workshop, Workbench(broken)), cast(Any, truth), units, [1.0], said.append), said


@pytest.mark.parametrize("culprits", [{"p3"}, {"V"}, {"p1", "V"}])
def test_a_package_a_variable_and_a_pair_are_found(culprits: set[str]) -> None:
    found, said = bisection(Truth(culprits))
    (blame,) = found.blame()
    assert set(blame.units) == culprits and blame.proved
    assert {one.units for one in found.tests} >= {frozenset(culprits)}
    assert said[0].startswith("test 1: 4 of 8 changes (p0, p1, p2, ...); 8 suspects, 5 tests or so to go")


@pytest.mark.parametrize("first", range(10))
def test_inside_the_commits_the_first_bad_one_is_named(first: int) -> None:
    truth = Truth({"commits"}, LINE[first])
    found, _ = bisection(truth)
    (blame,) = found.blame()
    guilty = found.commits(blame, LINE)
    assert blame.units == ("commits",) and guilty.names == (LINE[first],) and guilty.launches <= 5


def test_a_commit_that_does_not_build_is_stepped_over() -> None:
    found, _ = bisection(Truth({"commits"}, LINE[5]), broken=(LINE[4], LINE[2]))
    guilty = found.commits(found.blame()[0], LINE)
    assert guilty.names == (LINE[4], LINE[5]) and guilty.unresolved[LINE[4]] == "cannot be built"


def test_commits_are_searched_with_what_they_must_meet_in_place() -> None:
    found, _ = bisection(Truth({"commits", "V"}, LINE[7]))
    (blame,) = found.blame()
    assert set(blame.units) == {"commits", "V"}
    assert found.commits(blame, LINE).names == (LINE[7],)


@pytest.mark.parametrize(("fails_at", "without"), [(None, SetWord.GOOD), (6, SetWord.BAD)])
def test_what_is_left_is_run_until_a_rarer_failure_would_have_shown(fails_at: int | None, without: SetWord) -> None:
    class Failing(Truth):
        def weigher(self) -> Weigher:
            return FailureRate((0, 5), (5, 5))

        def duel(self, key: str, build: Build, number: int) -> float | NoAnswer:
            side = build()
            rest = isinstance(side, SideSpec) and "V" not in side.environment["MOVED"]
            return 1.0 if rest and number == fails_at else super().duel(key, build, number)

    found, _ = bisection(Failing({"V"}), count=1)
    (blame,) = found.blame()
    assert (blame.units, blame.alone, blame.without) == (("V",), SetWord.BAD, without)
    assert found.failed(blame.left) == (fails_at is not None, 10) and found.failed(blame.units) == (2, 2)


def test_equal_searches_ask_under_equal_keys() -> None:
    keys = []
    for _ in range(2):
        truth = Truth({"p2"})
        bisection(truth)[0].blame()
        keys.append(truth.keys)
    assert keys[0] == keys[1] and len(set(keys[0])) == len(keys[0])


def test_a_set_that_was_not_tested_has_no_row() -> None:
    found, _ = bisection(Truth({"p0"}))
    assert found.of([unit.name for unit in found.units]) is None
    assert found.blame()[0].units == ("p0",)
    assert (row := found.of(["p0"])) is not None and row.seen == (1.0,)
