"""Candidates as programs that end well or badly: a check of a suite, or any command, in the candidate's own environment.

A run of a command means what `git bisect run` takes it for: 0 is good, 125 says nothing, any other code is bad. A run that ends
in another way than the bad end does (a signal, a hang) says nothing of what is searched for.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.bisect import plan
from stackproof.bisect.duels import Build, NotReproducedError
from stackproof.bisect.evidence import Exact, FailureRate, NoAnswer, Weigher
from stackproof.bisect.journal import Journal, Told
from stackproof.bisect.symptoms import GoodTurnedBadError
from stackproof.gate.live import SideSpec
from stackproof.record import records
from stackproof.record.records import NOT_EXECUTED, Verdict
from stackproof.record.store import slug
from stackproof.stack.environments import Say

SKIPS = 125
"""The exit code with which a command says that a candidate cannot be tested."""
_NOTHING = "nothing"
_GOOD = "good"
_BAD_WORDS = {Verdict.FAILED: "failed", Verdict.CRASHED: "crashed", Verdict.HUNG: "hung"}


@dataclass(frozen=True)
class ProgramEnd:
    """How a run ended: in one word, and in a sentence."""

    word: str
    reason: str


Attempt = Callable[[SideSpec, Path], ProgramEnd]


def of_command(words: Sequence[str], seconds: float) -> Attempt:
    """Return what runs a command on a side, where its environment's programs come first."""

    def attempt(side: SideSpec, folder: Path) -> ProgramEnd:
        status = _run(list(words), side, folder, seconds, Path.cwd())
        said = " / ".join(plain(line, lines=False) for line in processes.last_lines(folder / "output.log", 2))
        if status is None:
            return ProgramEnd("hung", f"did not end within {seconds:.0f} s; it printed last: {said}")
        reason = f"ended with {processes.describe_exit(status)}; it printed last: {said or 'nothing'}"
        if status in (0, SKIPS):
            return ProgramEnd(_NOTHING if status else _GOOD, reason)
        return ProgramEnd("crashed" if status < 0 else "failed", reason)

    return attempt


def of_check(check: str, seconds: float, flags: Sequence[str]) -> Attempt:
    """Return what runs one check of a suite on a side, such as `smoke/workloads::float32[yolov8n]`."""
    suite = check.partition("/")[0]

    def attempt(side: SideSpec, folder: Path) -> ProgramEnd:
        told = folder / "record.json"
        words = [
            str(side.python),
            "-m",
            "stackproof",
            "verify",
            "--stack",
            side.stack,
            "--suite",
            suite,
            "--only",
            check,
        ]
        words += ["--json", str(told), "--results", str(folder / "results"), *flags]
        status = _run(words, side, folder, seconds, folder)
        if status is None:
            return ProgramEnd("hung", f"'{check}' did not end within {seconds:.0f} s")
        return _of_record(check, told, folder)

    return attempt


def _of_record(check: str, told: Path, folder: Path) -> ProgramEnd:
    try:
        found = next((one for one in records.read(told).checks if one.id == check), None)
    except Refusal:
        said = " / ".join(processes.last_lines(folder / "output.log", 2))
        return ProgramEnd(_NOTHING, f"'{check}' did not run: {plain(said, lines=False)}")
    if found is None or found.verdict in NOT_EXECUTED:
        return ProgramEnd(
            _NOTHING, f"'{check}' did not run: {found.reason if found else 'its record has no such check'}"
        )
    if found.verdict in _BAD_WORDS:
        return ProgramEnd(_BAD_WORDS[found.verdict], found.reason)
    good = found.verdict in (Verdict.PASSED, Verdict.KNOWN_ISSUE)
    return ProgramEnd(_GOOD if good else _NOTHING, found.reason)


