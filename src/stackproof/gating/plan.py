"""What the gate compares and what it promises: `fixtures/gate.toml`, read strictly; needs no torch and no scipy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from .. import ROOT
from ..errors import Refusal
from ..tables import Table

FILE = ROOT / "fixtures" / "gate.toml"


@dataclass(frozen=True)
class Quantity:
    """Something besides a subject's time that is judged with noise; less is better."""

    name: str
    unit: str
    effect: float
    title: str


@dataclass(frozen=True)
class GatePlan:
    """Everything that is declared before the first launch."""

    looks: tuple[int, ...]
    alpha: float
    rounds: int
    block_seconds: float
    effects: Mapping[str, float]
    """Minimum effect by device type; `other` for those that are not listed."""
    quantities: tuple[Quantity, ...]
    counters: Mapping[str, str]
    exceptions: Mapping[str, float]
    """Minimum effect of single subjects."""
    left_out: tuple[str, ...]
    """Kinds of work that cannot be one of two live sides, because they start processes of their own."""

    def effect(self, subject: str, kind: str) -> float:
        """Return the minimum effect of a subject's time on a type of device, as a fraction."""
        return self.exceptions.get(subject, self.effects.get(kind, self.effects["other"]))


@cache
def load() -> GatePlan:
    """Return the plan of the file; a slip in it is refused by key."""
    with Table.load(FILE) as table:
        with table.table("design") as design:
            looks = tuple(design.take("looks", list))
            alpha, rounds = design.take("alpha", float), design.take("rounds", int)
            block = design.take("block_seconds", float)
            left_out = design.strings("left_out", [])
        effects = table.take("effect", dict)
        quantities = tuple(map(_quantity, table.tables("quantity")))
        counters = dict(map(_counter, table.tables("counter")))
        exceptions = dict(map(_exception, table.tables("subject")))
    if "other" not in effects or list(looks) != sorted(set(looks)) or not looks or looks[0] < 3:
        raise Refusal(f"{FILE}: 'effect' needs 'other', and 'looks' must rise from 3 or more launches")
    return GatePlan(looks, alpha, rounds, block, effects, quantities, counters, exceptions, left_out)


def _quantity(row: Table) -> Quantity:
    with row:
        return Quantity(row.take("name", str), row.take("unit", str), row.take("effect", float), row.take("title", str))


def _counter(row: Table) -> tuple[str, str]:
    with row:
        return row.take("name", str), row.take("title", str)


def _exception(row: Table) -> tuple[str, float]:
    with row:
        row.take("reason", str)
        return row.take("name", str), row.take("effect", float)
