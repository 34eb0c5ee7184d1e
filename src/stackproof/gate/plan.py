"""What the gate compares and what it promises: `data/gate.toml`, read strictly; needs no torch and no scipy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.toml import Table

FILE = DATA / "gate.toml"
_OTHER = "other"
Value = TypeVar("Value")
CAPTURE = "capture"
"""The quantity that takes so long that it may be seen in the first launches only."""


@dataclass(frozen=True)
class Quantity:
    """Something besides a subject's time that is judged with noise; less is better."""

    name: str
    unit: str
    effects: Mapping[str, float]
    """Minimum effect by device type; `other` for those that are not listed."""
    title: str
    aside: bool = False
    """Whether it is judged by the launches that other cells need, and asks for none of its own."""

    def effect(self, kind: str) -> float:
        """Return the minimum effect on a type of device, as a fraction."""
        return _of(self.effects, kind)


@dataclass(frozen=True)
class Condition:
    """A figure of the vendor's tool, by a part of its name, and the change from which on it is worth a word."""

    name: str
    title: str
    share: float
    """Relative change; 0 where `rise` counts."""
    rise: float
    """Absolute change in the figure's own unit; 0 where `share` counts."""


@dataclass(frozen=True)
class GatePlan:
    """Everything that is declared before the first launch."""

    looks: tuple[int, ...]
    alpha: float
    rounds: int
    block_seconds: float
    subject_seconds: float
    """How long all blocks of a subject may take together before there are fewer rounds."""
    effects: Mapping[str, float]
    """Minimum effect by device type; `other` for those that are not listed."""
    profiles: Mapping[str, str]
    """Which profile is compared where none is asked for, likewise."""
    quantities: Mapping[str, Quantity]
    counters: Mapping[str, str]
    """What is counted exactly: name and title."""
    exceptions: Mapping[str, float]
    """Minimum effect of single subjects."""
    left_out: tuple[str, ...]
    """Kinds of work that cannot be one of two live sides, because they start processes of their own."""
    compared: tuple[str, ...]
    """Paths of the repository that a commit brings along as a side."""
    counts: int
    """In how many launches counters are counted: one tells them, a second tells those that vary by themselves."""
    captured: tuple[str, ...]
    """Subjects whose model is handed to `torch.compile`."""
    captures: int
    """In how many launches."""
    conditions: tuple[Condition, ...]
    spared: Mapping[tuple[str, str], str]
    """Subjects that are not worth their time on a type of device: the reason by name and type."""

    @property
    def judged(self) -> tuple[str, ...]:
        """The quantities that are seen in launches enough to be judged."""
        return tuple(name for name in self.quantities if name != CAPTURE or self.captures >= self.looks[0])

    def effect(self, subject: str, kind: str) -> float:
        """Return the minimum effect of a subject's time on a type of device, as a fraction."""
        return self.exceptions.get(subject, _of(self.effects, kind))

    def profile(self, kind: str) -> str:
        """Return the profile that suits a type of device."""
        return _of(self.profiles, kind)


@cache
def load() -> GatePlan:
    """Return the plan of the file; a slip in it is refused by key."""
    with Table.load(FILE) as table:
        with table.table("design") as design:
            looks = tuple(design.take("looks", list))
            alpha, rounds = design.take("alpha", float), design.take("rounds", int)
            block, whole = design.take("block_seconds", float), design.take("subject_seconds", float)
            left_out = design.strings("left_out", [])
        with table.table("compared") as row:
            compared = row.strings("paths")
        with table.table("count") as row:
            counts = row.take("launches", int)
        with table.table("capture") as row:
            captured, captures = row.strings("subjects", []), row.take("launches", int)
        spared = dict(pair for row in table.tables("left_out") for pair in _spared(row))
        effects, profiles = _by_device(table, "effect"), _by_device(table, "profile")
        quantities = {row.name: row for row in map(_quantity, table.tables("quantity"))}
        counters = dict(map(_counter, table.tables("counter")))
        conditions = tuple(map(_condition, table.tables("condition")))
        exceptions = dict(map(_exception, table.tables("subject")))
    if list(looks) != sorted(set(looks)) or not looks or looks[0] < 3:
        raise Refusal(f"{FILE}: 'looks' must rise from 3 or more launches")
    if not 1 <= captures <= counts:
        raise Refusal(f"{FILE}: the launches of 'capture' must be among those of 'count', which are 1 or more")
    return GatePlan(
        looks,
        alpha,
        rounds,
        block,
        whole,
        effects,
        profiles,
        quantities,
        counters,
        exceptions,
        left_out,
        compared,
        counts,
        captured,
        captures,
        conditions,
        spared,
    )


def _quantity(row: Table) -> Quantity:
    with row:
        return Quantity(
            row.take("name", str),
            row.take("unit", str),
            _by_device(row, "effect"),
            row.take("title", str),
            row.take("aside", bool, False),
        )


def _by_device(table: Table, key: str) -> dict[str, Any]:
    """Take values by device type; those that are not listed need one too."""
    found: dict[str, Any] = table.take(key, dict)
    if _OTHER not in found:
        raise table.refuse(key, f"needs '{_OTHER}', for devices that are not listed")
    return found


def _of(values: Mapping[str, Value], kind: str) -> Value:
    """Return the value for a type of device."""
    return values.get(kind, values[_OTHER])


def _spared(row: Table) -> list[tuple[tuple[str, str], str]]:
    with row:
        subject, reason = row.take("subject", str), row.take("reason", str)
        return [((subject, device), reason) for device in row.strings("devices")]


def _condition(row: Table) -> Condition:
    with row:
        name, title = row.take("name", str), row.take("title", str)
        return Condition(name, title, row.take("share", float, 0.0), row.take("rise", float, 0.0))


def _counter(row: Table) -> tuple[str, str]:
    with row:
        return row.take("name", str), row.take("title", str)


def _exception(row: Table) -> tuple[str, float]:
    with row:
        row.take("reason", str)
        return row.take("name", str), row.take("effect", float)
