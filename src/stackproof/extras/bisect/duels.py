"""Candidates as live sides beside the good side: both ends are confirmed as in a gate, then each launch tells of one.

What is exact comes first: it takes one launch, and often names the change by itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, text
from stackproof.api.comparison import cells, gate_loop
from stackproof.api.environment import environments
from stackproof.api.gate import interleave
from stackproof.api.record import Verdict, resume, store
from stackproof.extras.bisect import evidence
from stackproof.extras.bisect.evidence import Exact, FailureRate, NoAnswer, Slowdown, Weigher

COMPUTED, RUNS, START = "computed", "runs", "start-up"
_ENDINGS = (Verdict.CRASHED, Verdict.HUNG, Verdict.FAILED)
_OPEN_S = 300.0
"""The longest deadline of a request of a launch, which a scale shortens."""
_SHORT_BLOCK_S = 0.01
Build = Callable[[], interleave.SideSpec | NoAnswer]
"""Builds a candidate when it is needed: one whose launches are known is not."""


class NotReproducedError(Exception):
    """Both ends are alike in what was asked for, or the wrong way round; the message says how they compare."""


class SymptomKind(str, Enum):
    """How the bad side is worse."""

    ENDED = "ended"
    COUNTED = "counted"
    CHANGED = "changed"
    SLOWER = "slower"


class GoodTurnedBadError(Exception):
    """The good side itself fails now, so that nothing can be blamed on the change."""


class CannotSayError(Exception):
    """No run of an end could be judged, or they cannot be told apart, so that nothing is known of the change."""


@dataclass(frozen=True)
class Symptom:
    """One thing that is worse: of which subject, what of it, and in words how both ends compare.

    `before` and `after`: a counter of both ends; `verdict`: how the bad side ended; `ratios`, `centre`: of a time.
    """

    kind: SymptomKind
    subject: str
    what: str
    words: str
    before: float = 0.0
    after: float = 0.0
    verdict: Verdict | None = None
    ratios: tuple[float, ...] = ()
    centre: float = 0.0

    @property
    def name(self) -> str:
        """The name of the cell: `gemm-float32::time`."""
        return f"{self.subject}::{self.what}"

    @property
    def timed(self) -> bool:
        """Whether it takes statistics to see it."""
        return self.kind is SymptomKind.SLOWER

    def weigher(self) -> Weigher:
        """Return how runs of a candidate are weighed."""
        return Slowdown.learnt(self.ratios, self.centre) if self.timed else Exact()

    def read(self, launch: interleave.Launch, lost: Sequence[interleave.Lost]) -> float | NoAnswer:
        """Return what one launch says: of a time the log-ratio, else 1 where the symptom shows.

        GoodTurnedBadError: the good side of this launch is what fails.
        """
        mine = next((each for each in lost if each.subject == self.subject), None)
        if mine is not None and mine.side != cells.HEAD:
            raise GoodTurnedBadError(mine.reason)
        if mine is not None:
            return 1.0 if mine.verdict is self.verdict else NoAnswer(mine.reason)
        if self.kind is SymptomKind.ENDED:
            return 0.0
        sides = launch.seen.get(self.subject, {})
        if cells.BASE not in sides or cells.HEAD not in sides:
            return NoAnswer(f"'{self.subject}' was not measured")
        return self._compared(sides[cells.BASE], sides[cells.HEAD])

    def _compared(self, good: interleave.Observed, head: interleave.Observed) -> float | NoAnswer:
        if self.kind is SymptomKind.CHANGED:
            return float(head.compared(good).changed)
        if self.kind is SymptomKind.COUNTED:
            return self._counted(good, head)
        if self.what == cells.TIME:
            return head.log_ratio(good)
        before, after = good.quantities.get(self.what, 0.0), head.quantities.get(self.what, 0.0)
        return math.log(after / before) if before > 0 and after > 0 else NoAnswer(f"no {self.what} was reported")

    def _counted(self, good: interleave.Observed, head: interleave.Observed) -> float | NoAnswer:
        """A counter that moved as the bad end's did, by whatever part: two changes may share it."""
        if self.what not in good.counters or self.what not in head.counters:
            return NoAnswer(f"'{self.what}' was not counted")
        return float((head.counters[self.what] - good.counters[self.what]) * (self.after - self.before) > 0)


