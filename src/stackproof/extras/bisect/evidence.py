"""What runs say: of a set of changes, by log odds; of a line of commits, by Bayes; and which changes are bad together, by splits.

How many runs that may take stands in `data/bisect.toml`. Nothing here knows what a change is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate

from stackproof.api.base import places, toml
from stackproof.api.gate import plan

FILE = places.DATA / "bisect.toml"


@dataclass(frozen=True)
class SearchRules:
    """The error of all steps, launches of one set, and when a commit is named."""

    error: float
    most: int
    sure: float


@dataclass(frozen=True)
class FailureRules:
    """Runs of an end that always fails, that never does, and that does at a rate; and of one set at most.

    `always`, `never`: so many runs in a row; `failures`: from so many a rate is learnt, in `learnt` runs at most; `least`: runs
    after which `--minutes` may end it; `proof`: clean runs of the bad side without the culprit, which prove its half.
    """

    always: int
    never: int
    failures: int
    learnt: int
    least: int
    most: int
    proof: int

    def enough(self, failed: int, runs: int, late: bool = False) -> bool:
        """Whether runs are enough to know how often this end fails; one that always or never fails takes fewer."""
        if failed == runs:
            return runs >= (self.least if late else self.always)
        needed = self.learnt if failed else self.never
        return failed >= self.failures or runs >= (self.least if late else needed)


@dataclass(frozen=True)
class LimitRules:
    """Trees with environments of tests that are kept, when a side hangs, and the variables that name folders of compilers."""

    trees: int
    hang_times: float
    """How many times what the good side took."""
    hang_least: float
    """Seconds."""
    caches: tuple[str, ...]


@dataclass(frozen=True)
class BisectPlan:
    """The table `data/bisect.toml`: rates, errors and limits of a search."""

    confirm: plan.Design
    search: SearchRules
    failure: FailureRules
    limits: LimitRules


rules = toml.kept(FILE, BisectPlan)

CERTAIN = 60.0
"""Log odds of what is exact."""
_TAILS = 5.0
"""Degrees of freedom of Student's t: the noise is known from a few launches, and one process in many is odd for its whole life."""
_SHARES = (0.5, 1.0)
"""Parts of the whole effect that a bad set may have, all as likely; half of it where two culprits may share it."""
_LEAST_NOISE = 1 / 8
"""Of the effect: launches that agree by chance must not make a single later one decisive."""


class SetWord(str, Enum):
    """What is said of the good side with a set of changes."""

    GOOD = "good"
    BAD = "bad"
    UNRESOLVED = "unresolved"


def bound(error: float, steps: int) -> float:
    """Return the log odds at which a step is decided, if `error` is split evenly over so many steps."""
    share = error / max(steps, 1)
    return math.log((1 - share) / share)


@dataclass(frozen=True)
class Slowdown:
    """Log-ratios of a candidate beside the good side: none of the effect, or a part of it."""

    effect: float
    noise: float
    fewest: int = 2

    @classmethod
    def learnt(cls, ratios: Sequence[float], centre: float) -> Slowdown:
        """Learn the noise of one launch from those in which both ends were confirmed."""
        mean = sum(ratios) / len(ratios)
        spread = math.sqrt(sum((ratio - mean) ** 2 for ratio in ratios) / max(len(ratios) - 1, 1))
        return cls(centre, max(spread, _LEAST_NOISE * abs(centre)))

    def weigh(self, seen: Sequence[float]) -> float:
        """Weigh each part of the effect against none of it."""
        parts = [sum(self._log(ratio - share * self.effect) for ratio in seen) for share in _SHARES]
        highest = max(parts)
        bad = highest + math.log(sum(math.exp(part - highest) for part in parts) / len(parts))
        return bad - sum(self._log(ratio) for ratio in seen)

    def _log(self, distance: float) -> float:
        """Return the log density of Student's t at a distance, without what cancels."""
        return -(_TAILS + 1) / 2 * math.log1p((distance / self.noise) ** 2 / _TAILS)


@dataclass(frozen=True)
class FailureRate:
    """Runs that fail (1) or do not (0), beside those that are known: failures and runs of good and of bad sets (Beta-Bernoulli).

    Half of all good sides never fail and half of all bad ones always do; of the rest every rate is as likely as any other.
    """

    good: tuple[int, int]
    bad: tuple[int, int]
    fewest: int = 2

    def weigh(self, seen: Sequence[float]) -> float:
        """Compare how likely so many failures are of a bad set, over all that its rate may be, and of a good one."""
        failed = sum(value > 0 for value in seen)
        as_bad = _after(self.bad[0], self.bad[1] - self.bad[0], failed, len(seen) - failed)
        return as_bad - _after(self.good[1] - self.good[0], self.good[0], len(seen) - failed, failed)


