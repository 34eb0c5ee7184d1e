"""Equal cards compared with each other: who is slow by a robust z of logarithms, and whose digests the majority does not share.

Where a group does not agree with itself, or is too small, its middle is no reference, and nobody is proved by it. There is no golden file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median, quantiles

from stackproof.api.base import statistics
from stackproof.extras.fleet import rules
from stackproof.extras.fleet.answers import CardAnswer

_QUARTILES = 1.3489795
"""The distance of the quartiles of normal numbers over their standard deviation."""
_CUTS = 16
_MAJORITY = 3
"""So many cards have a majority; of two that differ nobody can say which one is right."""


@dataclass(frozen=True)
class RobustSpread:
    """The middle of a group and how far its cards are from it, in logarithms of seconds."""

    centre: float
    scale: float

    def z(self, seconds: float) -> float:
        """Return by how many spreads a card is slower (above 0) or faster."""
        return (math.log(seconds) - self.centre) / self.scale

    def ratio(self, seconds: float) -> float:
        """Return a card's seconds over the median's."""
        return math.exp(math.log(seconds) - self.centre)


def spread(seconds: Sequence[float], floor: float) -> RobustSpread:
    """Return median and spread of a group; equal cards are taken to differ by the floor at least.

    Half of the cards may be anything before either moves without bound (Huber and Ronchetti, Robust Statistics, section 5.2).
    """
    logs = [math.log(one) for one in seconds]
    centre = median(logs)
    return RobustSpread(centre, max(statistics.robust_sigma(logs), floor))


def limit(family: float, comparisons: int) -> float:
    """Return the z that the largest of so many comparisons exceeds by chance with this probability (Sidak 1967), if noise is normal.

    Heavy tails exceed it more often, which is why suspects are swept again before anybody is drained.
    """
    each = -math.expm1(math.log1p(-family) / max(comparisons, 1))
    return NormalDist().inv_cdf(1 - each)


@dataclass(frozen=True)
class TwoModes:
    """Figures of a group as two populations: medians of both, how many are in the slower one, their distance over their spread."""

    fast: float
    slow: float
    slower: int
    distance: float

    @property
    def apart(self) -> float:
        """Return by which share the slower ones are slower."""
        return self.slow / self.fast - 1


def modes(seconds: Sequence[float], share: float, floor: float) -> TwoModes:
    """Return the two halves, of this share of all at least, that stand furthest apart (Ashman's D, of medians and quartiles).

    Normal figures reach 2.4 in a large group, and more in a small one; two populations that do not overlap reach 5 and more.
    """
    ordered = sorted(map(math.log, seconds))
    least = max(2, math.ceil(share * len(ordered)))
    cuts = sorted({least + (len(ordered) - 2 * least) * number // _CUTS for number in range(_CUTS + 1)})
    return max((_cut(ordered, at, floor) for at in cuts), key=lambda one: one.distance)


def _cut(ordered: Sequence[float], at: int, floor: float) -> TwoModes:
    middle, high, widths = median(ordered[:at]), median(ordered[at:]), []
    for half in (ordered[:at], ordered[at:]):
        first, _, third = quantiles(half, n=4, method="inclusive")
        widths.append((third - first) / _QUARTILES)
    slower = sum(one > (middle + high) / 2 for one in ordered)
    distance = (high - middle) / max(math.hypot(*widths) / math.sqrt(2), floor)
    return TwoModes(math.exp(middle), math.exp(high), slower, distance)


@dataclass(frozen=True)
class Yardstick:
    """How one subject of a group is measured: its spread, from which z a card is odd, and what speaks against the middle itself."""

    spread: RobustSpread
    suspect: float
    limit: float
    doubt: str
    fast: float = float("inf")
    """From this z on, below the middle, a card is so fast that the others may be slow."""

    def faster(self, seconds: float) -> bool:
        """Whether a card is as much faster than the middle as would make a slow one odd, and beyond chance in a fleet of this size."""
        gain = 1 / self.spread.ratio(seconds) - 1
        return gain >= rules.load().judging.effect and self.spread.z(seconds) <= -self.fast

    def odd(self, seconds: float) -> bool:
        """Whether a card is slow enough to be suspected; what is slower than the blind share needs no more than in a large group."""
        judging, slower = rules.load().judging, self.spread.ratio(seconds) - 1
        least = judging.suspect if slower >= judging.blind else self.suspect
        return slower >= judging.effect and self.spread.z(seconds) >= least


def yardstick(seconds: Sequence[float], comparisons: int) -> Yardstick:
    """Return the yardstick of a subject; `comparisons`: cards times subjects of the group, for the error of all together."""
    judging, small = rules.load().judging, rules.small(len(seconds))
    own = spread(seconds, judging.floor)
    if small is None:
        first = rules.load().small[0]
        doubt = f"{len(seconds)} cards are too few to compare; {first.cards} are needed"
        return Yardstick(own, judging.suspect * first.suspect, float("inf"), doubt)
    chance = limit(judging.family, comparisons)
    suspect = judging.suspect * small.suspect
    found = Yardstick(own, suspect, chance * small.limit, "", max(suspect, chance))
    return replace(found, doubt=_two(seconds, small.modes) or _blind(found) or _faster(seconds, found))


def _two(seconds: Sequence[float], beyond: float) -> str:
    """Say that there are two populations, of which nobody can say which one is right."""
    judging = rules.load().judging
    if not beyond:
        return ""
    found = modes(seconds, judging.half, judging.floor)
    if found.distance < beyond or found.apart < judging.effect:
        return ""
    return f"two populations: {found.slower} of {len(seconds)} cards are {found.apart:.1%} slower than the others"


def _blind(found: Yardstick) -> str:
    """Say that cards differ so much that the comparison cannot see what it must."""
    most = rules.load().judging.blind
    if found.suspect * found.spread.scale <= most:
        return ""
    return f"its cards differ by {found.spread.scale:.1%}, so that one which is {most:.0%} slow would not be seen"


def _faster(seconds: Sequence[float], found: Yardstick) -> str:
    """Say that several are faster than the middle by as much as a slow one is slower: the middle may be the slow ones."""
    judging = rules.load().judging
    gains = [1 / found.spread.ratio(one) - 1 for one in seconds if found.spread.z(one) <= -found.limit]
    gains = sorted(gain for gain in gains if gain >= judging.effect)
    if not gains or len(gains) < judging.split * len(seconds):
        return ""
    gap = gains[(len(gains) - 1) // 2]
    return f"two populations: {len(seconds) - len(gains)} of {len(seconds)} cards are {gap:.1%} slower than the others"


@dataclass(frozen=True)
class OddDigest:
    """One card and one row of the replay in which it computes wrong, in a sentence."""

    host: str
    card: str
    row: str
    sentence: str


@dataclass(frozen=True)
class DigestVote:
    """What the cards of a group say of one row; without a majority `digest` is empty, and nobody is odd by it."""

    row: str
    digest: str
    cards: int
    products: int
    answers: int
    """How many different digests there are."""

    @property
    def torn(self) -> bool:
        """Whether there are several answers and no majority for one."""
        return not self.digest and self.answers > 1


def vote(cards: Sequence[CardAnswer]) -> list[DigestVote]:
    """Return the vote on each row of the replay."""
    votes = []
    for row in sorted({row for card in cards for row in card.replayed}):
        seen = [card.replayed[row] for card in cards if row in card.replayed]
        counts = Counter(one.digest for one in seen)
        digest, most = counts.most_common(1)[0]
        clear = 2 * most > len(seen) and len(seen) >= _MAJORITY
        votes.append(
            DigestVote(row, digest if clear else "", len(seen), sum(one.products for one in seen), len(counts))
        )
    return votes


def odd_digests(cards: Sequence[CardAnswer], votes: Sequence[DigestVote]) -> Iterator[OddDigest]:
    """Yield every card that computes wrong in a row: transient by its own repeats, or persistent by the majority."""
    chosen = {one.row: one for one in votes}
    for card in cards:
        for row, seen in card.replayed.items():
            voted = chosen[row]
            if seen.odd:
                said = f"transient: {seen.odd} of {seen.products} equal products gave something else on this very card"
                yield OddDigest(card.host, card.number, row, said)
            elif voted.digest and seen.digest != voted.digest:
                said = f"persistent: {seen.products} products gave {seen.digest}, and the majority of {voted.cards} cards {voted.digest}"
                yield OddDigest(card.host, card.number, row, said)


def software(groups: Sequence[tuple[str, Sequence[DigestVote]]]) -> Iterator[str]:
    """Yield a sentence for each row in which whole groups of one architecture differ, or in which a group has no majority.

    `groups`: what a group is called, and its votes. All cards of one lock differ from those of another: that is its kernels, no defect.
    """
    for name, votes in groups:
        if torn := [one for one in votes if one.torn]:
            such = f"{torn[0].row} ({torn[0].answers} answers of {torn[0].cards} cards)"
            yield f"{name}: no majority in {len(torn)} rows, such as {such}"
    for at, (name, votes) in enumerate(groups):
        mine = {one.row: one.digest for one in votes if one.digest}
        for other, theirs in groups[:at]:
            if rows := [one.row for one in theirs if one.digest and mine.get(one.row, one.digest) != one.digest]:
                yield f"software: all of {name} differ from all of {other} in {len(rows)} rows, such as {rows[0]}"
