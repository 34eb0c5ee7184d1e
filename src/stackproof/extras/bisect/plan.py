"""What a bisection promises and how much it spends: `data/bisect.toml`, read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stackproof.api.base import places, toml
from stackproof.api.gate import plan

FILE = places.DATA / "bisect.toml"


@dataclass(frozen=True)
class ConfirmRules(plan.Design):
    """When the ends are judged, and the error of all looks together."""

    def __post_init__(self) -> None:
        self.require_looks()


@dataclass(frozen=True)
class SearchRules:
    """The error of all steps, launches of one set, when a commit is named, and how many commits run side by side."""

    error: float
    most: int
    sure: float
    beside: int


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
        """Whether it is known how often an end fails: a failure in every run or in none takes fewer than a rate."""
        if failed == runs:
            return runs >= (self.least if late else self.always)
        wanted = self.learnt if failed else self.never
        return failed >= self.failures or runs >= (self.least if late else wanted)


@dataclass(frozen=True)
class LimitRules:
    """Disk for the environments of tests, when a side hangs, and the variables that name folders of compilers."""

    gib: float
    hang_times: float
    """How many times what the good side took."""
    hang_least: float
    """Seconds."""
    caches: tuple[str, ...]


@dataclass(frozen=True)
class BisectPlan:
    """The whole table."""

    confirm: ConfirmRules
    search: SearchRules
    failure: FailureRules
    limits: LimitRules


@cache
def load() -> BisectPlan:
    """Return the plan of the file; a slip in it is refused by key."""
    return toml.Table.load(FILE).row(BisectPlan)
