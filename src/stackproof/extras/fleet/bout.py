"""A suspect and one healthy host, both up: the same work in turns, by their clocks and by ours; or the same products at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, TypeVar

from stackproof.extras.fleet import spoken
from stackproof.extras.fleet.answers import Replayed
from stackproof.extras.fleet.far import FarSide, LeftOpenError, SideLostError
from stackproof.extras.fleet.rules import DuelRules

_OPEN_S, _WARM_S, _LEAST_BLOCK_S = 300.0, 3.0, 60.0
Told = TypeVar("Told")


class TurnRatios(NamedTuple):
    """Of one turn, suspect over partner: of the seconds that they say, and of those that we have waited."""

    told: float
    waited: float


@dataclass
class Bout:
    """The two sides, and how many turns they have taken."""

    suspect: FarSide
    healthy: FarSide
    terms: DuelRules
    profile: str
    turns: int = 0
    _shares: dict[str, list[float]] = field(default_factory=dict)
    """By host, of each block: what it says, over what we have waited."""

    def meet(self) -> str:
        """Wait until both are up; say in what their states differ, of what they must share to be compared."""
        return spoken.differing(self.healthy.hello(), self.suspect.hello())

    def timed(self, subject: str) -> list[float]:
        """Take turns in one subject, and return the ratio of each.

        Raises:
            LeftOpenError: one of them cannot, or their clocks and ours do not agree.
            SideLostError: one of them is gone, or not believed.
        """
        self._both("open", FarSide.answer, subject=subject, preset=self.profile)
        took = max(side.warm(_WARM_S, _OPEN_S) for side in (self.suspect, self.healthy))
        runs = max(1, round(self.terms.block / took))
        deadline = _LEAST_BLOCK_S + 20 * runs * took
        self._shares = {side.host: [] for side in (self.suspect, self.healthy)}
        found = [self._turn(runs, deadline, number % 2 == 1) for number in range(self.terms.turns)]
        self._both("close", FarSide.answer)
        if doubt := self._doubt(found):
            raise LeftOpenError(doubt)
        return [ratios.told for ratios in found]

    def _doubt(self, found: Sequence[TurnRatios]) -> str:
        """Say why these times are not believed: they leave too much of what we have waited, or have another ratio."""
        for host, shares in self._shares.items():
            if median(shares) < self.terms.worked:
                return f"{host}'s side says that it worked for {median(shares):.1%} of what we have waited for it"
        told, waited = (median(ratios) for ratios in zip(*found, strict=True))
        if abs(math.log(told / waited)) > math.log1p(self.terms.clocks):
            return f"by the hosts' own clocks {100 * (told - 1):+.1f} %, and by ours {100 * (waited - 1):+.1f} %"
        return ""

    def replayed(self, kernel: str, pattern: str) -> list[Replayed]:
        """Let both replay the same; return what the suspect said, and its partner."""
        products = self.terms.products
        return self._both(
            "replay", lambda side: side.replayed(products), kernel=kernel, pattern=pattern, products=products
        )

    def _turn(self, runs: int, deadline: float, mirrored: bool) -> TurnRatios:
        """Take one turn A B B A, or B A A B: drift within it cancels."""
        own, other = self.suspect, self.healthy
        told = waited = 0.0
        for side in (other, own, own, other) if mirrored else (own, other, other, own):
            block, sign = side.block(runs, deadline), 1 if side is own else -1
            self._shares[side.host].append(block.told / block.waited)
            told, waited = told + sign * math.log(block.told), waited + sign * math.log(block.waited)
        self.turns += 1
        return TurnRatios(math.exp(told / 2), math.exp(waited / 2))

    def _both(self, request: str, read: Callable[[FarSide], Told], **arguments: object) -> list[Told]:
        """Let both work on one request at once; both answers are taken before a bad one is raised, the gravest first."""
        for side in (self.suspect, self.healthy):
            side.ask(request, _OPEN_S, **arguments)
        found, bad = list[Told](), list[Exception]()
        for side in (self.suspect, self.healthy):
            try:
                found.append(read(side))
            except (SideLostError, LeftOpenError) as error:
                bad.append(error)
        if bad:
            raise next((one for one in bad if isinstance(one, SideLostError)), bad[0])
        return found