def symptoms(results: cells.Results) -> list[Symptom]:
    """Return everything that is worse on the head's side, what is exact first, then the slowest."""
    slower = sorted(_slower(results), key=lambda symptom: -symptom.centre)
    return [*_ended(results), *_changed(results), *_counted(results), *slower]


def _ended(results: cells.Results) -> Iterator[Symptom]:
    for lost in results.lost.values():
        if lost.side == cells.HEAD and lost.verdict in _ENDINGS:
            yield Symptom(SymptomKind.ENDED, lost.subject, RUNS, lost.reason, verdict=lost.verdict)


def _changed(results: cells.Results) -> Iterator[Symptom]:
    for subject, sameness in results.computed.items():
        if sameness.changed:
            yield Symptom(SymptomKind.CHANGED, subject, COMPUTED, sameness.sentence())


def _counted(results: cells.Results) -> Iterator[Symptom]:
    """Yield the counters that moved in every launch alike; fewer of something is no harm, and is told as a difference all the same."""
    for subject, pairs in results.counted.items():
        for name in cells.counters_of(pairs, results.plan.count.names):
            before, after = ({side[name] for side in sides} for sides in zip(*pairs, strict=True))
            if len(before) == len(after) == 1 and before != after:
                (old,), (new,) = before, after
                yield Symptom(SymptomKind.COUNTED, subject, name, f"{name}: {old} -> {new}", old, new)


def _slower(results: cells.Results) -> Iterator[Symptom]:
    for cell in results.cells.values():
        ruling = cell.ruling
        if ruling is not None and ruling.outcome == "SLOWER" and cell.subject not in results.lost:
            ratios, known = tuple(cell.ratios), ruling.estimate
            yield Symptom(SymptomKind.SLOWER, cell.subject, cell.what, known.shown, ratios=ratios, centre=known.centre)


def chosen(symptoms: Sequence[Symptom], what: str, counters: Collection[str]) -> list[Symptom]:
    """Return the symptoms that `--what` speaks of: a subject, a cell such as `gemm::time`, or a counter; all where it is empty."""
    if not what:
        return list(symptoms)
    subject, _, aspect = what.partition("::")
    if not aspect and what in counters:
        return [symptom for symptom in symptoms if symptom.what == what]
    return [symptom for symptom in symptoms if symptom.subject == subject and aspect in ("", symptom.what)]


