"""The faults as data: what each imitates, how it is injected, which verb meets it, and what has to be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from stackproof import DATA
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.text import matches
from stackproof.base.toml import INLINE, Key, Kinds, OneOf, Table, Wrong, read_toml
from stackproof.drill.inject import KINDS, Injection

FAULTS = DATA / "faults.toml"
AREAS = ("compute", "placement", "memory", "time", "data", "distributed", "environment", "harness", "records")
STACK = "cpu"
"""Rows that name no stack of their own run on it: it is on every host."""
_DEADLINE_S = 400


@dataclass(frozen=True)
class Call:
    """A public verb with its flags; the checks that are chosen come from what is expected of them."""

    verb: str = "verify"
    stack: str = ""
    suites: tuple[str, ...] = ()
    whole: bool = False
    """Whether the suites run as a whole: the guards of a run look at nothing less."""
    only: tuple[str, ...] = ()
    """Checks to ask for besides those that are expected to be red or green."""
    arguments: tuple[str, ...] = ()
    scale: float = 1.0
    """Of the deadlines of checks: a hang on purpose need not take the suites' own ninety seconds."""


@dataclass(frozen=True)
class Symptoms:
    """What a run under the fault must look like. Checks are named exactly, or by a pattern with *."""

    red: Mapping[str, str] = field(default_factory=dict)
    """What must fail, and the words that its reason must hold."""
    exit_code: int = 1
    green: tuple[str, ...] = ()
    noted: Mapping[str, str] = field(default_factory=dict)
    """Measurements, by workload, whose notes must hold these words: what makes a figure doubtful, and no check wrong."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    id: str
    area: Annotated[str, OneOf(AREAS)]
    imitates: str
    source: str
    """Where it was seen: a row of the requirements, or a public thread."""
    fast: bool = False
    clean_alone: bool = False
    """Whether nothing else may run beside the run without the fault, because it is about time; the fault is seen in any company."""
    deadline_s: int = _DEADLINE_S
    call: Annotated[Call, INLINE]
    injection: Annotated[Injection, Key("inject"), Kinds(KINDS)]
    expected: Annotated[Symptoms, INLINE]

    def __post_init__(self) -> None:
        if not (self.expected.red or self.expected.noted):
            raise Wrong("red", "is empty: name the check that has to fail, or what has to be `noted`")

    @property
    def name(self) -> str:
        return f"{self.area}/{self.id}"

    def called(self, pattern: str) -> bool:
        """Whether a pattern names it, by its id or, as tables and records show it, by its area too."""
        return matches(self.id, [pattern]) or matches(self.name, [pattern])


@dataclass(frozen=True)
class Excuse:
    """Checks that no fault of the drill covers, and why that is right."""

    checks: str
    reason: str


@dataclass(frozen=True)
class FaultFamily:
    """Faults of one kind: those of these areas for which one of these checks goes red."""

    name: str
    beyond: str
    """What of the kind is not planted here."""
    checks: tuple[str, ...] = ("*",)
    areas: Annotated[tuple[str, ...], OneOf(AREAS)] = AREAS[: AREAS.index("environment")]

    def has(self, fault: Fault) -> bool:
        names = (*fault.expected.red, *fault.expected.green)[: len(fault.expected.red) or None]
        return fault.area in self.areas and any(matches(name, self.checks) for name in names)


@dataclass(frozen=True)
class Faults:
    rows: Annotated[tuple[Fault, ...], Key("fault")]
    excuses: Annotated[tuple[Excuse, ...], Key("uncovered")]
    gates: Annotated[tuple[Fault, ...], Key("gate")] = ()
    """Faults in the head of a gate; its statistics are in an environment of their own, so `nox -s gate-tests` runs these."""
    families: Annotated[tuple[FaultFamily, ...], Key("family")] = ()

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks that rows run on; their environments are built before the drill."""
        return tuple(dict.fromkeys(row.call.stack or STACK for row in self.rows))

    def choose(self, only: tuple[str, ...], fast: bool) -> tuple[Fault, ...]:
        """Return the rows that were asked for: by id, with or without the area, or by pattern; or the fast ones.

        Raises:
            Refusal: a name matches nothing.
        """
        for pattern in only:
            if not any(row.called(pattern) for row in self.rows):
                near = suggestion(pattern, [row.id for row in self.rows])
                raise Refusal(f"--only '{pattern}' is no fault of {FAULTS.name}{near}; patterns may hold *")
        chosen = [row for row in self.rows if not only or any(map(row.called, only))]
        return tuple(row for row in chosen if row.fast or not fast)


def load(path: Path = FAULTS) -> Faults:
    """Read the table.

    Raises:
        Refusal: it is broken, or two rows share a name.
    """
    values = read_toml(path)
    for row in (*values.get("fault", ()), *values.get("gate", ())):
        if isinstance(row, dict) and "/" in str(row.get("id")):
            row["area"], row["id"] = row["id"].split("/", 1)
    faults = Table(path, values).row(Faults)
    names = [row.id for row in (*faults.rows, *faults.gates)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refusal(f"{path}: two faults are called {', '.join(sorted(twice))}; give each a name of its own")
    return faults
