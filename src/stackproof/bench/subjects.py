"""What there is to measure, and how long: `data/benchmarks.toml`, read strictly; needs no torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from stackproof import DATA
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import Table
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
    preset: str
    budget: Budget


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
    with Table.load(FILE) as table:
        found = tuple(map(_profile, table.tables("profile")))
        names = [row.name for row in found]
        rows = tuple(each for row in table.tables("subject") for each in _subjects(row, names))
    known: set[str] = set()
    for row in rows:
        if row["name"] in known:
            raise Refusal(f"{FILE}: there are two subjects '{row['name']}'; give one another name")
        known.add(row["name"])
    return found, rows


def _profile(table: Table) -> Profile:
    with table:
        return Profile(
            name=table.take("name", str),
            title=table.take("title", str),
            preset=table.take("preset", str, allowed=PRESETS),
            budget=Budget(table.take("noise", float), table.take("seconds", float), table.take("least", int)),
        )


def _subjects(table: Table, known: list[str]) -> Iterator[dict[str, Any]]:
    """Yield one subject for each combination of what the row lists under `each`."""
    with table:
        name = table.take("name", str)
        shared = {
            "version": table.take("version", str),
            "kind": table.take("kind", str),
            "unit": table.take("unit", str),
            "title": table.take("title", str),
            "profiles": table.strings("profiles", allowed=known),
            "needs": table.strings("needs", []),
            "full_seconds": table.take("full_seconds", float, 0.0),
        }
        each = table.take("each", dict, {})
        presets = {preset: table.take(preset, dict) for preset in PRESETS}
    if set(presets["tiny"]) != set(presets["full"]):
        raise table.refuse("full", "must have the same keys as 'tiny'")
    for values in itertools.product(*each.values()):
        chosen = dict(zip(each, values, strict=True))
        parameters = {preset: {**row, **chosen} for preset, row in presets.items()}
        yield {"name": "-".join([name, *map(_word, chosen.items())]), **shared, "parameters": parameters}


def _word(item: tuple[str, Any]) -> str:
    """Return how a value shows in a subject's name: `bfloat16`, `2-ranks`, `4-mib`, `64-kib`."""
    key, value = item
    if key == "mib":
        return f"{value:g}-mib" if value >= 1 else f"{value * 1024:g}-kib"
    return f"{value}-ranks" if key == "ranks" else str(value)