@dataclass
class Duels:
    """Live sides of one bisection; `comparison` has both ends as its specs."""

    comparison: gate_loop.Comparison
    journal: resume.Journal
    folder: Path
    say: environments.Say
    fresh: Callable[[interleave.SideSpec], interleave.SideSpec] = lambda side: side
    """Gives a side empty folders for what its compilers keep."""
    symptom: Symptom = field(init=False)
    """What is searched for, once both ends are confirmed."""
    rate: tuple[int, int] = (0, 0)
    """Of the bad end, where it ends badly: how often, of how many launches."""
    scale: float = field(init=False)
    until: float = field(init=False)
    """When the confirmation starts no more launches."""

    def __post_init__(self) -> None:
        self.scale = self.comparison.request.deadline_scale
        self.until = time.monotonic() + 60 * self.comparison.request.minutes

    def confirm(self, what: str) -> Symptom:
        """Launch both ends until it is known what is worse, and return that of it which is searched for.

        Raises:
            NotReproducedError: nothing of what was asked for is worse.
            CannotSayError: nothing of it could be run on both sides, or the noise hides how they compare.
            GoodTurnedBadError: the good side itself does not run.
        """
        hello = self.journal.once("handshake", lambda: self._up(self.comparison.specs[1]), dict)
        if "ended" in hello:
            self.symptom = Symptom(
                SymptomKind.ENDED, interleave.PROCESS, START, str(hello["ended"]), verdict=Verdict.CRASHED
            )
        else:
            results = self._ends(hello["told"], what)
            if not (symptoms := self._symptoms(what, results)):
                raise _why_not(results, what)
            self.symptom = symptoms[0]
        if self.symptom.kind is SymptomKind.ENDED:
            self._repeat_ending()
        return self.symptom

    def _symptoms(self, what: str, results: cells.Results) -> list[Symptom]:
        return chosen(symptoms(results), what, self.comparison.plan.count.names)

    def _up(self, head: interleave.SideSpec) -> resume.Answer:
        base = self.comparison.specs[0]
        try:
            return {"told": interleave.handshake((base, head), self._terms(), self.folder / "handshake")}
        except (interleave.SideEndedError, Refusal) as ended:
            if _side_of(ended) == cells.BASE:
                raise GoodTurnedBadError(f"the good side does not come up: {ended}") from ended
            return {"ended": str(ended)}

    def _ends(self, hello: Mapping[str, Any], what: str) -> cells.Results:
        """Launch both ends; what is exact is known after the launches that count, a time at the looks that are declared."""
        comparison, subject = self.comparison, what.partition("::")[0]
        gate_loop.require_alike({name: {**comparison.host_facts, **answer["facts"]} for name, answer in hello.items()})
        request, asked = comparison.request, replace(comparison.plan, asked=hello[cells.HEAD]["subjects"])
        if subject and subject not in comparison.plan.count.names:
            request = replace(request, only=(subject,))
        self.comparison = comparison = replace(comparison, request=request, plan=asked)
        subjects, unmatched = gate_loop.match_subjects(comparison, hello)
        results, rules = cells.Results(comparison.plan, comparison.kind), evidence.rules().confirm
        results.lost |= {each.subject: each for each in unmatched}

        def launch_again(number: int) -> bool:
            self.say(f"confirming both ends: launch {number + 1} of at most {rules.looks[-1]}")
            left = [name for name in subjects if name not in results.lost]
            seen, lost = self._journaled(f"ends {number}", comparison.specs, left, number)
            if broken := next((each for each in lost if each.side != cells.HEAD and each.verdict.exit_code), None):
                raise GoodTurnedBadError(f"the good side does not run '{broken.subject}': {broken.reason}")
            results.add(seen, lost)
            exact = any(not symptom.timed for symptom in self._symptoms(what, results))
            known = exact and len(results.launches) >= comparison.plan.count.launches
            return not known and any(name not in results.lost for name in subjects)

        def look() -> bool:
            results.cells.look(rules)
            aspect = what.partition("::")[2] or cells.TIME
            asked = [cell for cell in results.cells.values() if cell.what == aspect]
            decided = bool(asked) and all(cell.decided for cell in asked)
            return not (decided or any(symptom.timed for symptom in self._symptoms(what, results)))

        gate_loop.launch_until_decided(rules, self.until, launch_again, look)
        return results

    def _journaled(
        self, key: str, specs: Sequence[interleave.SideSpec], subjects: Sequence[str], number: int
    ) -> tuple[interleave.Launch, list[interleave.Lost]]:
        def run() -> resume.Answer:
            sides = tuple(map(self.fresh, specs))
            launch, lost = interleave.launch(
                sides, subjects, self._terms(), number, self.folder / store.slug(key), lambda _: None
            )
            seen = {name: {side: asdict(each) for side, each in sides.items()} for name, sides in launch.seen.items()}
            rows = [[each.subject, each.side, each.verdict.value, each.reason] for each in lost]
            return {"seen": seen, "counted": launch.counted, "lost": rows}

        def read(row: resume.Answer) -> tuple[interleave.Launch, list[interleave.Lost]]:
            seen = {
                name: {side: interleave.Observed(**each) for side, each in sides.items()}
                for name, sides in row["seen"].items()
            }
            lost = [
                interleave.Lost(subject, side, Verdict(verdict), reason)
                for subject, side, verdict, reason in row["lost"]
            ]
            return interleave.Launch(seen, counted=row["counted"]), lost

        return self.journal.once(key, run, read)

    def _repeat_ending(self) -> None:
        """Learn how often the bad side ends so; the good one did not in any of these launches."""
        rules, failed, runs = evidence.rules().failure, 1, 1
        self.scale = self._shorter() if self.symptom.verdict is Verdict.HUNG else self.scale
        while not rules.enough(failed, runs, time.monotonic() > self.until):
            self.say(f"does the bad side always end so? {failed} of {text.counted(runs, 'run')} until now")
            failed += self.duel(f"ending {runs}", lambda: self.comparison.specs[1], runs) == 1.0
            runs += 1
        self.rate = (failed, runs)

    def _shorter(self) -> float:
        """Return the scale of deadlines at which a hang is called one soon: by what a launch of the good side takes in all."""
        began, rules = time.monotonic(), evidence.rules().limits
        self._journaled("good alone", self.comparison.specs[:1], self._subjects(), 1)
        longest = max(rules.hang_least, rules.hang_times * (time.monotonic() - began))
        scale = self.journal.once("deadline", lambda: {"scale": longest / _OPEN_S}, lambda row: float(row["scale"]))
        return min(self.scale, scale)

    def weigher(self) -> Weigher:
        """Return how launches of a candidate are weighed."""
        return FailureRate((0, self.rate[1]), self.rate) if self.rate[1] else self.symptom.weigher()

    def duel(self, key: str, build: Build, number: int) -> float | NoAnswer:
        """Run a candidate beside the good side once, and return what that says (GoodTurnedBadError: the good side is what fails)."""

        def read(row: resume.Answer) -> float | NoAnswer:
            return NoAnswer(str(row["none"])) if "none" in row else float(row["seen"])

        def run() -> resume.Answer:
            seen = self._beside(key, build(), number)
            return {"none": seen.reason} if isinstance(seen, NoAnswer) else {"seen": seen}

        return self.journal.once(key, run, read)

    def _beside(self, key: str, candidate: interleave.SideSpec | NoAnswer, number: int) -> float | NoAnswer:
        if isinstance(candidate, NoAnswer):
            return candidate
        if self.symptom.name == f"{interleave.PROCESS}::{START}" and not self.symptom.timed:
            return float("ended" in self._up(candidate))
        sides = self.fresh(self.comparison.specs[0]), self.fresh(candidate)
        at = self.comparison.plan.count.launches + number if self.symptom.timed else 0
        terms = self._terms(short=not self.symptom.timed)
        try:
            launch, lost = interleave.launch(
                sides, self._subjects(), terms, at, self.folder / store.slug(key), lambda _: None
            )
        except (interleave.SideEndedError, Refusal) as ended:
            if _side_of(ended) == cells.BASE:
                raise GoodTurnedBadError(f"the good side does not come up any more: {ended}") from ended
            return NoAnswer(str(ended))
        if broken := next((each for each in lost if each.side in (cells.BASE, "both")), None):
            raise GoodTurnedBadError(broken.reason)
        return self.symptom.read(launch, lost)

    def _subjects(self) -> list[str]:
        """Return what is launched; the process itself is seen in every launch, and is not asked for."""
        return [] if self.symptom.subject == interleave.PROCESS else [self.symptom.subject]

    def _terms(self, short: bool = False) -> interleave.LaunchTerms:
        plan = self.comparison.plan
        if short:
            plan = replace(plan, design=replace(plan.design, rounds=1, block_seconds=_SHORT_BLOCK_S))
        return interleave.LaunchTerms(self.comparison.preset, plan, self.scale)


