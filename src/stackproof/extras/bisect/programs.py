"""Candidates as programs that end well or badly, one side at a time: a check of a suite, or a command of the user's own.

A run of a command means what `git bisect run` takes it for: 0 is good, 125 says nothing, any other code is bad. A run that ends in
another way than the bad end does (a signal, a hang) says nothing of what is searched for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.api.base import Refusal, processes, text
from stackproof.api.environment import environments
from stackproof.api.gate import interleave
from stackproof.api.record import Verdict, reading, resume, store
from stackproof.extras.bisect import evidence
from stackproof.extras.bisect.duels import Build, CannotSayError, GoodTurnedBadError, NotReproducedError
from stackproof.extras.bisect.evidence import Exact, FailureRate, NoAnswer, Weigher, below
from stackproof.extras.verbs import StageOutcome

_LOG, _WIDTH = "output.log", 400
SKIPS = 125
"""The exit code with which a command says that a candidate cannot be tested."""
_BAD = (Verdict.FAILED, Verdict.CRASHED, Verdict.HUNG)
_TELLING = (Verdict.PASSED, *_BAD)
"""Any other verdict says nothing of a candidate; `UNAVAILABLE` is a refusal."""


Attempt = Callable[[interleave.SideSpec, Path], StageOutcome]
"""A program that tells good from bad: called with a side and a folder for its output."""


def own_command(typed: Sequence[str], seconds: float, side: interleave.SideSpec, folder: Path) -> StageOutcome:
    """Run a command in the side's checkout, or where one stands; the programs of its environment come first. `seconds`: when it hangs."""
    ended = side.run(typed, side.folder or Path.cwd(), folder / _LOG, seconds)
    reason = f"{ended.words}; it printed last: {_last_words(folder)}"
    if ended.hung:
        return StageOutcome(Verdict.HUNG, reason)
    if ended.status in (0, SKIPS):
        return StageOutcome(Verdict.SKIPPED if ended.status else Verdict.PASSED, reason)
    return StageOutcome(Verdict.CRASHED if ended.status < 0 else Verdict.FAILED, reason)


def suite_check(
    name: str, seconds: float, flags: Sequence[str], side: interleave.SideSpec, folder: Path
) -> StageOutcome:
    """Run the verb that runs one check of a suite and nothing else, and read its record."""
    record, verb = folder / "record.json", "rehearse" if side.rehearsed else "verify"
    words = [str(side.python), "-m", "stackproof", verb, "--stack", side.stack]
    words += ["--suite", name.partition("/")[0], "--only", name, *flags]
    words += ["--json", str(record), "--results", str(folder / "results")]
    ended = side.run(words, folder, folder / _LOG, seconds)
    if ended.hung:
        return StageOutcome(Verdict.HUNG, f"'{name}' did not end within {seconds:.0f} s")
    if ended.status == Refusal.exit_code and not record.exists():
        return StageOutcome(Verdict.UNAVAILABLE, _last_words(folder))
    try:
        check = next((check for check in reading.read(record).checks if check.id == name), None)
    except Refusal:
        return StageOutcome(Verdict.SKIPPED, f"'{name}' did not run: {_last_words(folder)}")
    if check is None or not check.verdict.executed:
        why = check.reason if check else "its record has no such check"
        return StageOutcome(Verdict.SKIPPED, f"'{name}' did not run: {why}")
    verdict = Verdict.PASSED if check.verdict is Verdict.KNOWN_ISSUE else check.verdict
    return StageOutcome(verdict if verdict in _TELLING else Verdict.SKIPPED, check.reason)


def _last_words(folder: Path) -> str:
    return text.plain(processes.last_words(folder / _LOG), _WIDTH, lines=False)


