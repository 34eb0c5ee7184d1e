"""Candidates as live sides beside the good side: both ends are confirmed as in a gate, then each launch tells of one or several."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, counted
from stackproof.api.comparison import BASE, HEAD, TIME, Comparison, Results, match_subjects, percent, require_alike
from stackproof.api.environment import Say
from stackproof.api.gate import (
    PROCESS,
    GatePlan,
    Launch,
    LaunchTerms,
    Lost,
    Observed,
    SideEndedError,
    SideSpec,
    handshake,
    launch,
)
from stackproof.api.record import CellWord, Verdict, slug
from stackproof.extras.bisect import plan
from stackproof.extras.bisect.evidence import FailureRate, NoAnswer, Weigher
from stackproof.extras.bisect.journal import Journal, Told
from stackproof.extras.bisect.lineage import GOOD
from stackproof.extras.bisect.symptoms import CannotSayError, GoodTurnedBadError, Symptom, SymptomKind, chosen, symptoms

_OPEN_S = 300.0
"""The longest deadline of a request of a launch, which a scale shortens."""
_SHORT_BLOCK_S = 0.01
START = "start-up"
Build = Callable[[], SideSpec | NoAnswer]
"""Builds a candidate when it is needed: one whose launches are known is not."""


class NotReproducedError(Exception):
    """Both ends are alike in what was asked for, or the wrong way round; the message says how they compare."""


@dataclass
class Duels:
    """Live sides of one bisection; `comparison` has both ends as its specs."""

    comparison: Comparison
    journal: Journal
    folder: Path
    say: Say
    fresh: Callable[[SideSpec], SideSpec] = lambda side: side
    """Gives a side empty folders for what its compilers keep."""
    symptom: Symptom | None = None
    results: Results | None = None
    rate: tuple[int, int] = (0, 0)
    """Of the bad end, where it ends badly: how often, of how many launches."""
    scale: float = 1.0
    until: float = 0.0
    """When the confirmation starts no more launches."""
    levels: list[float] = field(default_factory=list)
    """Logarithms of the good side's own time in each duel."""

    def __post_init__(self) -> None:
        self.scale = self.comparison.scale
        self.until = time.monotonic() + 60 * self.comparison.minutes

    def confirm(self, what: str) -> Symptom:
        """Launch both ends until it is known what is worse, and return that of it which is searched for.

        Raises:
            NotReproducedError: nothing of what was asked for is worse.
            CannotSayError: nothing of it could be run on both sides, or the noise hides how they compare.
            GoodTurnedBadError: the good side itself does not run.
        """
        told = self._handshake()
        if isinstance(told, Symptom):
            self.symptom = told
            self._repeat_ending()
            return told
        self.results = self._ends(told, what)
        found = self._of(what, self.results)
        if not found:
            raise _why_not(self.results, what)
        self.symptom = found[0]
        if self.symptom.kind is SymptomKind.ENDED:
            self._repeat_ending()
        return self.symptom

    def _of(self, what: str, results: Results) -> list[Symptom]:
        return chosen(symptoms(results), what, self.comparison.plan.counters)

    def _handshake(self) -> Mapping[str, Any] | Symptom:
        found = self.journal.once("handshake", lambda: self._up(self.comparison.specs[1]))
        if "ended" in found:
            return Symptom(SymptomKind.ENDED, PROCESS, START, str(found["ended"]), verdict=Verdict.CRASHED)
        told: Mapping[str, Any] = found["told"]
        facts = {name: {**self.comparison.host_facts, **answer["facts"]} for name, answer in told.items()}
        require_alike(self.comparison, facts)
        return told

    def _up(self, head: SideSpec) -> Told:
        """Start both sides once; return what they say, or how the head ended.

        Raises:
            GoodTurnedBadError: the good side does not come up.
        """
        base = self.comparison.specs[0]
        try:
            return {"told": handshake((base, head), self._terms(), self.folder / "handshake")}
        except (SideEndedError, Refusal) as ended:
            if _side_of(ended) == BASE:
                raise GoodTurnedBadError(f"the good side does not come up: {ended}") from ended
            return {"ended": str(ended)}

    def _ends(self, told: Mapping[str, Any], what: str) -> Results:
        """Launch both ends; what is exact is known after the launches that count, a time at the looks that are declared."""
        subject = what.partition("::")[0]
        only = (subject,) if subject and subject not in self.comparison.plan.counters else self.comparison.only
        self.comparison = replace(
            self.comparison, only=only, plan=replace(self.comparison.plan, asked=told[HEAD]["subjects"])
        )
        subjects, lost = match_subjects(self.comparison, told)
        results = Results(self.comparison.plan, self.comparison.kind)
        results.lost |= {one.subject: one for one in lost}
        left = [name for name in subjects if name not in results.lost]
        self._until_known(results, left, what)
        return results

    def _until_known(self, results: Results, left: Sequence[str], what: str) -> None:
        rules = plan.load().confirm
        for number in range(rules.looks[-1]):
            self.say(f"confirming both ends: launch {number + 1} of at most {rules.looks[-1]}")
            found, lost = self._journaled(f"ends {number}", self.comparison.specs, left, number)
            if broken := next((one for one in lost if one.side != HEAD and one.verdict.exit_code), None):
                raise GoodTurnedBadError(f"the good side does not run '{broken.subject}': {broken.reason}")
            results.add(found, lost)
            left = [name for name in left if name not in results.lost]
            late = time.monotonic() > self.until
            if number + 1 in rules.looks or late:
                results.cells.look(rules)
            if not left or late or self._known(results, what):
                return

    def _known(self, results: Results, what: str) -> bool:
        """Whether there is something to search for, or all that was asked for is decided; what is exact needs no look."""
        found = self._of(what, results)
        if any(not one.timed for one in found):
            return len(results.launches) >= self.comparison.plan.count.launches
        aspect = what.partition("::")[2] or TIME
        asked = [cell for cell in results.cells.values() if cell.what == aspect]
        return bool(found) or (bool(asked) and all(cell.decided for cell in asked))

    def _journaled(
        self, key: str, specs: Sequence[SideSpec], subjects: Sequence[str], number: int
    ) -> tuple[Launch, list[Lost]]:
        """Launch, or read what that launch of an earlier run saw."""

        def run() -> Told:
            sides = tuple(map(self.fresh, specs))
            found, lost = launch(sides, subjects, self._terms(), number, self.folder / slug(key), lambda _: None)
            seen = {name: {side: asdict(one) for side, one in sides.items()} for name, sides in found.seen.items()}
            return {
                "seen": seen,
                "counted": found.counted,
                "lost": [[one.subject, one.side, one.verdict.value, one.reason] for one in lost],
            }

        told = self.journal.once(key, run)
        seen = {name: {side: Observed(**one) for side, one in sides.items()} for name, sides in told["seen"].items()}
        lost = [Lost(subject, side, Verdict(verdict), reason) for subject, side, verdict, reason in told["lost"]]
        return Launch(seen, counted=told["counted"]), lost

    def _repeat_ending(self) -> None:
        """Learn how often the bad side ends so; the good one did not in any of these launches."""
        assert self.symptom is not None
        rules, failed, runs = plan.load().failure, 1, 1
        self.scale = self._shorter() if self.symptom.verdict is Verdict.HUNG else self.scale
        while not rules.enough(failed, runs, time.monotonic() > self.until):
            self.say(f"does the bad side always end so? {failed} of {counted(runs, 'run')} until now")
            failed += self.duel(f"ending {runs}", lambda: self.comparison.specs[1], runs) == 1.0
            runs += 1
        self.rate = (failed, runs)

    def _shorter(self) -> float:
        """Return the scale of deadlines at which a hang is called one soon: by what a launch of the good side takes in all."""
        began, rules = time.monotonic(), plan.load().hang
        self._journaled("good alone", self.comparison.specs[:1], [self._subject()[0]], 1)
        longest = max(rules.least, rules.times * (time.monotonic() - began))
        return min(self.scale, float(self.journal.once("deadline", lambda: {"scale": longest / _OPEN_S})["scale"]))

    def weigher(self) -> Weigher:
        """Return how launches of a candidate are weighed."""
        assert self.symptom is not None
        return FailureRate((0, self.rate[1]), self.rate) if self.rate[1] else self.symptom.weigher()

    def duel(self, key: str, build: Build, number: int) -> float | NoAnswer:
        """Run a candidate beside the good side once, and return what that says.

        Raises:
            GoodTurnedBadError: the good side is what fails.
        """
        told = self.journal.once(key, lambda: self._duel(key, build, number))
        self.levels += [float(told["level"])] if "level" in told else []
        return NoAnswer(str(told["none"])) if "none" in told else float(told["seen"])

    def _duel(self, key: str, build: Build, number: int) -> Told:
        assert self.symptom is not None
        candidate = build()
        if isinstance(candidate, NoAnswer):
            return {"none": candidate.reason}
        if self.symptom.name == f"{PROCESS}::{START}" and not self.symptom.timed:
            return {"seen": float("ended" in self._up(candidate))}
        launched = self._side_by_side(key, {HEAD: candidate}, number)
        if isinstance(launched, NoAnswer):
            return {"none": launched.reason}
        seen = self.symptom.read(*launched)
        if isinstance(seen, NoAnswer):
            return {"none": seen.reason}
        level = {"level": self.symptom.level(self._good(launched[0]))} if self.symptom.timed else {}
        return {"seen": seen, **level}

    def keep_good(self, runs: int) -> None:
        """The good side runs in every launch, and one in which it fails ends the search."""

    def line_up(self, key: str, builds: Mapping[int, Build], number: int) -> dict[int, float | NoAnswer]:
        """Run several candidates and the good side in one launch; return the logarithm of the time of each, by place."""
        assert self.symptom is not None

        def run() -> Told:
            built = {at: build() for at, build in builds.items()}
            if lacking := {str(at): one.reason for at, one in built.items() if isinstance(one, NoAnswer)}:
                return {"none": lacking}
            names = {f"{HEAD}-{at}": side for at, side in built.items() if isinstance(side, SideSpec)}
            launched = self._side_by_side(key, names, number)
            if isinstance(launched, NoAnswer):
                at = launched.reason.partition(":")[0].rpartition("-")[2]
                return {"none": {at: launched.reason}}
            found, lost = launched
            if lost:
                return {"none": {lost[0].side.rpartition("-")[2]: lost[0].reason}}
            seen = found.seen[self._subject(asked=False)[0]]
            told = {name.rpartition("-")[2]: self._level(one) for name, one in seen.items() if name != BASE}
            return {"levels": {**told, str(GOOD): self._level(seen[BASE])}}

        told = self.journal.once(key, run)
        nothing = {int(at): NoAnswer(str(why)) for at, why in told.get("none", {}).items() if at.isdecimal()}
        return {**nothing, **{int(at): float(one) for at, one in told.get("levels", {}).items()}}

    def _side_by_side(
        self, key: str, candidates: Mapping[str, SideSpec], number: int
    ) -> tuple[Launch, list[Lost]] | NoAnswer:
        """Launch the good side and candidates; one that does not come up is no answer."""
        assert self.symptom is not None
        named = {BASE: self.comparison.specs[0], **candidates}
        sides = tuple(self.fresh(replace(side, name=name)) for name, side in named.items())
        at = self.comparison.plan.count.launches + number if self.symptom.timed else 0
        try:
            found, lost = launch(
                sides,
                self._subject(),
                self._terms(short=not self.symptom.timed),
                at,
                self.folder / slug(key),
                lambda _: None,
            )
        except (SideEndedError, Refusal) as ended:
            if _side_of(ended) == BASE:
                raise GoodTurnedBadError(f"the good side does not come up any more: {ended}") from ended
            return NoAnswer(str(ended))
        if broken := next((one for one in lost if one.side in (BASE, "both")), None):
            raise GoodTurnedBadError(broken.reason)
        return found, lost

    def _subject(self, asked: bool = True) -> list[str]:
        """Return what is launched; the process itself is seen in every launch, and is not asked for."""
        assert self.symptom is not None
        return [] if asked and self.symptom.subject == PROCESS else [self.symptom.subject]

    def _good(self, found: Launch) -> Observed:
        return found.seen[self._subject(asked=False)[0]][BASE]

    def _level(self, seen: Observed) -> float:
        assert self.symptom is not None
        return self.symptom.level(seen)

    def _terms(self, short: bool = False) -> LaunchTerms:
        """Return the terms of a launch; what is exact needs no blocks worth timing."""
        found: GatePlan = self.comparison.plan
        if short:
            found = replace(found, design=replace(found.design, rounds=1, block_seconds=_SHORT_BLOCK_S))
        return LaunchTerms(self.comparison.preset, found, self.scale)