def _after(usual: int, odd: int, more_usual: int, more_odd: int) -> float:
    """Return the log probability of runs after others, of which the odd kind may never come."""
    return _likely(usual + more_usual, odd + more_odd) - _likely(usual, odd)


def _likely(usual: int, odd: int) -> float:
    """Return the log probability of such runs, twice: half for an odd kind that never comes, half for a rate of which nothing is known."""
    at_a_rate = math.lgamma(usual + 1) + math.lgamma(odd + 1) - math.lgamma(usual + odd + 2)
    return at_a_rate if odd else math.log1p(math.exp(at_a_rate))


def below(runs: int) -> float:
    """Return the rate of failure that so many runs without one would have shown, with 95 %."""
    return float(1 - 0.05 ** (1 / max(runs, 1)))


@dataclass(frozen=True)
class Exact:
    """What is exact: a clean run (0) is good, a bad one (1) bad; of several one bad run is enough."""

    fewest: int = 1

    def weigh(self, seen: Sequence[float]) -> float:
        return CERTAIN if any(value > 0 for value in seen) else -CERTAIN


Weigher = Slowdown | FailureRate | Exact
"""How much the runs of one set, each a number, speak for bad: log odds of all together, of `fewest` runs at least."""


@dataclass(frozen=True)
class Settled:
    """What was said of one set, after how many runs; `reason` is why it is unresolved."""

    word: SetWord
    runs: int
    reason: str = ""


@dataclass(frozen=True)
class NoAnswer:
    """A run that says nothing of the set, because it could not be built, imported or run, and why."""

    reason: str


def settle(
    weigher: Weigher, run: Callable[[int], float | NoAnswer], limit: float, most: int, seen: list[float]
) -> Settled:
    """Run until the log odds pass the limit on either side; `run` is told how many there were before, and `seen` is added to."""
    odds = weigher.weigh(seen) if seen else 0.0
    while (abs(odds) < limit or len(seen) < weigher.fewest) and len(seen) < most:
        answer = run(len(seen))
        if isinstance(answer, NoAnswer):
            return Settled(SetWord.UNRESOLVED, len(seen) + 1, answer.reason)
        seen.append(answer)
        odds = weigher.weigh(seen)
    if abs(odds) < limit:
        return Settled(SetWord.UNRESOLVED, len(seen), f"{len(seen)} runs leave it open")
    return Settled(SetWord.BAD if odds > 0 else SetWord.GOOD, len(seen))


Unit = str
Test = Callable[[frozenset[Unit]], SetWord]
Needs = Callable[[Unit], frozenset[Unit]]
_SKIPS = 6
"""So many unresolved splits are stepped over before the changes between are taken as one."""


@dataclass(frozen=True)
class Blame:
    """Changes that are bad together, of which none can be left out: one culprit, or several that must meet.

    `alone`: what is said of the good side with them; `without`: of the bad side without them, and without what needs them.
    """

    units: tuple[Unit, ...]
    alone: SetWord
    without: SetWord
    left: tuple[Unit, ...] = field(default=(), compare=False)
    """All changes without them, and without what needs them."""

    @property
    def proved(self) -> bool:
        """Whether both are as they must be."""
        return (self.alone, self.without) == (SetWord.BAD, SetWord.GOOD)


