"""The engine: an operator under one judge, on points drawn by a seed, in as many dtypes as it has."""

from __future__ import annotations

import datetime
import importlib
import pkgutil
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from stackproof import DATA
from stackproof.base.text import matches
from stackproof.base.toml import Table
from stackproof.device.kinds import Device, computes
from stackproof.operators import judges
from stackproof.operators.database import preserved
from stackproof.operators.points import SEED, OperatorPoint, database
from stackproof.operators.relation import Relation, UnusableError, elements_of, word
from stackproof.record.checks import CheckFailed, NotApplicable
from stackproof.record.records import Figure

_NAMES = [module.name for module in pkgutil.iter_modules(judges.__path__)]
JUDGES: Mapping[str, Any] = {name: importlib.import_module(f"{judges.__name__}.{name}") for name in _NAMES}
OWN: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    name: judge.subjects for name, judge in JUDGES.items() if hasattr(judge, "subjects")
}
"""Judges that ask about something else than operators of the database as it is drawn from, at points that are the same by every seed."""
_ENOUGH = 12
"""On a device where everything is wrong, the search for excuses must not take longer than the sweep."""


@dataclass(frozen=True)
class KnownFault:
    """A row of `data/relations.toml`: relations that do not hold, why, and until which day they are excused."""

    judge: str
    operators: tuple[str, ...]
    link: str
    reason: str
    expires: datetime.date | None = None
    """Where it is before that of the file."""
    says: tuple[str, ...] = ("*",)
    dtypes: tuple[str, ...] = ("*",)
    text: str = ""
    torch: str = ""
    devices: tuple[str, ...] = ("*",)
    crashes: bool = False
    """It takes the device's context, or the process, with it, so that it is not asked."""
    owner: str = "stackproof maintainers"

    def covers(self, judge: str, point: OperatorPoint, relation: Relation, wrong: str) -> bool:
        """Whether this row is about a fault."""
        words = (
            (judge, (self.judge,)),
            (point.name, self.operators),
            (relation.says, self.says),
            (word(point.dtype), self.dtypes),
            (point.device.type, self.devices),
        )
        return self.text in wrong and all(matches(*pair) for pair in words)


@dataclass(frozen=True)
class _Rows:
    """The file; `group` is read by `points`."""

    group: Any
    expires: datetime.date
    known: tuple[KnownFault, ...]


@cache
def known() -> tuple[KnownFault, ...]:
    """Return the rows of what is known not to hold in this torch, and whose day has not passed."""
    version = Version(Version(torch.__version__).base_version)
    day = datetime.datetime.now(datetime.timezone.utc).date()
    file = Table.load(DATA / "relations.toml").row(_Rows)
    rows = [row for row in file.known if day <= (row.expires or file.expires)]
    return tuple(row for row in rows if not row.torch or version in SpecifierSet(row.torch))


def excuse(judge: str, point: OperatorPoint, relation: Relation, wrong: str) -> KnownFault | None:
    """Return the row that says why a relation does not hold, if there is one."""
    return next((row for row in known() if row.covers(judge, point, relation, wrong)), None)


def cases() -> list[tuple[str, str]]:
    """Return which judge asks which operators."""
    return [(judge, name) for judge in JUDGES if judge != "samples" for name in subjects(judge)]


def subjects(judge: str) -> Mapping[str, Any]:
    """Return what a judge asks about, by name."""
    if judge in OWN:
        return OWN[judge]()
    suits = getattr(JUDGES[judge], "suits", lambda _name, _op: True)  # of one that does not say, any operator
    return {name: op for name, op in database().items() if suits(name, op)}


def points(
    judge: str, name: str, device: torch.device, seed: int = SEED, dtypes: Sequence[torch.dtype] = ()
) -> Iterator[OperatorPoint]:
    """Yield the operator in each dtype, or in these, that the judge asks and the device has."""
    op = OWN[judge]()[name] if judge in OWN else database()[name]
    for dtype in dtypes or JUDGES[judge].DTYPES:
        if judge in OWN or dtype in op.supported_dtypes(device.type):
            draw = random.Random(zlib.crc32(f"{seed} {judge} {name} {dtype}".encode()))
            # samples count up from here: seeds that follow one another must not share theirs
            yield OperatorPoint(
                name, op, dtype, device, draw, 0 if seed == SEED else zlib.crc32(f"{seed}".encode()) >> 1
            )


