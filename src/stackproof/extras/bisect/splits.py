"""The search among changes: binary splits of a list, what is left is held while the rest is split again, and ddmin for what resists.

A test says of a set of changes on top of the good side: good, bad or unresolved. Nothing here knows what a change is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from stackproof.extras.bisect.evidence import SetWord

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
    """A search in progress.

    Args:
        units: all changes, those that others need before these; all together are known to be bad.
        test: asks for a set; it is asked once for each.
        needs: all that a change cannot be moved without, itself excepted.
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
        found = frozenset(units)
        return found.union(*(self.needs(unit) for unit in found)) & frozenset(self.units)

    def blame(self, most: int = 4) -> list[Blame]:
        """Return the culprits: as long as the bad side without those that are found is still bad, there is another."""
        found: list[Blame] = []
        left = list(self.units)
        without = SetWord.BAD
        while without is SetWord.BAD and len(found) < most:
            culprit = self._smallest(left)
            left = [unit for unit in left if not self.closed((unit,)) & set(culprit)]
            self.suspects = culprit
            without = self.ask(left)
            found.append(Blame(tuple(culprit), self.ask(culprit), without, tuple(left)))
        return found

    def _smallest(self, order: Sequence[Unit]) -> list[Unit]:
        """Return a smallest bad set: the change that turns the list bad, then what it must meet among those before it."""
        held, rest = list[Unit](), list(order)
        while rest and not (held and self.ask(held) is SetWord.BAD):
            low, high = self._edge(held, rest)
            held, rest = [*rest[low:high], *held], rest[:low]
        return ddmin(held, self.ask) if len(held) > 1 else held

    def _edge(self, held: list[Unit], rest: list[Unit]) -> tuple[int, int]:
        """Return between which lengths the head of the list turns bad; more than one apart where all between is unresolved."""
        low, high = 0, len(rest)
        while high - low > 1:
            self.suspects = rest[low:high]
            word, middle = self._nearest(held, rest, low, high)
            if word is SetWord.UNRESOLVED:
                break
            low, high = (low, middle) if word is SetWord.BAD else (middle, high)
        return low, high

    def _nearest(self, held: list[Unit], rest: list[Unit], low: int, high: int) -> tuple[SetWord, int]:
        """Ask for the middle, and step aside where it is unresolved."""
        middles = sorted(range(low + 1, high), key=lambda at: abs(2 * at - low - high))
        for middle in middles[: 1 + _SKIPS]:
            word = self.ask((*held, *rest[:middle]))
            if word is not SetWord.UNRESOLVED:
                break
        return word, middle


def tests_of(count: int) -> int:
    """Return how many tests one culprit of so many changes takes: the splits, it alone, all without it."""
    return math.ceil(math.log2(max(count, 2))) + 2


def ddmin(units: Sequence[Unit], ask: Callable[[Iterable[Unit]], SetWord]) -> list[Unit]:
    """Return a part of a bad set from which no single change can be left out.

    Source: Zeller and Hildebrandt 2002, IEEE Transactions on Software Engineering 28:183.
    """
    left, parts = list(units), 2
    while len(left) > 1:
        chunks = [left[len(left) * at // parts : len(left) * (at + 1) // parts] for at in range(parts)]
        rests = [[unit for unit in left if unit not in chunk] for chunk in chunks] if parts > 2 else []
        chunk = next((one for one in chunks if ask(one) is SetWord.BAD), None)
        rest = None if chunk else next((one for one in rests if ask(one) is SetWord.BAD), None)
        if chunk or rest:
            left, parts = chunk or rest or [], 2 if chunk else max(parts - 1, 2)
        elif parts < len(left):
            parts = min(len(left), 2 * parts)
        else:
            break
    return left
