"""What a night does, and how much of it: `data/night.toml`, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from stackproof.api.base import DATA, Table
from stackproof.api.gate import ByDevice, require_other

FILE = DATA / "night.toml"


@dataclass(frozen=True)
class _Measure:
    launches: Mapping[str, int]

    def __post_init__(self) -> None:
        require_other("launches", self.launches)


@dataclass(frozen=True)
class _Verify:
    minutes: ByDevice
    deadline: float

    def __post_init__(self) -> None:
        require_other("minutes", self.minutes)


@dataclass(frozen=True)
class AdmissionRules:
    """What makes a night disturbed."""

    load: ByDevice
    throttled: tuple[str, ...]
    others: bool
    pause: float

    def __post_init__(self) -> None:
        require_other("load", self.load)


@dataclass(frozen=True)
class _Confirm:
    most: int
    minutes: float


@dataclass(frozen=True)
class _Energy:
    seconds: float


@dataclass(frozen=True)
class NightPlan:
    """The whole table."""

    measure: _Measure
    verify: _Verify
    admission: AdmissionRules
    confirm: _Confirm
    energy: _Energy


@cache
def load() -> NightPlan:
    """Return the plan of the file; a slip in it is refused by key."""
    return Table.load(FILE).row(NightPlan)
