"""Programs as tests of a side: what their exit codes mean, what is no answer, and a good side that fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.bisect.duels import NotReproducedError
from stackproof.bisect.evidence import Exact, FailureRate, NoAnswer
from stackproof.bisect.journal import Journal
from stackproof.bisect.programs import Attempt, ProgramEnd, Programs, of_command
from stackproof.bisect.symptoms import GoodTurnedBadError
from stackproof.gate.live import SideSpec

_TELLS = "import os, sys, time; code = os.environ['CODE']; time.sleep(30) if code == 'hang' else None; "
_TELLS += "os.abort() if code == 'abort' else sys.exit(int(code))"


def side(code: str) -> SideSpec:
    """Return a side on which the command ends with a code."""
    return SideSpec("head", Path(sys.executable), Path(), {"CODE": code}, "cpu", False, "fast", "")


@pytest.mark.parametrize(
    ("code", "word"),
    [("0", "good"), ("1", "failed"), ("124", "failed"), ("125", "nothing"), ("abort", "crashed"), ("hang", "hung")],
)
def test_exit_codes_mean_what_git_takes_them_for(tmp_path: Path, code: str, word: str) -> None:
    """A signal and a hang have words of their own, because they may be another trouble."""
    ended = of_command([sys.executable, "-c", _TELLS], 1.0 if code == "hang" else 20.0)(side(code), tmp_path)
    assert ended.word == word and "it printed last" in ended.reason


def scripted(tmp_path: Path, tell: Callable[[str], str], what: str = "it") -> Programs:
    """Return programs whose runs end as a function of the side's code says."""

    def attempt(one: SideSpec, _: Path) -> ProgramEnd:
        return ProgramEnd(tell(one.environment["CODE"]), "so it is")

    chosen: Attempt = attempt
    return Programs(
        side("good"), side("bad"), chosen, what, Journal(tmp_path / "j.jsonl", {}), tmp_path, lambda _: None
    )


def test_a_bad_end_that_always_fails_is_exact(tmp_path: Path) -> None:
    """Candidates fail alike, pass, or say nothing."""
    found = scripted(tmp_path, {"good": "good", "bad": "failed", "hang": "hung", "none": "nothing"}.__getitem__)
    found.confirm()
    assert found.rate == (3, 3) and found.weigher() == Exact()
    told = {code: found.duel(code, lambda code=code: side(code), 0) for code in ("good", "bad", "hang", "none")}  # type: ignore[misc]
    assert told["good"] == 0.0 and told["bad"] == 1.0
    assert told["hang"] == NoAnswer("hung, and not failed: so it is") and told["none"] == NoAnswer("so it is")
    assert found.duel("unbuilt", lambda: NoAnswer("no wheel"), 0) == NoAnswer("no wheel")


def test_a_failure_that_comes_and_goes_is_learnt_as_a_rate(tmp_path: Path) -> None:
    """Every second run of the bad end fails: eight runs of either end tell the rates."""
    turns = iter(range(100))
    found = scripted(tmp_path, lambda code: "failed" if code == "bad" and next(turns) % 2 == 0 else "good")
    found.confirm()
    assert found.weigher() == FailureRate((0, 8), (4, 8))


def test_a_bad_end_that_does_not_fail_is_not_reproduced(tmp_path: Path) -> None:
    """Three runs, and a sentence."""
    with pytest.raises(NotReproducedError, match="'it' does not fail in 3 runs"):
        scripted(tmp_path, lambda _: "good").confirm()


def test_a_good_end_that_fails_ends_it_at_once_and_at_the_end(tmp_path: Path) -> None:
    """It may turn bad while others are tested."""
    with pytest.raises(GoodTurnedBadError, match="good side failed"):
        scripted(tmp_path / "first", lambda _: "failed").confirm()
    words = {"good": "good", "bad": "failed"}
    found = scripted(tmp_path / "second", lambda code: words[code])
    found.confirm()
    words["good"] = "failed"
    with pytest.raises(GoodTurnedBadError, match="fails now too"):
        found.recheck()


def test_a_side_that_cannot_be_tested_is_said(tmp_path: Path) -> None:
    """The good end says nothing."""
    with pytest.raises(NotReproducedError, match="good side cannot be tested"):
        scripted(tmp_path, lambda _: "nothing").confirm()


def test_what_is_known_is_not_run_again(tmp_path: Path) -> None:
    """A second search reads the journal."""
    scripted(tmp_path, {"good": "good", "bad": "failed"}.__getitem__).confirm()
    again = scripted(tmp_path, lambda _: (_ for _ in ()).throw(AssertionError("it was run")))
    again.confirm()
    assert again.rate == (3, 3) and replace(again).word == "failed"
