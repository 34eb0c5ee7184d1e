"""Candidates as programs that end well or badly, one side at a time: both ends are confirmed, then each run tells of one.

A run that ends in another way than the bad end does (a signal, a hang) says nothing of what is searched for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stackproof.api.base import Refusal, counted
from stackproof.api.environment import Say
from stackproof.api.gate import SideSpec
from stackproof.api.record import slug
from stackproof.extras.bisect import plan
from stackproof.extras.bisect.attempts import GOOD, NOTHING, REFUSED, Attempt, ProgramEnd
from stackproof.extras.bisect.duels import Build, NotReproducedError
from stackproof.extras.bisect.evidence import FailureRate, NoAnswer, Weigher, below
from stackproof.extras.bisect.journal import Journal, Told
from stackproof.extras.bisect.symptoms import CannotSayError, GoodTurnedBadError

_MUTE = (NOTHING, REFUSED)


@dataclass
class Programs:
    """Runs of one bisection, one side at a time; `minutes` bounds the confirmation."""

    good: SideSpec
    bad: SideSpec
    attempt: Attempt
    what: str
    journal: Journal
    folder: Path
    say: Say
    fresh: Callable[[SideSpec], SideSpec] = lambda side: side
    minutes: float = 10.0
    word: str = ""
    """How the bad end ends."""
    reason: str = ""
    rate: tuple[int, int] = (0, 0)
    """Of the bad end: how often it failed, of how many runs."""
    clean: int = 0
    """Runs of the good end, of which none failed."""

    def confirm(self) -> None:
        """Run both ends until it is known that the good one does not fail, and how often the bad one does.

        Raises:
            NotReproducedError: the bad end does not fail.
            GoodTurnedBadError: the good end fails.
            CannotSayError: no run of an end could be judged.
        """
        rules, until = plan.load().failure, time.monotonic() + 60 * self.minutes
        self._still_good(1, until)
        failed = runs = 0
        while not runs or not rules.enough(failed, runs, time.monotonic() > until):
            self.say(f"does the bad side always fail? it failed in {failed} of {counted(runs, 'run')} until now")
            failed += self._fails(self._judged("bad", self.bad, runs, self.word))
            runs += 1
        if not failed:
            raise NotReproducedError(
                f"'{self.what}' does not fail in {counted(runs, 'run')} of the bad side: a failure in {below(runs):.0%} of them or more "
                f"would have shown (95 % sure); the last one {self.reason}"
            )
        self.rate = (failed, runs)
        self._still_good(rules.always if failed == runs else runs, until)

    def _fails(self, ended: ProgramEnd) -> bool:
        if ended.word == GOOD:
            self.reason = self.reason if self.word else ended.reason
            return False
        if not self.word:
            self.word, self.reason = ended.word, ended.reason
        return True

    def _judged(self, name: str, side: SideSpec, number: int, before: str = "") -> ProgramEnd:
        """Run an end until that says something: good, or bad as it was `before`."""
        least = plan.load().failure.least
        ended = ProgramEnd(NOTHING, "")
        for again in range(least):
            ended = self._ended(f"{name} {number}" + (f" again {again}" if again else ""), lambda: side)
            if ended.word in (GOOD, before) or not (before or ended.word in _MUTE):
                return ended
        if name == "good" and ended.word == REFUSED:
            raise Refusal(f"the good side refuses it: {ended.reason}")
        raise CannotSayError(
            f"no run of the {name} side could be judged: {least} one after the other said nothing of '{self.what}'; the last one: "
            f"{ended.reason}"
        )

    def _still_good(self, runs: int, until: float) -> None:
        """Run the good end until there are so many clean runs of it."""
        least = plan.load().failure.least
        while self.clean < runs and not (self.clean >= least and time.monotonic() > until):
            self.say(f"is the good side good? it was in {counted(self.clean, 'run')} until now")
            ended = self._judged("good", self.good, self.clean)
            if ended.word != GOOD:
                raise GoodTurnedBadError(f"the good side {ended.word}: {ended.reason}")
            self.clean += 1

    def keep_good(self, runs: int) -> None:
        """Run the good end until it was clean so often.

        Raises:
            GoodTurnedBadError: it fails.
        """
        self._still_good(runs, math.inf)

    def recheck(self) -> None:
        """Run the good side once more, now that all is known: if it fails, nothing can be blamed on the change."""
        self.say("is the good side still good?")
        ended = self.attempt(self.fresh(self.good), self.folder / "good-at-the-end")
        if ended.word not in (GOOD, *_MUTE):
            raise GoodTurnedBadError(f"the good side fails now too: {ended.reason}")

    def weigher(self) -> Weigher:
        """Return how runs of a candidate are weighed."""
        return FailureRate((0, self.clean), self.rate)

    def duel(self, key: str, build: Build, _: int) -> float | NoAnswer:
        """Run a candidate once, and return whether it fails as the bad end does."""
        ended = self._ended(key, build)
        if ended.word in (GOOD, self.word):
            return float(ended.word != GOOD)
        return NoAnswer(ended.reason if ended.word in _MUTE else f"{ended.word}, and not {self.word}: {ended.reason}")

    def _ended(self, key: str, build: Build) -> ProgramEnd:
        def run() -> Told:
            side = build()
            if isinstance(side, NoAnswer):
                return {"word": NOTHING, "reason": side.reason}
            ended = self.attempt(self.fresh(side), self.folder / slug(key))
            return {"word": ended.word, "reason": ended.reason}

        told = self.journal.once(key, run)
        return ProgramEnd(str(told["word"]), str(told["reason"]))
