"""What hosts have left in the folder of a sweep: each record is held against what the plan asks of a host.

A record of another host, stack or plan, a damaged or unfinished one is named in a sentence and costs its own host alone. Rows that are
missing, or not of the plan's size, leave the host incomplete and are compared with nobody's.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

from stackproof.api.base import Refusal, files, text
from stackproof.api.record import Check, Figure, Measurement, Record, Verdict, reading, store
from stackproof.api.runs import bench_subjects
from stackproof.api.stack import stacks
from stackproof.extras.fleet import plan
from stackproof.extras.fleet.plan import RECORDS, REPLAY, STEPS, FleetPlan

_STARTED, _ENDED = ".started", ".json"
_DIGEST = frozenset("0123456789abcdef")
_CLOSE = 1e-6
_LEAST_SAMPLES = 3
UNSETTLED = "had not settled when it was timed"
"""Such a figure is compared, as a slow card may not settle; but it proves nothing."""


class SubjectKey(NamedTuple):
    """What was measured; figures of other versions or presets are not comparable."""

    name: str
    preset: str
    version: str
    unit: str


@dataclass(frozen=True)
class ReplayAnswer:
    """One row of the replay: the digest of its products, how many there were, and how many gave something else than the first."""

    digest: str
    products: int
    odd: int


@dataclass
class CardAnswer:
    """One card of a host, by its number: seconds per unit of work, and rows of the replay by kernel and pattern of values."""

    host: str
    number: str
    seconds: dict[SubjectKey, float] = field(default_factory=dict)
    replayed: dict[str, ReplayAnswer] = field(default_factory=dict)


@dataclass(frozen=True)
class HostAnswer:
    """What one host has left: its cards, its state, how it ended, and in sentences what it `lacks` of its tasks."""

    host: str
    architecture: str
    state: store.State
    verdict: Verdict
    reason: str
    began: str
    took: float
    cards: tuple[CardAnswer, ...]
    stack: str
    profile: str
    plan: str
    """The id of the plan that it answers."""
    lacks: tuple[str, ...]
    pinned: bool
    """Whether its environment was proved to be the lock."""


@dataclass
class FleetAnswers:
    """All that a folder holds: answers by host, hosts that began and left no record, and why other files are no answer."""

    hosts: dict[str, HostAnswer] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def record_path(folder: Path, host: str) -> Path:
    return folder / RECORDS / f"{plan.host(host)}{_ENDED}"


def marker_path(folder: Path, host: str) -> Path:
    return folder / RECORDS / f"{plan.host(host)}{_STARTED}"


def gather(folder: Path, tasks: FleetPlan) -> FleetAnswers:
    """Read what hosts have left below the folder of a sweep; `tasks`: its plan.

    Refusal: there is no such folder, or it cannot be listed.
    """
    answers, limits = FleetAnswers(), plan.table().limits
    for number, path in enumerate(_listed(folder)):
        if number >= limits.records:
            raise Refusal(f"{folder}: holds more than {limits.records} records; judge the hosts in several folders")
        host = path.name.removesuffix(_ENDED)
        if not plan.is_host(host):
            name = text.plain(path.name, 80, lines=False)
            answers.refused[text.plain(host, 80, lines=False)] = f"{name}: is not named after a host; skipped"
            continue
        try:
            answers.hosts[host] = read(path, host, tasks)
        except Refusal as refusal:
            answers.refused[host] = text.plain(str(refusal).replace(str(folder), folder.name), 400, lines=False)
    answers.begun = {name for name in _begun(folder) if name not in answers.hosts}
    return answers


def _listed(folder: Path) -> list[Path]:
    place = folder / RECORDS
    try:
        return sorted(path for path in place.iterdir() if path.name.endswith(_ENDED) and not path.name.startswith("."))
    except OSError as error:
        remedy = "name the folder of a sweep, which `stackproof fleet plan` makes"
        raise Refusal(f"{place}: {files.why_no_such_folder(place) or error.strerror}; {remedy}") from error


def _begun(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for path in (folder / RECORDS).iterdir():
            if path.name.endswith(_STARTED) and plan.is_host(name := path.name.removesuffix(_STARTED)):
                yield name


def read(path: Path, host: str, tasks: FleetPlan) -> HostAnswer:
    """Read the record of a host, which must be of this one, and hold it against its tasks.

    Refusal: it is no such record; the sentence says why.
    """
    limits, again = plan.table().limits, "let the host run again"
    if why := files.why_unreadable(path, limits.mib << 20):
        raise Refusal(f"{path}: {why}; {again}")
    record = reading.read(path)
    if record.verb != plan.VERB:
        raise Refusal(f"{path}: is a record of '{text.plain(record.verb, 40)}', not of a fleet's host; {again}")
    if (own := str(record.provenance.get("host", ""))) != host:
        raise Refusal(
            f"{path}: says that it is of '{text.plain(own, 80, lines=False)}'; one host does not answer for another"
        )
    if len(record.measurements) > limits.rows * limits.cards or len(record.checks) > limits.rows * limits.cards:
        raise Refusal(f"{path}: holds more rows than {limits.cards} cards have; {again}")
    return _answer(record, host, tasks)


def _answer(record: Record, host: str, tasks: FleetPlan) -> HostAnswer:
    facts, place = record.provenance, store.place(record.provenance)
    cards, lacks = _compared(record, host, tasks)
    rehearsed = " (rehearsed)" if place.rehearsed else ""
    return HostAnswer(
        host, f"{place.stack}{rehearsed} on {place.devices}", state(facts), record.verdict, reason(record), record.started,
        record.seconds, tuple(cards), record.stack, str(facts.get("profile", "")), str(facts.get("plan", "")), tuple(lacks),
        facts.get("pinned") is not False,
    )  # fmt: skip


def reason(record: Record) -> str:
    """Return what the first of its gravest checks says; nothing where all is well."""
    if not record.verdict.exit_code:
        return ""
    bad = next((check for check in record.checks if check.verdict is record.verdict), None)
    sentence = (
        f"{bad.id}: {bad.reason or bad.verdict.value}"
        if bad
        else f"ended '{record.verdict.value}', and does not say why"
    )
    return text.plain(sentence, 300, lines=False)


def state(facts: Mapping[str, Figure]) -> store.State:
    """Return the state that hosts must share to be compared; set clocks and limits count as the driver's."""
    return store.state({known: value for name, value in facts.items() if (known := _fact(name))})