def _run(words: list[str], side: SideSpec, folder: Path, seconds: float, where: Path) -> int | None:
    """Run a program of a side with its output in a file; return its status, or None where it had to be ended."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join((str(side.python.parent), os.environ.get("PATH", os.defpath)))
    sources = os.pathsep.join(filter(None, (str(side.source), side.environment.get("PYTHONPATH", ""))))
    mark = processes.new_mark()
    with (folder / "output.log").open("wb") as output:
        try:
            child = processes.start(
                words, output, {**side.environment, "PATH": path, "PYTHONPATH": sources}, mark, cwd=str(where)
            )
        except OSError as error:
            raise Refusal(f"'{words[0]}' cannot be started ({error.strerror}); name a program that is there") from error
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            processes.end_tree(mark, child)


@dataclass
class Programs:
    """Runs of one bisection, one side at a time."""

    good: SideSpec
    bad: SideSpec
    attempt: Attempt
    what: str
    journal: Journal
    folder: Path
    say: Say
    fresh: Callable[[SideSpec], SideSpec] = lambda side: side
    word: str = ""
    """How the bad end ends."""
    reason: str = ""
    rate: tuple[int, int] = (0, 0)

    def confirm(self) -> None:
        """Run both ends until it is known that the good one does not fail, and how often the bad one does.

        Raises:
            NotReproducedError: the bad end does not fail, or neither end can be run.
            GoodTurnedBadError: the good end fails.
        """
        rules = plan.load().failure
        self._still_good("good 0")
        first = self._ended("bad 0", lambda: self.bad)
        failed, runs = int(first.word not in (_GOOD, _NOTHING)), 1
        self.word, self.reason = first.word, first.reason
        while runs < (rules.repeats if failed in (0, runs) else rules.learnt):
            self.say(f"does the bad side always fail? {failed} of {runs} runs until now")
            again = self._ended(f"bad {runs}", lambda: self.bad)
            failed += self._fails(again)
            runs += 1
        if not failed:
            raise NotReproducedError(f"'{self.what}' does not fail in {runs} runs of the bad side: {self.reason}")
        self.rate = (failed, runs)
        for number in range(1, runs if failed < runs else 1):
            self._still_good(f"good {number}")

    def _fails(self, ended: ProgramEnd) -> bool:
        if ended.word in (_GOOD, _NOTHING):
            return False
        if self.word in (_GOOD, _NOTHING):
            self.word, self.reason = ended.word, ended.reason
        return ended.word == self.word

    def _still_good(self, key: str) -> None:
        self.say(f"is the good side good? ({key})")
        ended = self._ended(key, lambda: self.good)
        if ended.word == _NOTHING:
            raise NotReproducedError(f"the good side cannot be tested: {ended.reason}")
        if ended.word != _GOOD:
            raise GoodTurnedBadError(f"the good side {ended.word}: {ended.reason}")

    def recheck(self) -> None:
        """Run the good side once more, now that all is known: if it fails, nothing can be blamed on the change."""
        self.say("is the good side still good?")
        ended = self.attempt(self.fresh(self.good), self.folder / "good-at-the-end")
        if ended.word != _GOOD:
            raise GoodTurnedBadError(f"the good side fails now too: {ended.reason}")

    def weigher(self) -> Weigher:
        """Return how runs of a candidate are weighed."""
        failed, runs = self.rate
        return FailureRate((0, runs), self.rate) if failed < runs else Exact()

    def duel(self, key: str, build: Build, _: int) -> float | NoAnswer:
        """Run a candidate once, and return whether it fails as the bad end does."""
        ended = self._ended(key, build)
        if ended.word in (_GOOD, self.word):
            return float(ended.word != _GOOD)
        return NoAnswer(
            ended.reason if ended.word == _NOTHING else f"{ended.word}, and not {self.word}: {ended.reason}"
        )

    def _ended(self, key: str, build: Build) -> ProgramEnd:
        def run() -> Told:
            side = build()
            if isinstance(side, NoAnswer):
                return {"word": _NOTHING, "reason": side.reason}
            ended = self.attempt(self.fresh(side), self.folder / slug(key))
            return {"word": ended.word, "reason": ended.reason}

        told = self.journal.once(key, run)
        return ProgramEnd(str(told["word"]), str(told["reason"]))