def faults(
    judge: str, name: str, device: torch.device, seed: int = SEED, seen: dict[str, int] | None = None,
    dtypes: Sequence[torch.dtype] = (), most: int | None = None,
) -> Iterator[tuple[OperatorPoint, Relation, str]]:  # fmt: skip
    """Yield what is wrong: the point, the relation, and how its two ways differ; of so many relations that have numbers at `most`."""
    seen = {} if seen is None else seen
    fatal = [row for row in known() if row.crashes]
    for point in points(judge, name, device, seed, dtypes):
        made, full = JUDGES[judge].relations(point), 0
        while most is None or full < most:
            try:
                relation = next(made, None)
                if relation is None:
                    break
                full += elements_of((relation.arguments, relation.options)) > 0
                ending = next((row for row in fatal if row.covers(judge, point, relation, row.text)), None)
                wrong = ending.text or ending.reason if ending else relation.wrong()
            except UnusableError as error:
                seen["unusable"] = seen.get("unusable", 0) + 1
                point.notes[f"unusable: {error}"] += 1
                _require_alive(device, f"{judge}-{name} in {word(point.dtype)}", error)
                continue
            if wrong.startswith("raises"):
                _require_alive(device, f"{name} in {word(point.dtype)}, {relation.says}", wrong)
            seen["relations"] = seen.get("relations", 0) + 1
            if wrong:
                yield point, relation, wrong
        if judge == "samples":
            seen |= point.notes


class ContextLostError(Exception):
    """A kernel failed in a way after which nothing works on the card in this process."""


def _require_alive(device: torch.device, where: str, reason: Any) -> None:
    """Raise `ContextLostError` if the device no longer computes: the check fails, and what runs it ends the process."""
    if not computes(device):
        raise ContextLostError(f"{where}: {reason}; nothing computes on {device} since then")


def check(
    judge: str, name: str, device: Device, figures: dict[str, Figure], dtypes: Sequence[torch.dtype] = ()
) -> None:
    """Ask one judge about one operator on the fixed points.

    Raises:
        NotApplicable: no sample meets the judge's condition.
        CheckFailed: a relation does not hold, and no row says why.
    """
    seen: dict[str, int] = {}
    excused: list[KnownFault] = []
    failures: list[tuple[OperatorPoint, Relation, str]] = []
    with preserved(device.torch), device.current():
        for failure in faults(judge, name, device.torch, seen=seen, dtypes=dtypes):
            if row := excuse(judge, *failure):
                excused.append(row)
            else:
                failures.append(failure)
            if len(failures) >= _ENOUGH:
                break
        figures |= {**seen, **{f"known: {row.reason}": row.link for row in excused}}
        if failures:
            raise CheckFailed(_sentence(name, device, failures, figures))
    if not seen.get("relations"):
        why = next((f": {note}" for note in seen if note.startswith("unusable: ")), "")
        raise NotApplicable(f"no sample of {name} meets the condition of '{JUDGES[judge].WHAT}'{why}")
    less = f", {len(excused)} are known not to" if excused else ""
    figures["summary"] = f"{JUDGES[judge].WHAT}: {seen['relations'] - len(excused)} relations hold{less}"


def _sentence(
    name: str, device: Device, failures: list[tuple[OperatorPoint, Relation, str]], figures: dict[str, Figure]
) -> str:
    """Return the smallest fault in one sentence, and put its code into the figures."""
    point, relation, wrong = min(failures, key=lambda failure: elements_of((failure[1].arguments, failure[1].options)))
    plain, wrong = relation.reduced(wrong)
    figures["repro"] = plain.program(point.path, device.torch)
    others = sorted({f"{other.says} in {word(at.dtype)}" for at, other, _ in failures if other is not relation})
    more = f"; also {', '.join(others[:4])}{' and more' if len(others) > 4 else ''}" if others else ""
    where = f"{name} in {word(point.dtype)} on {device}, {relation.says}"
    return f"{where}: {wrong}; figure 'repro' is code that repeats it{more}"