@lru_cache(maxsize=8192)
def _fact(name: str) -> str:
    """Return as what a fact counts; an empty string where it does not count."""
    chosen = plan.table().state
    if text.matches(name, chosen.ignored):
        return ""
    return f"driver.{name}" if text.matches(name, chosen.clocks) else name


def _compared(record: Record, host: str, tasks: FleetPlan) -> tuple[list[CardAnswer], list[str]]:
    """Return what may be compared with other hosts, card by card, and what is lacking or otherwise, in sentences."""
    checks = {check.id: check for check in record.checks}
    rows = {(str(row.figures.get("card")), row.workload): row for row in record.measurements}
    count = _cards(record.provenance)
    cards = [CardAnswer(host, str(number)) for number in range(max(count, 1)) if f"card/{number}" in checks]
    lacks = [*_of_host(record, tasks, count)]
    for step in STEPS:
        lacks += _not(checks, step, Verdict.SKIPPED if step in tasks.without else Verdict.PASSED)
    if len(cards) < count:
        lacks.append(f"{len(cards)} of the {count} cards that it has answered")
    for card in cards:
        for name in (*tasks.subjects(), *(tasks.together(count) if card.number == "0" else ())):
            lacks += _subject(card, name, checks, rows.get((card.number, name)), tasks)
        for kernel, batch in tasks.kernels().items():
            for pattern in plan.table().patterns:
                lacks += _replay(card, kernel, pattern, checks, batch)
        lacks += [*_not(checks, coverage_id(card.number)), *_not(checks, f"card/{card.number}")]
    return cards, lacks


def coverage_id(card: str) -> str:
    return f"{REPLAY}/{card}::coverage"


def _of_host(record: Record, tasks: FleetPlan, count: int) -> Iterator[str]:
    """Say what of the host itself is not as asked: its cards, that they are the hardware, and that each row stands there once."""
    if not count:
        yield f"does not say how many cards it has (cards: {_shown(record.provenance.get('cards'))})"
    elif count < tasks.cards:
        yield f"{count} of the {tasks.cards} cards that the plan wants"
    if record.provenance.get("rehearsed") is not False:
        yield "was rehearsed, so nothing is known of its hardware"
    names = [*(check.id for check in record.checks)]
    names += [f"{row.workload} of card {row.figures.get('card')}" for row in record.measurements]
    yield from (
        f"{text.plain(name, 80, lines=False)} is in it twice" for name, times in Counter(names).items() if times > 1
    )


