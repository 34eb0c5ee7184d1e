"""Programs as tests of a side: what their exit codes mean, what is no answer, and a good side that fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from stackproof.extras.bisect.duels import CannotSayError, GoodTurnedBadError, NotReproducedError
from stackproof.extras.bisect.evidence import FailureRate, NoAnswer, bound
from stackproof.extras.bisect.programs import Attempt, Programs, own_command
from stackproof.extras.verbs import StageOutcome
from stackproof.gate.interleave import SideSpec
from stackproof.record.records import Verdict
from stackproof.record.resume import Journal

_TELLS = "import os, sys, time; code = os.environ['CODE']; time.sleep(30) if code == 'hang' else None; "
_TELLS += "os.abort() if code == 'abort' else sys.exit(int(code))"


def side(code: str) -> SideSpec:
    """Return a side on which the command ends with a code."""
    return SideSpec("head", Path(sys.executable), Path(), {"CODE": code}, "cpu", False, "fast", "")


@pytest.mark.parametrize(
    ("code", "word"),
    [("0", "passed"), ("1", "failed"), ("124", "failed"), ("125", "skipped"), ("abort", "crashed"), ("hang", "hung")],
)
def test_exit_codes_mean_what_git_takes_them_for(tmp_path: Path, code: str, word: str) -> None:
    ended = own_command([sys.executable, "-c", _TELLS], 1.0 if code == "hang" else 20.0, side(code), tmp_path)
    assert ended.verdict.value == word and "it printed last" in ended.reason


def test_what_a_program_printed_last_is_said(tmp_path: Path) -> None:
    silent = own_command([sys.executable, "-c", _TELLS], 20.0, side("1"), tmp_path)
    assert silent.reason.endswith("it printed last: nothing")
    hung = own_command([sys.executable, "-c", _TELLS], 1.0, side("hang"), tmp_path)
    assert "had not ended after 1 s" in hung.reason and 'File "<string>"' in hung.reason


@dataclass
class Script:
    """Ends as a function of the side's code says."""

    tell: Callable[[str], str]

    def __call__(self, side: SideSpec, folder: Path) -> StageOutcome:
        """Ask it."""
        return StageOutcome(Verdict(self.tell(side.environment["CODE"])), "so it is")


def scripted(tmp_path: Path, tell: Callable[[str], str], what: str = "it") -> Programs:
    """Return programs whose runs end as a function of the side's code says."""
    return Programs(
        side("good"),
        side("bad"),
        cast(Attempt, Script(tell)),
        what,
        Journal(tmp_path / "j.jsonl", "bisect", {}),
        tmp_path,
        lambda _: None,
    )


def test_a_bad_end_that_always_fails_is_taken_for_that(tmp_path: Path) -> None:
    found = scripted(tmp_path, {"good": "passed", "bad": "failed", "hang": "hung", "none": "skipped"}.__getitem__)
    found.confirm()
    weigher = found.weigher()
    assert found.rate == (5, 5) and found.clean == 5 and isinstance(weigher, FailureRate)
    assert weigher.weigh([0.0, 0.0]) < -bound(0.05, 6) and weigher.weigh([1.0, 1.0]) > bound(0.05, 6)
    told = {code: found.duel(code, lambda code=code: side(code), 0) for code in ("good", "bad", "hang", "none")}  # type: ignore[misc]
    assert told["good"] == 0.0 and told["bad"] == 1.0
    assert told["hang"] == NoAnswer("hung, and not failed: so it is") and told["none"] == NoAnswer("so it is")
    assert found.duel("unbuilt", lambda: NoAnswer("no wheel"), 0) == NoAnswer("no wheel")


def test_where_it_always_fails_one_run_tells(tmp_path: Path) -> None:
    found = scripted(tmp_path, {"good": "passed", "bad": "failed"}.__getitem__)
    found.always = True
    found.confirm()
    assert found.rate == (1, 1) and found.clean == 1
    assert found.weigher().weigh([0.0]) < -bound(0.05, 6) and found.weigher().weigh([1.0]) > bound(0.05, 6)


def test_a_failure_that_comes_and_goes_is_learnt_as_a_rate(tmp_path: Path) -> None:
    turns = iter(range(100))
    found = scripted(tmp_path, lambda code: "failed" if code == "bad" and next(turns) % 2 == 0 else "passed")
    found.confirm()
    assert found.weigher() == FailureRate((0, 15), (8, 15))


def test_a_bad_end_that_does_not_fail_is_not_reproduced(tmp_path: Path) -> None:
    with pytest.raises(
        NotReproducedError, match=r"'it' does not fail in 20 runs .* a failure in 14% of them or more would have shown"
    ):
        scripted(tmp_path, lambda _: "passed").confirm()


def test_a_good_end_that_fails_ends_it_at_once_and_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(GoodTurnedBadError, match="good side failed"):
        scripted(tmp_path / "first", lambda _: "failed").confirm()
    words = {"good": "passed", "bad": "failed"}
    found = scripted(tmp_path / "second", lambda code: words[code])
    found.confirm()
    words["good"] = "failed"
    with pytest.raises(GoodTurnedBadError, match="fails now too"):
        found.recheck()


@pytest.mark.parametrize("side", ["good", "bad"])
def test_an_end_that_says_nothing_leaves_nothing_to_say(tmp_path: Path, side: str) -> None:
    with pytest.raises(CannotSayError, match=f"no run of the {side} side could be judged: 3 one after the other"):
        scripted(tmp_path, lambda code: "skipped" if code == side else "passed").confirm()


def test_an_end_that_says_nothing_now_and_then_is_asked_again(tmp_path: Path) -> None:
    turns = iter(range(1000))
    found = scripted(
        tmp_path, lambda code: "skipped" if next(turns) % 3 == 0 else {"good": "passed", "bad": "failed"}[code]
    )
    found.confirm()
    assert found.rate == (5, 5) and found.clean == 5


def test_minutes_that_are_over_end_the_confirmation(tmp_path: Path) -> None:
    found = scripted(tmp_path, {"good": "passed", "bad": "failed"}.__getitem__)
    found.minutes = 0.0
    found.confirm()
    assert found.rate == (3, 3) and found.clean == 3


def test_what_is_known_is_not_run_again(tmp_path: Path) -> None:
    scripted(tmp_path, {"good": "passed", "bad": "failed"}.__getitem__).confirm()
    again = scripted(tmp_path, lambda _: (_ for _ in ()).throw(AssertionError("it was run")))
    again.confirm()
    assert again.rate == (5, 5) and again.word is Verdict.FAILED
