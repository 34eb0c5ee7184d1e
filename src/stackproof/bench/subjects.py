"""What there is to measure, and how long: `data/benchmarks.toml`, read strictly; needs no torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

from stackproof import DATA
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import INLINE, OneOf, Table, Wrong
from stackproof.stack.stacks import Stack

FILE = DATA / "benchmarks.toml"
PRESETS = ("tiny", "full")


@dataclass(frozen=True)
class Budget:
    """When sampling ends: at this relative half-width of the median's interval, or after so many seconds."""

    noise: float
    seconds: float
    least: int = 10
    """Samples that are taken in any case, unless one alone takes longer than the seconds."""
    most: int = 2000
    allow_foreign: bool = False
    """Whether other processes on the card are only noted; else they end the measurement."""


@dataclass(frozen=True)
class Profile:
    """A choice of subjects, their preset, and the budget of each."""

    name: str
    title: str
    preset: Annotated[str, OneOf(PRESETS)]
    budget: Annotated[Budget, INLINE]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Subjects that differ in what the row lists under `each`."""

    name: str
    version: str
    kind: str
    unit: str
    title: str
    profiles: tuple[str, ...]
    needs: tuple[str, ...] = ()
    full_seconds: float = 0.0
    each: Mapping[str, Any] = field(default_factory=dict)
    tiny: Mapping[str, Any]
    full: Mapping[str, Any]

    def __post_init__(self) -> None:
        if set(self.tiny) != set(self.full):
            raise Wrong("full", "must have the same keys as 'tiny'")

    def subjects(self) -> Iterator[dict[str, Any]]:
        """Yield one subject for each combination of what stands under `each`."""
        shared = ("version", "kind", "unit", "title", "profiles", "needs", "full_seconds")
        for values in itertools.product(*self.each.values()):
            chosen = dict(zip(self.each, values, strict=True))
            yield {
                "name": "-".join([self.name, *map(_word, chosen.items())]),
                **{key: getattr(self, key) for key in shared},
                "parameters": {"tiny": {**self.tiny, **chosen}, "full": {**self.full, **chosen}},
            }


@dataclass(frozen=True)
class _File:
    profile: tuple[Profile, ...]
    subject: tuple[_Row, ...]


@dataclass(frozen=True)
class Subject:
    """One thing to measure. `name` is stable and kebab-case; `version` changes when its figures stop being comparable."""

    name: str
    version: str
    kind: str
    unit: str
    title: str
    profiles: tuple[str, ...]
    needs: tuple[str, ...]
    """Capabilities (`data/capabilities.toml`) without which the stack is not asked."""
    parameters: Mapping[str, Mapping[str, Any]]
    """What its kind wants to know, by preset."""
    stack: Stack
    full_seconds: float = 0.0
    """How long the full preset is sampled at least, whatever the profile says: some steps take seconds."""

    def table(self, preset: str) -> Table:
        """Return the parameters of a preset, to be consumed strictly."""
        return Table(FILE, dict(self.parameters[preset]), f"{self.name}.{preset}.")

    @property
    def dtype(self) -> str:
        """The dtype that it computes in, where its row says so."""
        return str(self.parameters["tiny"].get("dtype", ""))


def profiles() -> tuple[Profile, ...]:
    """Return all profiles, in the order of the file."""
    return _read()[0]


def profile(name: str) -> Profile:
    """Return a profile by name, or refuse and suggest the nearest."""
    known = {row.name: row for row in profiles()}
    if name not in known:
        raise Refusal(f"there is no profile '{name}'{suggestion(name, known)}; there are: {', '.join(known)}")
    return known[name]


def subjects(chosen: str, stack: Stack) -> tuple[Subject, ...]:
    """Return the subjects of a profile, bound to a stack; what the stack cannot run says so when it is measured."""
    profile(chosen)
    return tuple(Subject(**row, stack=stack) for row in _read()[1] if chosen in row["profiles"])


@cache
def _read() -> tuple[tuple[Profile, ...], tuple[dict[str, Any], ...]]:
    table = Table.load(FILE)
    read = table.row(_File)
    names = [row.name for row in read.profile]
    for number, row in enumerate(read.subject):
        for profile in row.profiles:
            if profile not in names:
                words = f"is {profile!r}{suggestion(profile, names)}; allowed: {', '.join(map(repr, names))}"
                raise table.refuse(f"subject[{number}].profiles", words)
    rows = tuple(each for row in read.subject for each in row.subjects())
    known = [row["name"] for row in rows]
    if twice := next((name for name in known if known.count(name) > 1), None):
        raise Refusal(f"{FILE}: there are two subjects '{twice}'; give one another name")
    return read.profile, rows


def _word(item: tuple[str, Any]) -> str:
    """Return how a value shows in a subject's name: `bfloat16`, `2-ranks`, `4-mib`, `64-kib`."""
    key, value = item
    if key == "mib":
        return f"{value:g}-mib" if value >= 1 else f"{value * 1024:g}-kib"
    return f"{value}-ranks" if key == "ranks" else str(value)
