"""What there is to measure, and how long: `data/benchmarks.toml` and a project's own, read strictly; needs no torch for ours."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from stackproof import DATA
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import INLINE, OneOf, Table, Wrong
from stackproof.project import offers, projects
from stackproof.project.offers import Offer
from stackproof.stack.stacks import Stack

FILE = DATA / "benchmarks.toml"
PRESETS = ("tiny", "full")
_SHOWN = 12


@dataclass(frozen=True)
class Budget:
    """When sampling ends: at this relative half-width of the median's interval, or after so many seconds.

    `least` samples are taken in any case, unless one alone takes longer than the seconds; `allow_foreign`: whether other processes on the
    card are only noted, else they end the measurement.
    """

    noise: float
    seconds: float
    least: int = 10
    most: int = 2000
    allow_foreign: bool = False


@dataclass(frozen=True)
class Profile:
    """A choice of subjects, their preset, and the budget of each."""

    name: str
    title: str
    preset: Annotated[str, OneOf(PRESETS)]
    budget: Annotated[Budget, INLINE]


@dataclass(frozen=True)
class Subject:
    """One thing to measure. `name` is stable and kebab-case; `version` changes when its figures stop being comparable.

    `needs`: capabilities (`data/capabilities.toml`) without which the stack is not asked; `parameters`: what its kind wants to know, by
    preset; `full_seconds`: how long the full preset is sampled at least, whatever the profile says; `effect`: the smallest change that the
    gate judges, where the device's own is too fine for this work, else 0; `spared`: types of device on which the gate leaves it out.
    """

    name: str
    version: str
    kind: str
    unit: str
    title: str
    profiles: tuple[str, ...]
    needs: tuple[str, ...]
    parameters: Mapping[str, Mapping[str, Any]]
    stack: Stack
    full_seconds: float = 0.0
    effect: float = 0.0
    spared: tuple[str, ...] = ()

    def table(self, preset: str) -> Table:
        return Table(FILE, dict(self.parameters[preset]), f"{self.name}.{preset}.")

    @property
    def dtype(self) -> str:
        """The dtype that it computes in, where its row says so."""
        return str(self.parameters["tiny"].get("dtype", ""))


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Subjects that differ in what the row lists under `each`; a part in place of workloads stands for all that take part."""

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
        for key, values in self.each.items():
            if isinstance(values, str) and (key != "workload" or values not in offers.PARTS):
                near = suggestion(values, offers.PARTS)
                words = f"has {key} = {values!r}{near}; it must be a list, or for 'workload' a part that workloads take"
                raise Wrong("each", words)

    @property
    def open(self) -> bool:
        return any(isinstance(values, str) for values in self.each.values())

    def chosen(self, of_part: Callable[[str], tuple[str, ...]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name of each combination of what stands under `each`, and its choice; `of_part`: the workloads that take a part."""
        listed = (of_part(values) if isinstance(values, str) else values for values in self.each.values())
        for values in itertools.product(*listed):
            chosen = dict(zip(self.each, values, strict=True))
            yield "-".join([self.name, *map(_word, chosen.items())]), chosen

    def subjects(self, of_part: Callable[[str], tuple[str, ...]], stack: Stack) -> Iterator[Subject]:
        for name, chosen in self.chosen(of_part):
            offer = _offer(chosen.get("workload"))
            title = self.title.replace("{title}", offer.title or str(chosen.get("workload", "")))
            parameters = {"tiny": {**self.tiny, **chosen}, "full": {**self.full, **chosen}}
            yield Subject(
                name, self.version, self.kind, self.unit, title, self.profiles, self.needs, parameters, stack,
                max(self.full_seconds, offer.full_seconds), offer.effect, offer.spared,
            )  # fmt: skip


def taking_part(part: str) -> tuple[str, ...]:
    """Return the workloads that take part in something; a project's own are asked only where there is a project."""
    if not _others_offer():
        return offers.ours_in(part)
    from stackproof.workloads import catalogue  # needs torch

    return catalogue.taking_part(part)


def _others_offer() -> bool:
    """Whether a project or a package may have workloads of its own; what they are is known where torch is."""
    project = projects.current()
    return bool(project and project.workloads) or bool(projects.packaged())


def _offer(name: str | None) -> Offer:
    """Return what a workload offers; nothing for work that is no workload's."""
    if name is None or name in offers.ours():
        return offers.ours().get(name or "", Offer(parts=()))
    from stackproof.workloads import catalogue

    return catalogue.get(name).offer


@dataclass(frozen=True)
class _File:
    subject: tuple[_Row, ...]
    profile: tuple[Profile, ...] = ()
    """Ours alone has profiles."""


def profiles() -> tuple[Profile, ...]:
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
    known = dict[str, tuple[Path, Subject]]()
    for path, row in _read()[1]:
        for subject in row.subjects(taking_part, stack):
            if subject.name in known:
                where = f", the other in {known[subject.name][0]}" if known[subject.name][0] != path else ""
                raise Refusal(f"{path}: there are two subjects '{subject.name}'{where}; give one another name")
            known[subject.name] = path, subject
    return tuple(subject for _, subject in known.values() if chosen in subject.profiles)


def ours(stack: Stack) -> Mapping[str, Subject]:
    """Return our own subjects by name, for who judges what others have measured: neither a project nor torch is asked."""
    rows = Table.load(FILE).row(_File).subject
    return {subject.name: subject for row in rows for subject in row.subjects(offers.ours_in, stack)}


def names_of_subjects() -> set[str]:
    """Return what our subjects, and those of the project that need no torch to be known, are called."""
    return {name for _, row in _read()[1] for name, _ in row.chosen(offers.ours_in)}


def require_named(only: Iterable[str], flag: str = "--only") -> None:
    """Refuse names of subjects that no profile has; no workload is asked, so that it needs no torch.

    What others' workloads are called is known only in the environment that runs them: whatever begins as their subjects do may be one.
    """
    known = names_of_subjects()
    open_ = tuple(f"{row.name}-" for _, row in _read()[1] if row.open and _others_offer())
    for name in only:
        if name not in known and not name.startswith(open_):
            alike = sorted(word for word in known if word.split("-")[0] == name.split("-")[0]) or sorted(known)
            some = ", ".join([*alike[:_SHOWN], *(["..."] if len(alike) > _SHOWN else [])])
            raise Refusal(f"{flag} '{name}' is no subject of any profile{suggestion(name, known)}; there are: {some}")


def kinds_of(chosen: str) -> frozenset[str]:
    """Return the kinds of work of a profile; no workload is asked, so that it needs no torch."""
    profile(chosen)
    return frozenset(row.kind for _, row in _read()[1] if chosen in row.profiles)


@cache
def _read() -> tuple[tuple[Profile, ...], tuple[tuple[Path, _Row], ...]]:
    """Read our file and the project's, whose rows are of our kinds and profiles; rows as they stand, with the file of each."""
    project, pairs, known = projects.current(), list[tuple[Path, _Row]](), dict[str, Profile]()
    for path in (FILE, *([project.benchmarks] if project and project.benchmarks else [])):
        table = Table.load(path)
        read = table.row(_File)
        if path != FILE and read.profile:
            raise table.refuse("profile", "is ours alone; name one of ours under a subject's profiles")
        known |= {row.name: row for row in read.profile}
        for number, row in enumerate(read.subject):
            for name in set(row.profiles) - set(known):
                words = f"is {name!r}{suggestion(name, known)}; allowed: {', '.join(map(repr, known))}"
                raise table.refuse(f"subject[{number}].profiles", words)
            pairs.append((path, row))
    return tuple(known.values()), tuple(pairs)


def _word(item: tuple[str, Any]) -> str:
    """Return how a value shows in a subject's name: `bfloat16`, `2-ranks`, `4-mib`, `64-kib`."""
    key, value = item
    if key == "mib":
        return f"{value:g}-mib" if value >= 1 else f"{value * 1024:g}-kib"
    return f"{value}-ranks" if key == "ranks" else str(value)
