"""What the gate compares and what it promises: `data/gate.toml`, read strictly; needs no torch and no scipy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Annotated, Any, TypeVar

from stackproof import DATA
from stackproof.base.toml import Key, Table

FILE = DATA / "gate.toml"
Value = TypeVar("Value")
RANKED = ("collective", "data-parallel")
"""The kinds of work that take ranks, which processes of their own are for."""
ByDevice = Mapping[str, float]


def of(values: Mapping[str, Value], kind: str) -> Value:
    return values.get(kind, values["other"])


@dataclass(frozen=True)
class Quantity:
    """Something besides a subject's time that is judged with noise; less is better."""

    name: str
    unit: str
    effects: Annotated[ByDevice, Key("effect")]
    """Minimum effect by device type; `other` for those that are not listed."""
    title: str
    aside: bool = False
    """Whether it is judged by the launches that other cells need, and asks for none of its own."""

    def effect(self, kind: str) -> float:
        """Return the minimum effect on a type of device, as a fraction."""
        return of(self.effects, kind)


@dataclass(frozen=True)
class Condition:
    """A figure of the vendor's tool, by a part of its name, and the change from which on it is worth a word."""

    name: str
    title: str
    share: float = 0.0
    """Relative change; 0 where `rise` counts."""
    rise: float = 0.0
    """Absolute change in the figure's own unit; 0 where `share` counts."""


@dataclass(frozen=True)
class Design:
    """What is promised before anything is measured.

    `looks`: after how many launches the data are judged; the last is the cap. `alpha`: the two-sided error of all looks together. It
    is split evenly among them (Bonferroni), so that more launches until decided are no retry until it passes.
    """

    looks: tuple[int, ...] = (4, 7, 10, 14)
    alpha: float = 0.01

    @property
    def per_look(self) -> float:
        """The two-sided error of each look."""
        return self.alpha / len(self.looks)

    @property
    def promise(self) -> str:
        """The promise in words."""
        return f"{1 - self.alpha:.0%} sure, looked at after {', '.join(map(str, self.looks))} launches"


@dataclass(frozen=True)
class GateDesign(Design):
    """How long the blocks of a launch are, besides."""

    rounds: int = 6
    block_seconds: float = 0.04
    subject_seconds: float = 4.0
    """How long all blocks of a subject may take together before there are fewer rounds."""
    left_out: tuple[str, ...] = ()
    """Kinds of work that cannot be one of two live sides, because they start processes of their own."""


@dataclass(frozen=True)
class Counters:
    """What is counted exactly, by name, and in how many launches: one tells them, a second those that vary by themselves."""

    names: tuple[str, ...]
    launches: int


@dataclass(frozen=True)
class GatePlan:
    """Everything that is declared before the first launch."""

    design: GateDesign
    compared: tuple[str, ...]
    """Paths of the repository that a commit brings along as a side."""
    effects: Annotated[ByDevice, Key("effect")]
    """Minimum effect by device type; `other` for those that are not listed."""
    profiles: Annotated[Mapping[str, str], Key("profile")]
    """Which profile is compared where none is asked for, likewise."""
    count: Counters
    conditions: Annotated[tuple[Condition, ...], Key("condition")]
    quantity: tuple[Quantity, ...]
    asked: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What subjects ask of the gate, by name, as a side says it: `effect`, `spared`."""

    @cached_property
    def quantities(self) -> Mapping[str, Quantity]:
        """What is judged besides times, by name."""
        return {row.name: row for row in self.quantity}

    def untimed(self) -> GatePlan:
        """Return the plan without all that is judged with noise."""
        return replace(self, design=replace(self.design, rounds=0), quantity=())

    def effect(self, subject: str, kind: str) -> float:
        """Return the minimum effect of a subject's time on a type of device, as a fraction."""
        return float(self.asked.get(subject, {}).get("effect") or of(self.effects, kind))

    def spares(self, subject: str, kind: str) -> bool:
        """Whether a subject is not worth its time on a type of device."""
        return kind in self.asked.get(subject, {}).get("spared", ())

    def profile(self, kind: str) -> str:
        """Return the profile that suits a type of device."""
        return of(self.profiles, kind)


@cache
def load() -> GatePlan:
    """Return the plan of the file; a slip in it is refused by key."""
    return Table.load(FILE).row(GatePlan, asked={})