def _cards(facts: Mapping[str, Figure]) -> int:
    cards = facts.get("cards")
    return cards if _whole(cards) and 1 <= cards <= plan.table().limits.cards else 0


def _not(checks: Mapping[str, Check], name: str, asked: Verdict = Verdict.PASSED) -> Iterator[str]:
    if (check := checks.get(name)) is None:
        yield f"no {name}"
    elif check.verdict is not asked:
        why = f" ({text.plain(check.reason, 120, lines=False)})" if check.reason else ""
        yield f"{name} is {check.verdict.value}, not {asked.value}{why}"


def _subject(
    card: CardAnswer, name: str, checks: Mapping[str, Check], row: Measurement | None, tasks: FleetPlan
) -> Iterator[str]:
    """Take one subject of a card over, and say what speaks against it: what was not verified is not compared."""
    unverified = [*_not(checks, f"subject/{card.number}::{name}")]
    yield from unverified
    if row is None:
        yield from () if unverified else (f"{name} of card {card.number} not measured",)
        return
    why = [*_of_row(row, _subjects(tasks.stack)[name], tasks.profile)]
    yield from (f"{name} of card {card.number} {reason}" for reason in why)
    if not unverified and why in ([], [UNSETTLED]):
        key = SubjectKey(
            *(text.plain(word, 80, lines=False) for word in (row.workload, row.preset, row.version, row.unit))
        )
        card.seconds[key] = row.value


@cache
def _subjects(stack: str) -> Mapping[str, bench_subjects.Subject]:
    return bench_subjects.ours(stacks.load(stack))


def _of_row(row: Measurement, subject: bench_subjects.Subject, profile: str) -> Iterator[str]:
    ranks = int(subject.parameters[profile].get("ranks", 0))
    asked = {"preset": profile, "version": subject.version, "unit": subject.unit, "world_size": ranks or 1}
    asked |= {"dtype": subject.dtype} if subject.dtype else {}
    for name, value in asked.items():
        if (seen := getattr(row, name)) != value:
            yield f"has {_shown(seen)} for '{name}', not {_shown(value)}"
    if not (math.isfinite(row.value) and row.value > 0 and row.countable):
        yield f"has {row.value:g} for its value, or a sample that is no time"
    least = min(_LEAST_SAMPLES, plan.profile(profile).least)
    if len(row.samples) < least:
        yield f"has {len(row.samples)} samples, not {least} or more"
    size, wanted = f"one run, {subject.unit.removeprefix('s/')}", plan.table().sizes[subject.name][profile]
    seen = row.figures.get(size)
    if not (isinstance(seen, (int, float)) and math.isclose(seen, wanted, rel_tol=_CLOSE)):
        yield f"has {_shown(seen)} for '{size}', not {wanted:g}"
    if row.figures.get("settled") is not True:
        yield UNSETTLED


def _replay(card: CardAnswer, kernel: str, pattern: str, checks: Mapping[str, Check], batch: int) -> Iterator[str]:
    """Take one row of the replay over, right or wrong; say where it is missing, unfinished or not right."""
    name = f"{REPLAY}/{card.number}::{kernel}[{pattern}]"
    yield from _not(checks, name)
    if name not in checks:
        return
    digest, products, odd = (checks[name].figures.get(figure) for figure in ("digest", "products", "odd"))
    least = batch * (plan.FIRST + 2 * plan.BLOCK)
    if not isinstance(digest, str) or len(digest) != 16 or not set(digest) <= _DIGEST:
        yield f"{name} has {_shown(digest)} for 'digest', which is none"
    elif not _whole(products) or products < least:
        yield f"{name} has {_shown(products)} for 'products', not {least} or more"
    elif not _whole(odd) or not 0 <= odd <= products:
        yield f"{name} has {_shown(odd)} for 'odd', which cannot be"
    else:
        card.replayed[f"{kernel} {pattern}"] = ReplayAnswer(digest, products, odd)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    return "nothing" if value is None else text.plain(f"{value!r}", 60, lines=False)


def subjects(cards: Sequence[CardAnswer]) -> list[SubjectKey]:
    return sorted({key for card in cards for key in card.seconds})
