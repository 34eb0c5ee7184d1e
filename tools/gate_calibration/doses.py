"""What a calibration plants, and how often: `doses.toml` beside this module, read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from stackproof.base.toml import Key, Table

FILE = Path(__file__).with_name("doses.toml")


@dataclass(frozen=True)
class Dose:
    """One kind of gate: equal sides, or a fault of a size."""

    name: str
    drill: str
    gates: int
    worse: float | None = None
    """The share that is planted; None where only measuring tells."""


@dataclass(frozen=True)
class OneGate:
    """On which subjects every gate is, and how long it may take."""

    subjects: tuple[str, ...]
    minutes: float


@dataclass(frozen=True)
class Calibration:
    """The whole file."""

    gate: Annotated[OneGate, Key("calibration")]
    doses: Annotated[tuple[Dose, ...], Key("dose")]


@cache
def load() -> Calibration:
    """Return what is declared; a slip in the file is refused by key."""
    return Table.load(FILE).row(Calibration)
