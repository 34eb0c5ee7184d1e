"""What a fleet is judged by: `data/fleet.toml`, read strictly; needs no torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stackproof.api.base import Refusal, places, text, toml

FILE = places.DATA / "fleet.toml"
VERB = "fleet"
"""The verb of a host's record."""
FIRST, BLOCK = 3, 8
"""The replay computes each kind so often at first, and then in blocks of so many, one at least when cold and one when hot."""
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Judging:
    """When a host is suspected; shares are of its group's median."""

    suspect: float
    effect: float
    family: float
    floor: float
    least: int
    share: float
    plenty: int
    split: float
    blind: float
    half: float

    def __post_init__(self) -> None:
        if not 0 < self.family < 1:
            raise toml.Wrong("family", f"is {self.family}; it must be between 0 and 1")
        if self.least < 3:
            raise toml.Wrong(
                "least", f"is {self.least}; of two hosts nobody can say which one is odd, so it must be 3 or more"
            )

    def enough(self, hosts: int) -> int:
        """Return how many equal hosts make a group, of so many of their architecture."""
        return max(self.least, min(self.plenty, math.ceil(self.share * hosts)))


@dataclass(frozen=True)
class SmallGroup:
    """What a group of so many cards needs: times the z of a large one, and when two modes are two."""

    cards: int
    suspect: float
    limit: float
    modes: float


@dataclass(frozen=True)
class Limits:
    """What is read of a host's record at most."""

    mib: int
    records: int
    cards: int
    rows: int


@dataclass(frozen=True)
class StateRules:
    """Which facts make hosts unlike: patterns, and what `card` writes down for them."""

    ignored: tuple[str, ...]
    clocks: tuple[str, ...]
    files: tuple[str, ...]
    telemetry: tuple[str, ...]


@dataclass(frozen=True)
class CardProfile:
    """What a host does: subjects of the benchmarks with when sampling ends, and seconds of each row of the replay, twice."""

    name: str
    benchmarks: str
    subjects: tuple[str, ...]
    turns: tuple[str, ...]
    """Of these, what shares the host: its cards take turns."""
    together: tuple[str, ...]
    noise: float
    seconds: float
    least: int
    most: int
    replay: float
    deadline: float
    devices: tuple[str, ...] = ()
    """The types of device for which a plan takes it, if nobody says which; the last profile is that of all others."""
    cannot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By type of device, subjects that it cannot do."""
    shared: tuple[str, ...] = ()
    """The types of device of which ranks share one; of all others each rank needs its own."""


@dataclass(frozen=True)
class ReplaySize:
    """How many products at once, and how large."""

    batch: int
    size: int


@dataclass(frozen=True)
class ReplayRow:
    """One kernel in several dtypes."""

    kernel: str
    dtypes: tuple[str, ...]
    tiny: ReplaySize
    full: ReplaySize


@dataclass(frozen=True)
class FleetRules:
    """The whole table; `sizes`: how much one run of a subject is, by profile; `patterns`: of values of the replay."""

    small: tuple[SmallGroup, ...]
    patterns: tuple[str, ...]
    judging: Judging
    limits: Limits
    state: StateRules
    profile: tuple[CardProfile, ...]
    sizes: Mapping[str, Mapping[str, float]]
    replay: tuple[ReplayRow, ...]
    environment: Mapping[str, str]

    def __post_init__(self) -> None:
        named = (name for one in self.profile for name in (*one.subjects, *one.together))
        if lacking := [name for name in named if name not in self.sizes]:
            raise toml.Wrong("sizes", f"has no row of '{lacking[0]}', which a profile has")


@cache
def load() -> FleetRules:
    """Read the table."""
    return toml.Table.load(FILE).row(FleetRules)


def small(cards: int) -> SmallGroup | None:
    """Return what a group of so many cards needs; None where they are too few to be compared."""
    fitting = [row for row in load().small if row.cards <= cards]
    return max(fitting, key=lambda row: row.cards, default=None)


def profile(name: str) -> CardProfile:
    """Return what a host does in a profile of the plan."""
    return next(one for one in load().profile if one.name == name)


def usual(kind: str) -> str:
    """Return the profile of a plan for a type of device."""
    rows = load().profile
    return next((one.name for one in rows if kind in one.devices), rows[-1].name)


def is_host(name: str) -> bool:
    """Whether a name can be a host's: letters, digits, dots, hyphens; so never an option, a path or a command."""
    return bool(_HOST.fullmatch(name)) and ".." not in name


def host(name: str) -> str:
    """Return the name of a host.

    Raises:
        Refusal: it cannot be one.
    """
    if not is_host(name):
        shown = text.plain(name, 80, lines=False)
        raise Refusal(
            f"'{shown}' is no name of a host; write letters, digits, dots and hyphens, beginning with a letter or a digit"
        )
    return name
