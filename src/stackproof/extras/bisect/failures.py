"""The search among changes by failures that may come and go: several culprits may each have a rate of their own.

What fails less often than what was searched for hides behind it. So each half of the proof is run until it can be believed, and what
is left over and fails at all, while the good end does not, is searched at its own rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from stackproof.extras.bisect.evidence import FailureRate, NoAnswer, Settled, SetWord, bound, settle
from stackproof.extras.bisect.plan import BisectPlan
from stackproof.extras.bisect.splits import Blame, Needs, Splitting, Unit, ddmin, tests_of

MOST = 4
"""Culprits that are looked for."""
Units = frozenset[Unit]
Decided = list[tuple[Units, SetWord]]


@dataclass
class FailureSearch:
    """A search in progress; `seen`: what each set did until now, both ends included, each run as 1 where it failed.

    Args:
        units: all changes, those that others need before these.
        needs: all that a change cannot be moved without.
        rate: of both ends, as they were confirmed.
        run: runs a set once more, told how often it was run before.
        keep_good: runs the good end until it was clean so often; what ends that, ends the search.
        asking: tells that a set is asked for, and which changes are suspected.
        told: tells what was said of a set.
        rules: the table of the search.
    """

    units: Sequence[Unit]
    needs: Needs
    rate: FailureRate
    run: Callable[[Units, int], float | NoAnswer]
    keep_good: Callable[[int], None]
    asking: Callable[[Units, Sequence[Unit]], None]
    told: Callable[[Units, Settled, Sequence[float]], None]
    rules: BisectPlan
    seen: dict[Units, list[float]] = field(default_factory=dict)
    rates: dict[tuple[Unit, ...], FailureRate] = field(default_factory=dict)
    """At which rate each culprit was found, by its changes."""

    def __post_init__(self) -> None:
        self._limit = bound(self.rules.search.error, tests_of(len(self.units)))
        for units, (failed, runs) in ((frozenset[Unit](), self.rate.good), (frozenset(self.units), self.rate.bad)):
            self.seen.setdefault(units, [1.0] * failed + [0.0] * (runs - failed))

    def counts(self, units: Iterable[Unit]) -> tuple[int, int]:
        """Return how often a set failed, and of how many runs."""
        seen = self.seen.get(frozenset(units), [])
        return int(sum(seen)), len(seen)

    def blame(self) -> list[Blame]:
        """Return the culprits: what is left without them is searched as long as it fails, however seldom."""
        found = self._at(self.units, self.rate, MOST)
        while (word := self._proved(found[-1])) is SetWord.BAD and len(found) < MOST:
            rate = self._learnt(found[-1].left)
            found = [*found[:-1], replace(found[-1], without=word)]
            if rate.bad[0] < self.rules.failure.least:  # too seldom to search for
                return found
            found += self._at(found[-1].left, rate, MOST - len(found))
        return [*found[:-1], replace(found[-1], without=word)]

    def _at(self, units: Sequence[Unit], rate: FailureRate, most: int) -> list[Blame]:
        """Return the culprits among changes that fail together at a rate, each with the rate of this search."""
        decided: Decided = []
        splitting = Splitting(units, lambda one: self._test(one, rate, decided, splitting.suspects), self.needs)
        splitting.smaller = lambda culprit: self._at_its_own(splitting, culprit)
        found = splitting.blame(most)
        for one in found:
            self.rates.setdefault(one.units, self._weigher(rate, decided))
        return found

    def _at_its_own(self, splitting: Splitting, culprit: list[Unit]) -> list[Unit]:
        """Return what is left of changes that seem to be bad only together, once a rarer one among them is no more missed."""
        whole = splitting.closed(culprit)
        if len(culprit) < 2 or splitting.ask(culprit) is not SetWord.BAD:
            return culprit
        rate, decided = self._learnt(tuple(whole)), Decided()
        asked: dict[Units, SetWord] = {whole: SetWord.BAD}

        def ask(units: Iterable[Unit]) -> SetWord:
            one = splitting.closed(units)
            asked[one] = asked.get(one) or self._test(one, rate, decided, culprit)
            return asked[one]

        found = ddmin(culprit, ask)
        splitting.known[splitting.closed(found)] = ask(found)
        self.rates[tuple(found)] = self._weigher(rate, decided)
        return found

    def _weigher(self, rate: FailureRate, decided: Decided) -> FailureRate:
        return rate.learnt((word, self.seen[units]) for units, word in decided)

    def _test(self, units: Units, rate: FailureRate, decided: Decided, suspects: Sequence[Unit]) -> SetWord:
        """Run a set until it is known whether it fails at the rate; what it did before counts."""
        self.asking(units, suspects)
        seen = self.seen.setdefault(units, [])
        settled = settle(self._weigher(rate, decided), self._more(units), self._limit, self.rules.failure.most, seen)
        decided.append((units, settled.word))
        self.told(units, settled, seen)
        return settled.word

    def _more(self, units: Units) -> Callable[[int], float | NoAnswer]:
        return lambda number: self.run(units, number)

    def _until(self, units: Units, enough: Callable[[list[float]], bool]) -> Settled:
        """Run a set until that is enough; whatever failure there was is one, because the good end has none."""
        seen = self.seen.setdefault(units, [])
        while not enough(seen):
            if isinstance(one := self.run(units, len(seen)), NoAnswer):
                return Settled(SetWord.BAD if any(seen) else SetWord.UNRESOLVED, len(seen), reason=one.reason)
            seen.append(one)
        return Settled(SetWord.BAD if any(seen) else SetWord.GOOD, len(seen))

    def _proved(self, last: Blame) -> SetWord:
        """Return what is said of what is left, after as many runs as prove it; if it fails, the good end is run as often."""
        units = frozenset(last.left)
        if not units or not (any(self.seen.get(units, [])) or last.without is SetWord.GOOD):
            return last.without
        self.asking(units, last.left)
        settled = self._until(units, lambda seen: any(seen) or len(seen) >= self.rules.failure.proof)
        if settled.word is SetWord.BAD:
            self.keep_good(settled.runs)
        self.told(units, settled, self.seen[units])
        return settled.word

    def _learnt(self, left: Sequence[Unit]) -> FailureRate:
        """Learn how often some changes fail, with as many clean runs of the good end."""
        units, rules = frozenset(left), self.rules.failure
        self.asking(units, left)
        settled = self._until(units, lambda seen: bool(seen) and rules.enough(int(sum(seen)), len(seen)))
        self.keep_good(settled.runs)
        self.told(units, settled, self.seen[units])
        return FailureRate((0, max(self.rate.good[1], settled.runs)), self.counts(units))
