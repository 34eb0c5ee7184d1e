"""The table of regimes times classes of operators: every cell is tried against NumPy's numbers, or excused with a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from stackproof import DATA
from stackproof.base import places
from stackproof.base.text import error_line, matches
from stackproof.base.toml import Key, OneOf, Table
from stackproof.device.kinds import Device
from stackproof.operators import oracles
from stackproof.operators.arrays import fault
from stackproof.operators.compare import word
from stackproof.operators.complexes import complexes
from stackproof.operators.database import preserved
from stackproof.operators.gathered import GATHERED
from stackproof.operators.products import products
from stackproof.operators.regimes import REGIMES
from stackproof.operators.trials import DTYPES, POINTWISE, Class, Trial
from stackproof.record.checks import NotApplicable, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

CLASSES: dict[str, Class] = {**POINTWISE, **GATHERED, "products": products, "complex": complexes}
_MOST_SAID = 4


@dataclass(frozen=True)
class DeviceLacks:
    """Calls that devices refuse in these words: classes, dtypes and torch device types are patterns with `*`."""

    classes: tuple[str, ...]
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]
    says: str
    reason: str

    def covers(self, kind: str, dtype: str, device: str, said: str) -> bool:
        """Whether a call of this class that raised so is one of them; one that works is judged like any other."""
        pairs = ((kind, self.classes), (dtype, self.dtypes), (device, self.devices))
        matched = all(matches(word, patterns) for word, patterns in pairs)
        return matched and said.startswith("raises ") and self.says in said


@dataclass(frozen=True)
class LeftOut:
    """Operators that are not tried in a regime, in which libraries differ and none is wrong."""

    operators: tuple[Annotated[str, OneOf(tuple(oracles.NAMES))], ...]
    dtypes: tuple[str, ...]
    regimes: tuple[Annotated[str, OneOf(tuple(REGIMES))], ...]
    reason: str

    def covers(self, operator: str, dtype: str, regime: str) -> bool:
        """Whether a call is one of them; dtypes are patterns with `*`."""
        return operator in self.operators and regime in self.regimes and matches(dtype, self.dtypes)


@dataclass(frozen=True)
class Cells:
    """The table: reasons of excused cells by class and regime, what each regime is, and the cells of a smoke run."""

    regimes: dict[str, str]
    lacks: tuple[DeviceLacks, ...]
    left_out: tuple[LeftOut, ...]
    excused: dict[tuple[str, str], str]
    smoke: tuple[tuple[str, str], ...]

    @property
    def all(self) -> tuple[tuple[str, str], ...]:
        """Every class with every regime."""
        return tuple((kind, regime) for kind in CLASSES for regime in self.regimes)


_Class = Annotated[str, OneOf(tuple(CLASSES))]
_Regime = Annotated[str, OneOf(tuple(REGIMES))]


@dataclass(frozen=True)
class _RegimeRow:
    name: _Regime
    what: str


@dataclass(frozen=True)
class _ClassRow:
    name: _Class
    smoke: tuple[_Regime, ...]


@dataclass(frozen=True)
class _Excused:
    classes: tuple[_Class, ...]
    regimes: tuple[_Regime, ...]
    reason: str


@dataclass(frozen=True)
class _File:
    regime: tuple[_RegimeRow, ...]
    kinds: Annotated[tuple[_ClassRow, ...], Key("class")]
    not_offered: tuple[DeviceLacks, ...]
    left_out: tuple[LeftOut, ...]
    excused: tuple[_Excused, ...]


@cache
def cells() -> Cells:
    """Read the table; one that names something else than what can be tried is refused."""
    read = Table.load(DATA / "values.toml")
    table = read.row(_File)
    excused = {(kind, name): row.reason for row in table.excused for kind in row.classes for name in row.regimes}
    regimes = {row.name: row.what for row in table.regime}
    smoke = {row.name: row.smoke for row in table.kinds}
    for key, told, known in (("regime", regimes, REGIMES), ("class", smoke, CLASSES)):
        if missing := known.keys() ^ told.keys():
            raise read.refuse(key, f"and what can be tried differ by {', '.join(sorted(missing))}; name each once")
    tried = tuple((kind, regime) for kind, names in smoke.items() for regime in names)
    return Cells(regimes, table.not_offered, table.left_out, excused, tried)


def check(kind: str, regime: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Try every operator of a class on the numbers of a regime, in every dtype that the stack has.

    Raises:
        NotApplicable: the cell is excused.
        CheckFailed: a result is not what NumPy says, an operator raises, or nothing was tried.
    """
    if reason := cells().excused.get((kind, regime)):
        raise NotApplicable(f"{places.table('values.toml')}: {reason}")
    tried: Counter[str] = Counter()
    lacking: Counter[str] = Counter()
    spared: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    with preserved(device.torch), device.current():
        for dtype in DTYPES:
            if dtype.is_floating_point and word(dtype) not in stack.precisions:
                continue
            for trial in CLASSES[kind](regime, dtype, device.torch):
                left = (row for row in cells().left_out if row.covers(trial.operator, word(dtype), regime))
                if without := next(left, None):
                    spared[without.reason] += 1
                    continue
                said = _said(trial)
                if row := next(
                    (one for one in cells().lacks if one.covers(kind, word(dtype), device.kind, said)), None
                ):
                    lacking[row.reason] += 1
                    continue
                tried[word(dtype)] += 1
                if said:
                    wrong[f"{trial.name} in {word(dtype)}"] = said
    figures |= {"tried": tried.total(), **{f"tried in {name}": count for name, count in tried.items()}}
    told = "; ".join(f"{name}: {said}" for name, said in list(wrong.items())[:_MOST_SAID])
    where = f"{kind} operators on {device}, regime '{regime}' ({cells().regimes[regime]})"
    require(not wrong, f"{where}: {told}; {len(wrong)} of {tried.total()} calls are not what NumPy says")
    if lacking and not tried:
        raise NotApplicable(f"{places.table('values.toml')}: {', '.join(lacking)}")
    require(tried.total() > 0, f"{where}: nothing was tried")
    figures |= {f"not offered: {reason}": count for reason, count in lacking.items()}
    figures |= {f"left out: {reason}": count for reason, count in spared.items()}
    less = f"; {lacking.total()} not offered" if lacking else ""
    less += f"; {spared.total()} left out" if spared else ""
    figures["summary"] = f"{tried.total()} calls in {len(tried)} dtypes are what NumPy says, number by number{less}"


def _said(trial: Trial) -> str:
    try:
        found = trial.run()
    except Exception as error:
        return f"raises {error_line(error, 150)}"
    return fault(found, trial.expected, trial.dtype)


def count(figures: dict[str, Figure]) -> None:
    """Tell how many cells there are, and how many of them are tried and excused."""
    table = cells()
    stale = [cell for cell in table.excused if cell not in table.all]
    require(not stale, f"{places.table('values.toml')} excuses cells that do not exist: {stale}")
    tried = len(table.all) - len(table.excused)
    figures |= {"cells": len(table.all), "tried": tried, "excused": len(table.excused)}
    named = sum(len(row.operators) * len(row.regimes) for row in table.left_out)
    figures["operators left out of a regime"] = named
    figures["summary"] = (
        f"{len(table.all)} cells: {tried} tried, {len(table.excused)} excused with a reason; "
        f"{named} operators are left out of one with a reason"
    )