def _side_of(ended: interleave.SideEndedError | Refusal) -> str:
    """Return whose end it is; a refusal says it first."""
    return ended.side if isinstance(ended, interleave.SideEndedError) else str(ended).partition(":")[0]


def _why_not(results: cells.Results, what: str) -> NotReproducedError | CannotSayError:
    """Say how both ends compare where nothing that was asked for is worse: alike only where that was seen."""
    subject, _, aspect = what.partition("::")
    aspect = aspect or cells.TIME
    asked = [cell for cell in results.cells.values() if cell.what == aspect and subject in ("", cell.subject)]
    count = text.counted(len(results.launches), "run")
    shown = "; ".join(
        f"{cell.subject} {cell.what} {cell.ruling.outcome.value} {cell.ruling.reason}" for cell in asked if cell.ruling
    )
    if any(cell.ruling and cell.ruling.outcome == "FASTER" for cell in asked):
        return NotReproducedError(f"the bad side is better in {count}: {shown}; were --good and --bad swapped?")
    lost = [results.lost[subject]] if subject in results.lost else []
    if lost or not results.launches:
        why = next((entry.reason for entry in (*lost, *results.lost.values())), "nothing was launched")
        return CannotSayError(f"no run of '{what or 'any subject'}' could be judged: {why}")
    hidden = any(cell.ruling is None or cell.ruling.outcome == "INCONCLUSIVE" for cell in asked)
    if hidden or len(results.launches) < results.plan.count.launches:  # what is exact takes the launches that count
        why = shown or "that is too few to judge; give it more --minutes"
        return CannotSayError(f"the ends cannot be told apart in {count}, and nothing shows that they are alike: {why}")
    return NotReproducedError(f"the ends are alike in {count}: {shown or 'nothing that was asked for differs'}")