def _side_of(ended: SideEndedError | Refusal) -> str:
    """Return whose end it is; a refusal says it first."""
    return ended.side if isinstance(ended, SideEndedError) else str(ended).partition(":")[0]


def _why_not(results: Results, what: str) -> NotReproducedError | CannotSayError:
    """Say how both ends compare where nothing that was asked for is worse: alike only where that was seen."""
    subject, _, aspect = what.partition("::")
    asked = [
        (cell, cell.ruling)
        for cell in results.cells.values()
        if cell.ruling and cell.what == (aspect or TIME) and subject in ("", cell.subject)
    ]
    count = counted(len(results.launches), "run")
    told = "; ".join(f"{cell.subject} {cell.what} {ruling.outcome.value} {ruling.reason}" for cell, ruling in asked[:3])
    if faster := [(cell, ruling) for cell, ruling in asked if ruling.outcome is CellWord.FASTER]:
        cell, ruling = faster[0]
        return NotReproducedError(
            f"the bad side is better: {cell.subject} {cell.what} {percent(ruling.estimate.centre)} in {count}; "
            "were --good and --bad swapped?"
        )
    lost = [results.lost[subject]] if subject in results.lost else []
    if lost or not results.launches:
        why = next((one.reason for one in (*lost, *results.lost.values())), "nothing was launched")
        return CannotSayError(f"no run of '{what or 'any subject'}' could be judged: {why}")
    if _open(results, subject, aspect or TIME):
        why = told or "that is too few to judge; give it more --minutes"
        return CannotSayError(f"the ends cannot be told apart in {count}, and nothing shows that they are alike: {why}")
    return NotReproducedError(f"the ends are alike in {count}: {told or 'nothing that was asked for differs'}")


def _open(results: Results, subject: str, aspect: str) -> bool:
    """Whether something that was asked for has no word yet, or noise hides it; what is exact takes the launches that count."""
    asked = [cell for cell in results.cells.values() if cell.what == aspect and subject in ("", cell.subject)]
    if any(cell.ruling is None or cell.ruling.outcome is CellWord.INCONCLUSIVE for cell in asked):
        return True
    return len(results.launches) < results.plan.count.launches
