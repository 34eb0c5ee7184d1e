"""Our figures beside other people's tools, measured in turn in one run: A B B A, so that drift falls on both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import median

from .. import ROOT
from ..errors import Refusal, suggestion
from ..measuring.statistics import Interval, median_interval
from ..tables import Table

FILE = ROOT / "fixtures" / "agreement.toml"

Block = Callable[[], float]
"""Runs for a while and returns the mean seconds of one unit of work: other tools tell means, and a mean is not a median."""


@dataclass(frozen=True)
class Pair:
    """One comparison: whose figure, how far apart they may be, and what the other tool does beside the same work."""

    name: str
    theirs: str
    link: str
    bound: float
    differs: str


@dataclass(frozen=True)
class Turns:
    """What the two gave, in seconds per unit of work, block by block in turn."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> Interval:
        """Ours over theirs, by rounds; above 1 where ours takes longer."""
        rounds = range(0, len(self.ours), 2)
        return median_interval([sum(self.ours[n : n + 2]) / sum(self.theirs[n : n + 2]) for n in rounds])

    @property
    def medians(self) -> tuple[float, float]:
        """The medians of both."""
        return median(self.ours), median(self.theirs)


def pair(name: str) -> Pair:
    """Return a comparison by name, or refuse and suggest the nearest."""
    if name not in pairs():
        raise Refusal(f"{FILE}: there is no pair '{name}'{suggestion(name, pairs())}; there are: {', '.join(pairs())}")
    return pairs()[name]


@cache
def pairs() -> dict[str, Pair]:
    """Return all comparisons of the file."""
    with Table.load(FILE) as table:
        return {row.name: row for row in map(_pair, table.tables("pair"))}


def _pair(table: Table) -> Pair:
    with table:
        words = {key: table.take(key, str) for key in ("name", "theirs", "link", "differs")}
        found = Pair(bound=table.take("bound", float), **words)
    if not 0 < found.bound < 1:
        raise table.refuse("bound", f"is {found.bound}; it must be a share between 0 and 1")
    return found


def side_by_side(ours: Block, theirs: Block, rounds: int) -> Turns:
    """Take turns, ours theirs theirs ours, after one block of each that does not count."""
    ours(), theirs()
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for which, block in ((0, ours), (1, theirs), (1, theirs), (0, ours)):
            taken[which].append(block())
    return Turns(tuple(taken[0]), tuple(taken[1]))
