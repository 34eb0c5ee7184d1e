"""Live sides that take no time: both ends are confirmed, candidates are read beside the good side, and a good side that fails ends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.bisect.duels import CannotSayError, Duels, GoodTurnedBadError, NotReproducedError, SymptomKind
from stackproof.extras.bisect.evidence import FailureRate, NoAnswer, Slowdown
from stackproof.gate import plan
from stackproof.gate.gate import Comparison
from stackproof.gate.interleave import SideSpec
from stackproof.gate.variants import CompareRequest
from stackproof.record.resume import Journal
from tests.gate.sham import spec

QUICK = replace(plan.load(), design=replace(plan.load().design, rounds=2))


def duels(tmp_path: Path, good: SideSpec, bad: SideSpec) -> Duels:
    """Return the duels of two sham sides."""
    comparison = Comparison(CompareRequest(minutes=5.0), (good, bad), "tiny", "cpu", QUICK)
    return Duels(comparison, Journal(tmp_path / "journal.jsonl", "bisect", {}), tmp_path / "sides", lambda _: None)


def side(tmp_path: Path, name: str, speed: str = "", what: str = "") -> SideSpec:
    """Return a side of a name that is as fast as another: `base` or `head`, which takes twice as long."""
    found = spec(tmp_path, name, what)
    return replace(found, environment={**found.environment, "SHAM_SIDE": speed or name})


@pytest.mark.slow
def test_a_slower_end_is_confirmed_and_candidates_are_read(tmp_path: Path) -> None:
    found = duels(tmp_path, side(tmp_path, "base"), side(tmp_path, "head"))
    symptom = found.confirm("one::time")
    assert symptom.kind is SymptomKind.SLOWER and symptom.centre == pytest.approx(0.693, abs=0.01)
    assert isinstance(found.weigher(), Slowdown)
    bad, good = side(tmp_path, "head"), side(tmp_path, "head", "base")
    assert found.duel("set bad 0", lambda: bad, 0) == pytest.approx(0.693, abs=0.01)
    assert found.duel("set good 0", lambda: good, 0) == pytest.approx(0.0)
    again = duels(tmp_path, side(tmp_path, "base", what="refuse"), side(tmp_path, "head"))
    assert again.confirm("one::time") == symptom  # nothing is started
    assert again.duel("set good 0", lambda: NoAnswer("not built"), 0) == pytest.approx(0.0)


@pytest.mark.parametrize(("what", "word"), [("crash", "crashed"), ("wrong", "failed")])
@pytest.mark.slow
def test_an_end_that_ends_badly_is_exact(tmp_path: Path, what: str, word: str) -> None:
    found = duels(tmp_path, side(tmp_path, "base"), side(tmp_path, "head", what=what))
    symptom = found.confirm("one")
    assert symptom.kind is SymptomKind.ENDED and symptom.verdict is not None and symptom.verdict.value == word
    assert found.rate == (5, 5) and found.weigher() == FailureRate((0, 5), (5, 5))
    assert found.duel("clean", lambda: side(tmp_path, "head"), 0) == 0.0
    other = "wrong" if what == "crash" else "crash"
    assert isinstance(found.duel("other", lambda: side(tmp_path, "head", what=other), 0), NoAnswer)
    assert found.duel("not built", lambda: NoAnswer("no wheel"), 0) == NoAnswer("no wheel")


@pytest.mark.slow
def test_equal_ends_are_not_reproduced(tmp_path: Path) -> None:
    with pytest.raises(NotReproducedError, match="alike in 6 runs: one time SAME"):
        duels(tmp_path, side(tmp_path, "base"), side(tmp_path, "head", "base")).confirm("one")


@pytest.mark.slow
def test_too_few_launches_do_not_say_that_ends_are_alike(tmp_path: Path) -> None:
    found = duels(tmp_path, side(tmp_path, "base"), side(tmp_path, "head", "base"))
    found.until = 0.0
    with pytest.raises(
        CannotSayError, match="cannot be told apart in 1 run, .* too few to judge; give it more --minutes"
    ):
        found.confirm("one")


@pytest.mark.slow
def test_ends_that_are_swapped_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotReproducedError, match="swapped"):
        duels(tmp_path, side(tmp_path, "base", "head"), side(tmp_path, "head", "base")).confirm("one")


@pytest.mark.parametrize("what", ["wrong", "refuse"])
def test_a_good_side_that_fails_ends_it(tmp_path: Path, what: str) -> None:
    with pytest.raises(GoodTurnedBadError, match="good side"):
        duels(tmp_path, side(tmp_path, "base", what=what), side(tmp_path, "head")).confirm("one")


def test_a_bad_side_that_does_not_come_up_is_a_symptom(tmp_path: Path) -> None:
    found = duels(tmp_path, side(tmp_path, "base"), side(tmp_path, "head", what="refuse"))
    assert found.confirm("").name == "process::start-up"
    assert found.duel("up", lambda: side(tmp_path, "head"), 0) == 0.0
    assert found.duel("down", lambda: side(tmp_path, "head", what="refuse"), 0) == 1.0


def test_an_unknown_subject_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no subject"):
        duels(tmp_path, side(tmp_path, "base"), side(tmp_path, "head")).confirm("three")
