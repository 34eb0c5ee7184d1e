"""What hosts have left in a folder, as untrusted input: sizes, schema, whose it is; what is not believed is a sentence, never fatal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

from stackproof.api.base import Refusal, files, matches, plain
from stackproof.api.record import Figure, Measurement, Record, Verdict, records, store
from stackproof.api.stack import stacks
from stackproof.extras.fleet import demanded, rules
from stackproof.extras.fleet.wanted import PlanWants

RECORDS = "records"
"""The folder, below that of a sweep, in which each host leaves its record."""
_STARTED, _ENDED = ".started", ".json"
_MOST_PRODUCTS = 10**15
_DIGEST = frozenset("0123456789abcdef")


class SubjectKey(NamedTuple):
    """What was measured; figures of other versions or presets are not comparable."""

    name: str
    preset: str
    version: str
    unit: str


@dataclass(frozen=True)
class Replayed:
    """The same products again and again: the digest of what they gave, how many there were, and how many gave something else."""

    digest: str
    products: int
    odd: int


@dataclass
class CardAnswer:
    """One card of a host, by its number."""

    host: str
    number: str
    seconds: dict[SubjectKey, float] = field(default_factory=dict)
    replayed: dict[str, Replayed] = field(default_factory=dict)
    """By kernel and pattern of values."""


@dataclass(frozen=True)
class HostAnswer:
    """What one host has left: its cards, its state, and how it ended."""

    host: str
    architecture: str
    state: store.State
    verdict: Verdict
    reason: str
    began: str
    took: float
    cards: tuple[CardAnswer, ...]
    stack: str = ""
    profile: str = ""
    plan: str = ""
    """The id of the plan that it answers."""
    lacks: tuple[str, ...] = ()
    """What it has not done, or otherwise than it was asked to, in sentences."""
    pinned: bool = True
    """Whether its environment was proved to be the lock."""
    figures: int = 0
    """A hash of all that it measured; 0 where that does not differ in itself."""


@dataclass
class FleetAnswers:
    """All that a folder holds: the answers by host, hosts that began and never ended, and a sentence for each file that is not believed."""

    hosts: dict[str, HostAnswer] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def gather(folder: Path, wants: PlanWants | None = None) -> FleetAnswers:
    """Read what hosts have left below the folder of a sweep; `wants`: what its plan wants of each, else what each record says itself.

    Raises:
        Refusal: there is no such folder, or it cannot be listed.
    """
    found, limits = FleetAnswers(), rules.load().limits
    for number, path in enumerate(_listed(folder)):
        if number >= limits.records:
            raise Refusal(f"{folder}: holds more than {limits.records} records; judge the hosts in several folders")
        host = path.name.removesuffix(_ENDED)
        if not rules.is_host(host):
            found.refused[plain(host, 80, lines=False)] = (
                f"{plain(path.name, 80, lines=False)}: is named after no host; passed over"
            )
            continue
        try:
            found.hosts[host] = read(path, host, wants)
        except Refusal as refusal:
            found.refused[host] = plain(str(refusal).replace(str(folder), folder.name), 400, lines=False)
    _without_copies(found)
    found.begun = {name for name in _begun(folder) if name not in found.hosts}
    return found


def _without_copies(found: FleetAnswers) -> None:
    """Leave out records that hold the same figures to the last digit: no two hosts measure the same, so one was copied."""
    alike: dict[int, list[str]] = {}
    for name, answer in found.hosts.items():
        alike.setdefault(answer.figures, []).append(name)
    for names in (names for figures, names in alike.items() if figures and len(names) > 1):
        for name in names:
            other = next(one for one in names if one != name)
            found.refused[name] = (
                f"its figures are those of {other}, to the last digit: one was copied; let both run again"
            )
            del found.hosts[name]


def _listed(folder: Path) -> list[Path]:
    place = folder / RECORDS
    try:
        return sorted(path for path in place.iterdir() if path.name.endswith(_ENDED) and not path.name.startswith("."))
    except OSError as error:
        remedy = "name the folder of a sweep, which `stackproof fleet plan` makes"
        raise Refusal(f"{place}: {files.why_no_such(place) or error.strerror}; {remedy}") from error


def _begun(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for path in (folder / RECORDS).iterdir():
            if path.name.endswith(_STARTED) and rules.is_host(name := path.name.removesuffix(_STARTED)):
                yield name


def record_path(folder: Path, host: str) -> Path:
    """Return where a host leaves its record."""
    return folder / RECORDS / f"{rules.host(host)}{_ENDED}"


def marker_path(folder: Path, host: str) -> Path:
    """Return what says that a host has begun."""
    return folder / RECORDS / f"{rules.host(host)}{_STARTED}"


def read(path: Path, host: str, wants: PlanWants | None = None) -> HostAnswer:
    """Read the record of a host, which must say that it is of this one, and hold it against what was wanted.

    Raises:
        Refusal: it is no such record; the sentence says why.
    """
    limits = rules.load().limits
    if path.is_symlink():
        raise Refusal(f"{path}: is a link, and a host leaves a file; copy it there")
    if why := files.why_unreadable(path, limits.mib << 20):
        raise Refusal(f"{path}: {why}; let the host run again")
    record = records.read(path)
    if record.verb != rules.VERB:
        raise Refusal(
            f"{path}: is a record of '{plain(record.verb, 40)}', not of a fleet's host; let the host run again"
        )
    if (own := str(record.provenance.get("host", ""))) != host:
        raise Refusal(
            f"{path}: says that it is of '{plain(own, 80, lines=False)}'; one host does not answer for another"
        )
    if len(record.measurements) > limits.rows * limits.cards or len(record.checks) > limits.rows * limits.cards:
        raise Refusal(f"{path}: holds more rows than {limits.cards} cards have; let the host run again")
    return _answer(record, host, wants or _wants(record, path))


def _answer(record: Record, host: str, wants: PlanWants) -> HostAnswer:
    place = store.place(record.provenance)
    held, cards = demanded.held(record, wants), dict[str, CardAnswer]()
    for number, row in held.measured:
        cards.setdefault(number, CardAnswer(host, number)).seconds[_key(row)] = row.value
    for number, check in held.replayed:
        if seen := replayed(check.figures):
            cards.setdefault(number, CardAnswer(host, number)).replayed[f"{check.subject} {check.aspect}"] = seen
    rehearsed = " (rehearsed)" if place.rehearsed else ""
    return HostAnswer(
        host, f"{place.stack}{rehearsed} on {place.devices}", state(record.provenance), record.verdict, _reason(record), record.started,
        record.seconds, tuple(cards[number] for number in sorted(cards, key=int)), record.stack, *_own(record.provenance),
        tuple(held.faults), record.provenance.get("pinned") is not False, _figures(record),
    )  # fmt: skip


def _figures(record: Record) -> int:
    measured = tuple(tuple(row.samples) for row in record.measurements)
    return hash(measured) if any(len(set(samples)) > 1 for samples in measured) else 0


def _own(facts: Mapping[str, Figure]) -> tuple[str, str]:
    """Return the profile and the plan that a host says it follows."""
    return str(facts.get("profile", "")), str(facts.get("plan", ""))


def _wants(record: Record, path: Path) -> PlanWants:
    """Return what a record's own words want of its host, where no plan does: all of its profile.

    Raises:
        Refusal: there is no such stack or profile.
    """
    stack, profile = record.stack, str(record.provenance.get("profile", ""))
    for what, said, known in (("stack", stack, stacks.names()), ("profile", profile, rules.profiles())):
        if said not in known:
            raise Refusal(
                f"{path}: is of {what} '{plain(said, 40, lines=False)}', which is none; let the host run again by a plan"
            )
    return PlanWants(stack, profile)


def state(facts: Mapping[str, Figure]) -> store.State:
    """Return the state that hosts must share to be compared; set clocks and limits count as the driver's."""
    return store.state({known: value for name, value in facts.items() if (known := _fact(name))})