@dataclass
class Splitting:
    """A search among changes, those that others need before these; all together are known to be bad.

    `test` asks for a set, once for each; `needs`: all that a change cannot be moved without, itself excepted.
    """

    units: Sequence[Unit]
    test: Test
    needs: Needs = lambda _: frozenset()
    suspects: Sequence[Unit] = ()
    """Which changes are still suspected; for whoever watches."""
    known: dict[frozenset[Unit], SetWord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known |= {frozenset(): SetWord.GOOD, frozenset(self.units): SetWord.BAD}

    def ask(self, units: Iterable[Unit]) -> SetWord:
        """Test a set together with what it needs, from the cache where that was tested before."""
        whole = self.closed(units)
        if whole not in self.known:
            self.known[whole] = self.test(whole)
        return self.known[whole]

    def closed(self, units: Iterable[Unit]) -> frozenset[Unit]:
        """Return the set with all that its members need."""
        members = frozenset(units)
        return members.union(*(self.needs(unit) for unit in members)) & frozenset(self.units)

    def blame(self, most: int = 4) -> list[Blame]:
        """Return the culprits: as long as the bad side without those that are found is still bad, there is another."""
        culprits: list[Blame] = []
        left = list(self.units)
        without = SetWord.BAD
        while without is SetWord.BAD and len(culprits) < most:
            culprit = self._smallest(left)
            left = [unit for unit in left if not self.closed((unit,)) & set(culprit)]
            self.suspects = culprit
            without = self.ask(left)
            culprits.append(Blame(tuple(culprit), self.ask(culprit), without, tuple(left)))
        return culprits

    def _smallest(self, order: Sequence[Unit]) -> list[Unit]:
        """Return a smallest bad set: the change that turns the list bad, then what it must meet among those before it."""
        kept, rest = list[Unit](), list(order)
        while rest and not (kept and self.ask(kept) is SetWord.BAD):
            low, high = self._edge(kept, rest)
            kept, rest = [*rest[low:high], *kept], rest[:low]
        return needed(kept, self.ask) if len(kept) > 1 else kept

    def _edge(self, kept: list[Unit], rest: list[Unit]) -> tuple[int, int]:
        """Return between which lengths the head of the list turns bad; more than one apart where all between is unresolved."""
        low, high = 0, len(rest)
        while high - low > 1:
            self.suspects = rest[low:high]
            word, middle = self._nearest(kept, rest, low, high)
            if word is SetWord.UNRESOLVED:
                break
            low, high = (low, middle) if word is SetWord.BAD else (middle, high)
        return low, high

    def _nearest(self, kept: list[Unit], rest: list[Unit], low: int, high: int) -> tuple[SetWord, int]:
        """Ask for the middle, and step aside where it is unresolved."""
        middles = sorted(range(low + 1, high), key=lambda at: abs(2 * at - low - high))
        for middle in middles[: 1 + _SKIPS]:
            word = self.ask((*kept, *rest[:middle]))
            if word is not SetWord.UNRESOLVED:
                break
        return word, middle


def tests_of(count: int) -> int:
    """Return how many tests one culprit of so many changes takes: the splits, it alone, all without it."""
    return math.ceil(math.log2(max(count, 2))) + 2


def needed(units: Sequence[Unit], ask: Callable[[Iterable[Unit]], SetWord]) -> list[Unit]:
    """Return a part of a bad set from which no single change can be left out."""
    left, at = list(units), 0
    while at < len(left):
        rest = [*left[:at], *left[at + 1 :]]
        left, at = (rest, 0) if ask(rest) is SetWord.BAD else (left, at + 1)
    return left


_LEAST = 1e-12


@dataclass
class Signs:
    """Runs of single places that tell good from bad by themselves."""

    weigher: Weigher
    seen: dict[int, list[float]] = field(default_factory=dict)

    def add(self, at: int, ran: float) -> None:
        self.seen.setdefault(at, []).append(ran)

    def scores(self, count: int) -> list[float]:
        """Add up the odds of the places that would be bad."""
        odds = {at: self.weigher.weigh(seen) for at, seen in self.seen.items()}
        return [sum(score for at, score in odds.items() if at >= first) for first in range(count)]


@dataclass
class Ratios:
    """Log-ratios of places beside the good side in one launch, which is how a machine that drifts cancels.

    Neither the size of the step nor the noise is taken as known: both are integrated out (linear regression with one step, flat priors),
    the launches of the confirmation included.
    """

    seen: list[tuple[int, float]]

    def add(self, at: int, ran: float) -> None:
        self.seen.append((at, ran))

    def scores(self, count: int) -> list[float]:
        """Return the marginal likelihood of a step at each place."""
        return list(map(self._score, range(count)))

    def _score(self, first: int) -> float:
        bad = [ratio for at, ratio in self.seen if at >= first]
        weight = max(len(bad), _LEAST)
        left = sum(ratio**2 for _, ratio in self.seen) - sum(bad) ** 2 / weight
        return -0.5 * math.log(weight) - (len(self.seen) - 1) / 2 * math.log(max(left, _LEAST))


@dataclass
class Lineage:
    """A line of states after a good one, of which the last is known to be bad; the search ends where an answer is so sure."""

    length: int
    evidence: Signs | Ratios
    sure: float = 0.95
    unresolved: dict[int, str] = field(default_factory=dict)
    """By place, why nothing can be said of it."""

    def posterior(self) -> list[float]:
        """Return how likely each is to be the first bad one."""
        scores = self.evidence.scores(self.length)
        likely = [math.exp(score - max(scores)) for score in scores]
        return [value / sum(likely) for value in likely]

    def blocks(self) -> list[range]:
        """Return the places that no run can tell apart, because what lies between them is unresolved."""
        ends = [at for at in range(self.length - 1) if at not in self.unresolved] + [self.length - 1]
        begins = [0] + [end + 1 for end in ends[:-1]]
        return [range(begin, end + 1) for begin, end in zip(begins, ends, strict=True)]

    def likeliest(self) -> tuple[range, float]:
        posterior = self.posterior()
        masses = [(sum(posterior[at] for at in block), block) for block in self.blocks()]
        mass, block = max(masses, key=lambda pair: pair[0])
        return block, mass

    def ask(self) -> int | None:
        """Return the place that tells most when it runs next; none once the answer is sure, or nothing else can be run."""
        until = list(accumulate(self.posterior()[:-1]))
        left = [at for at in range(len(until)) if at not in self.unresolved]
        if not left or self.likeliest()[1] >= self.sure:
            return None
        return min(left, key=lambda at: abs(until[at] - 0.5))
