"""What is wrong with the bad side, as a gate saw it, and how one launch of a candidate is read for it.

What is exact comes first: it takes one launch, and often names the change by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from stackproof.api.comparison import BASE, HEAD, TIME, Results, counters_of, paired, percent
from stackproof.api.gate import Launch, Lost, Observed, changed
from stackproof.api.record import CellWord, Verdict
from stackproof.extras.bisect.evidence import Exact, NoAnswer, Slowdown, Weigher

COMPUTED = "computed"
RUNS = "runs"
_ENDINGS = (Verdict.CRASHED, Verdict.HUNG, Verdict.FAILED)


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

    `before` and `after`: a counter of both ends; `verdict`: how the bad side ended; `ratios`, `centre`, `interval`: of a time.
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
    interval: tuple[float, float] = (0.0, 0.0)

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
        if self.timed:
            return Slowdown.seen(self.ratios, self.centre)
        return Exact(repeated=self.kind is SymptomKind.ENDED)

    def read(self, launch: Launch, lost: Sequence[Lost]) -> float | NoAnswer:
        """Return what one launch says: of a time the log-ratio, else 1 where the symptom shows.

        Raises:
            GoodTurnedBadError: the good side of this launch is what fails.
        """
        mine = next((one for one in lost if one.subject == self.subject), None)
        if mine is not None and mine.side != HEAD:
            raise GoodTurnedBadError(mine.reason)
        if mine is not None:
            return 1.0 if mine.verdict is self.verdict else NoAnswer(mine.reason)
        if self.kind is SymptomKind.ENDED:
            return 0.0
        sides = launch.seen.get(self.subject, {})
        if BASE not in sides or HEAD not in sides:
            return NoAnswer(f"'{self.subject}' was not measured")
        return self._compared(sides[BASE], sides[HEAD])

    def _compared(self, good: Observed, head: Observed) -> float | NoAnswer:
        if self.kind is SymptomKind.CHANGED:
            return float(changed.compare(good.computed, head.computed).changed)
        if self.kind is SymptomKind.COUNTED:
            return self._counted(good, head)
        if self.what == TIME:
            return paired(good.blocks, head.blocks)
        before, after = good.quantities.get(self.what, 0.0), head.quantities.get(self.what, 0.0)
        return math.log(after / before) if before > 0 and after > 0 else NoAnswer(f"no {self.what} was told")

    def _counted(self, good: Observed, head: Observed) -> float | NoAnswer:
        """A counter that moved as the bad end's did, by whatever part: two changes may share it."""
        if self.what not in good.counters or self.what not in head.counters:
            return NoAnswer(f"'{self.what}' was not counted")
        return float((head.counters[self.what] - good.counters[self.what]) * (self.after - self.before) > 0)

    def level(self, seen: Observed) -> float:
        """Return the logarithm of the time of one side of a launch."""
        return math.log(median(seen.blocks) if self.what == TIME else seen.quantities[self.what])


def symptoms(results: Results) -> list[Symptom]:
    """Return everything that is worse on the head's side, what is exact first, then the slowest."""
    slower = sorted(_slower(results), key=lambda one: -one.centre)
    return [*_ended(results), *_changed(results), *_counted(results), *slower]


def _ended(results: Results) -> Iterator[Symptom]:
    for one in results.lost.values():
        if one.side == HEAD and one.verdict in _ENDINGS:
            yield Symptom(SymptomKind.ENDED, one.subject, RUNS, one.reason, verdict=one.verdict)


def _changed(results: Results) -> Iterator[Symptom]:
    for subject, found in results.computed.items():
        if found.changed:
            yield Symptom(SymptomKind.CHANGED, subject, COMPUTED, found.sentence())


def _counted(results: Results) -> Iterator[Symptom]:
    """Yield the counters that moved in every launch alike; fewer of something is no harm, and is told as a difference all the same."""
    for subject, pairs in results.counted.items():
        for name in counters_of(pairs, results.plan.counters):
            before, after = ({side[name] for side in sides} for sides in zip(*pairs, strict=True))
            if len(before) == len(after) == 1 and before != after:
                (old,), (new,) = before, after
                yield Symptom(SymptomKind.COUNTED, subject, name, f"{name}: {old} -> {new}", old, new)


def _slower(results: Results) -> Iterator[Symptom]:
    for cell in results.cells.values():
        ruling = cell.ruling
        if ruling is not None and ruling.outcome is CellWord.SLOWER and cell.subject not in results.lost:
            one = ruling.estimate
            words = f"{percent(one.centre)} [{percent(one.low)}, {percent(one.high)}]"
            yield Symptom(
                SymptomKind.SLOWER, cell.subject, cell.what, words, ratios=tuple(cell.ratios), centre=one.centre,
                interval=(one.low, one.high),
            )  # fmt: skip


def chosen(found: Sequence[Symptom], what: str, counters: Mapping[str, str]) -> list[Symptom]:
    """Return the symptoms that `--what` speaks of: a subject, a cell such as `gemm::time`, or a counter; all where it is empty."""
    if not what:
        return list(found)
    subject, _, aspect = what.partition("::")
    if not aspect and what in counters:
        return [one for one in found if one.what == what]
    return [one for one in found if one.subject == subject and aspect in ("", one.what)]