@dataclass
class Programs:
    """Runs of one bisection, one side at a time; `minutes` bounds the confirmation."""

    good: interleave.SideSpec
    bad: interleave.SideSpec
    attempt: Attempt
    what: str
    journal: resume.Journal
    folder: Path
    say: environments.Say
    fresh: Callable[[interleave.SideSpec], interleave.SideSpec] = lambda side: side
    minutes: float = 10.0
    always: bool = False
    """Whether one run tells, of an end and of a set."""
    word: Verdict | None = None
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
        rules, until = evidence.rules().failure, time.monotonic() + 60 * self.minutes
        self._still_good(1, until)
        failed = runs = 0
        while not runs or not (self.always or rules.enough(failed, runs, time.monotonic() > until)):
            self.say(f"does the bad side always fail? it failed in {failed} of {text.counted(runs, 'run')} until now")
            ended = self._judged("bad", self.bad, runs, self.word)
            if self.word is None:
                self.reason = ended.reason
                self.word = None if ended.verdict is Verdict.PASSED else ended.verdict
            failed += ended.verdict is not Verdict.PASSED
            runs += 1
        if not failed:
            raise NotReproducedError(
                f"'{self.what}' does not fail in {text.counted(runs, 'run')} of the bad side: a failure in {below(runs):.0%} of them or "
                f"more would have shown (95 % sure); the last one {self.reason}"
            )
        self.rate = (failed, runs)
        if not self.always:
            self._still_good(rules.always if failed == runs else runs, until)

    def _judged(self, name: str, side: interleave.SideSpec, number: int, before: Verdict | None = None) -> StageOutcome:
        least = evidence.rules().failure.least
        ended = StageOutcome(Verdict.SKIPPED, "")
        for again in range(least):
            ended = self._ended(f"{name} {number}" + (f" again {again}" if again else ""), lambda: side)
            if ended.verdict in (Verdict.PASSED, before) or (not before and ended.verdict in _TELLING):
                return ended
        if name == "good" and ended.verdict is Verdict.UNAVAILABLE:
            raise Refusal(f"the good side refuses it: {ended.reason}")
        raise CannotSayError(
            f"no run of the {name} side could be judged: {least} one after the other said nothing of '{self.what}'; the last one: "
            f"{ended.reason}"
        )

    def _still_good(self, runs: int, until: float) -> None:
        least = evidence.rules().failure.least
        while self.clean < runs and not (self.clean >= least and time.monotonic() > until):
            self.say(f"is the good side good? it was in {text.counted(self.clean, 'run')} until now")
            ended = self._judged("good", self.good, self.clean)
            if ended.verdict is not Verdict.PASSED:
                raise GoodTurnedBadError(f"the good side {ended.verdict.value}: {ended.reason}")
            self.clean += 1

    def recheck(self) -> None:
        """Run the good side once more, now that all is known: if it fails, nothing can be blamed on the change."""
        self.say("is the good side still good?")
        ended = self.attempt(self.fresh(self.good), self.folder / "good-at-the-end")
        if ended.verdict in _BAD:
            raise GoodTurnedBadError(f"the good side fails now too: {ended.reason}")

    def weigher(self) -> Weigher:
        """Return how runs of a candidate are weighed."""
        return Exact() if self.always else FailureRate((0, self.clean), self.rate)

    def duel(self, key: str, build: Build, _: int) -> float | NoAnswer:
        """Run a candidate once, and return whether it fails as the bad end does."""
        ended = self._ended(key, build)
        if ended.verdict in (Verdict.PASSED, self.word):
            return float(ended.verdict is not Verdict.PASSED)
        other = f"{ended.verdict.value}, and not {self.word.value if self.word else ''}: {ended.reason}"
        return NoAnswer(other if ended.verdict in _TELLING else ended.reason)

    def _ended(self, key: str, build: Build) -> StageOutcome:
        def run() -> resume.Answer:
            side = build()
            if isinstance(side, NoAnswer):
                return {"word": Verdict.SKIPPED.value, "reason": side.reason}
            ended = self.attempt(self.fresh(side), self.folder / store.slug(key))
            return {"word": ended.verdict.value, "reason": ended.reason}

        return self.journal.once(key, run, lambda row: StageOutcome(Verdict(row["word"]), str(row["reason"])))