@lru_cache(maxsize=8192)
def _fact(name: str) -> str:
    """Return as what a fact counts; an empty string where it does not count."""
    chosen = rules.load().state
    if matches(name, chosen.ignored):
        return ""
    return f"driver.{name}" if matches(name, chosen.clocks) else name


def _key(row: Measurement) -> SubjectKey:
    return SubjectKey(*(plain(word, 80, lines=False) for word in (row.workload, row.preset, row.version, row.unit)))


def replayed(figures: Mapping[str, object]) -> Replayed | None:
    """Read what a row of the replay came to; None where it is no digest with its counts, or these cannot be."""
    digest, products, odd = (figures.get(name) for name in ("digest", "products", "odd"))
    if not isinstance(digest, str) or len(digest) != 16 or not set(digest) <= _DIGEST:
        return None
    if not count(products) or not count(odd) or not 0 <= odd <= products or not 1 <= products <= _MOST_PRODUCTS:
        return None
    return Replayed(digest, products, odd)


def count(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _reason(record: Record) -> str:
    """Return the first bad check in a sentence; replays speak through their digests."""
    if not record.verdict.exit_code:
        return ""
    bad = next((one for one in record.checks if one.verdict is record.verdict), None)
    said = (
        f"{bad.id}: {bad.reason or bad.verdict.value}"
        if bad
        else f"ended '{record.verdict.value}', and does not say why"
    )
    return plain(said, 300, lines=False)


def subjects(cards: Sequence[CardAnswer]) -> list[SubjectKey]:
    """Return every subject that one of these cards has."""
    return sorted({key for card in cards for key in card.seconds})
