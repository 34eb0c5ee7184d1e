"""Whether a group agrees with itself in a subject: where it does not, or is too small, the middle is no reference, and nobody is proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stackproof.extras.fleet import outliers, rules
from stackproof.extras.fleet.outliers import RobustSpread


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
        return (
            1 / self.spread.ratio(seconds) - 1 >= rules.load().judging.effect and self.spread.z(seconds) <= -self.fast
        )

    def odd(self, seconds: float) -> bool:
        """Whether a card is slow enough to be suspected; what is slower than the blind share needs no more than in a large group."""
        judging, slower = rules.load().judging, self.spread.ratio(seconds) - 1
        least = judging.suspect if slower >= judging.blind else self.suspect
        return slower >= judging.effect and self.spread.z(seconds) >= least


def yardstick(seconds: Sequence[float], looks: int) -> Yardstick:
    """Return the yardstick of a subject; `looks`: cards times subjects of the group, for the error of all together."""
    judging, small = rules.load().judging, rules.small(len(seconds))
    spread = outliers.spread(seconds, judging.floor)
    if small is None:
        first = rules.load().small[0]
        doubt = f"{len(seconds)} cards are too few to compare; {first.cards} are needed"
        return Yardstick(spread, judging.suspect * first.suspect, float("inf"), doubt)
    chance = outliers.limit(judging.family, looks)
    suspect, limit = judging.suspect * small.suspect, chance * small.limit
    found = Yardstick(spread, suspect, limit, "", max(suspect, chance))
    return replace(found, doubt=_two(seconds, small.modes) or _blind(found) or _faster(seconds, found))


def _blind(found: Yardstick) -> str:
    """Say that hosts differ so much that the comparison cannot see what it must."""
    sees, most = found.suspect * found.spread.scale, rules.load().judging.blind
    if sees <= most:
        return ""
    return f"its cards differ by {found.spread.scale:.1%}, so that one which is {most:.0%} slow would not be seen"


def _two(seconds: Sequence[float], beyond: float) -> str:
    """Say that there are two populations, of which nobody can say which one is right."""
    judging = rules.load().judging
    if not beyond:
        return ""
    found = outliers.modes(seconds, judging.half, judging.floor)
    if found.distance < beyond or found.apart < judging.effect:
        return ""
    return f"two populations: {found.slower} of {len(seconds)} cards are {found.apart:.1%} slower than the others"


def _faster(seconds: Sequence[float], found: Yardstick) -> str:
    """Say that several are faster than the middle by as much as a slow one is slower: the middle may be the slow ones."""
    judging = rules.load().judging
    fast = [
        one
        for one in seconds
        if found.spread.z(one) <= -found.limit and 1 / found.spread.ratio(one) - 1 >= judging.effect
    ]
    if not fast or len(fast) < judging.split * len(seconds):
        return ""
    gap = 1 / found.spread.ratio(sorted(fast)[len(fast) // 2]) - 1
    return f"two populations: {len(seconds) - len(fast)} of {len(seconds)} cards are {gap:.1%} slower than the others"
