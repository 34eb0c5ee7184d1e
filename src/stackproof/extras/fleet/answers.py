"""What hosts have left in the folder of a sweep: each record is held against what the plan asks of a host.

A record of another host or plan, a damaged or unfinished one is named in a sentence and costs its own host alone. Rows that are missing
leave the host incomplete and are compared with nobody's. That a record was edited is found where it is read, by its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from stackproof.api.base import Refusal, files, text
from stackproof.api.record import Check, Figure, Measurement, Record, Verdict, reading, store
from stackproof.api.runs import bench_subjects
from stackproof.api.stack import stacks
from stackproof.extras.fleet import plan
from stackproof.extras.fleet.plan import RECORDS, REPLAY, STEPS, FleetPlan

_ENDED = ".json"
UNSETTLED = "had not settled when it was timed"
"""Such a figure is compared, as a slow card may not settle; but it proves nothing."""


@dataclass(frozen=True)
class ReplayAnswer:
    """One row of the replay: the digest of its products, how many there were, and how many gave something else than the first."""

    digest: str
    products: int
    odd: int


@dataclass
class CardAnswer:
    """One card of a host, by its number: by subject seconds per unit of work, and rows of the replay by kernel and pattern of values."""

    host: str
    number: str
    seconds: dict[str, float] = field(default_factory=dict)
    replayed: dict[str, ReplayAnswer] = field(default_factory=dict)


@dataclass(frozen=True)
class HostAnswer:
    """What one host has left: its record, its cards and the state of them, and in sentences what it `lacks` of its tasks."""

    host: str
    record: Record
    architecture: str
    state: store.State
    cards: tuple[CardAnswer, ...]
    lacks: tuple[str, ...]


def record_path(folder: Path, host: str) -> Path:
    return folder / RECORDS / f"{plan.host(host)}{_ENDED}"


def gather(folder: Path, tasks: FleetPlan) -> tuple[dict[str, HostAnswer], dict[str, str]]:
    """Return what hosts have left below the folder of a sweep, and by host why a file is no answer; `tasks`: its plan."""
    hosts, refused = dict[str, HostAnswer](), dict[str, str]()
    for path in sorted((folder / RECORDS).glob(f"[!.]*{_ENDED}")):
        host = path.name.removesuffix(_ENDED)
        try:
            hosts[host] = read(path, host, tasks)
        except Refusal as refusal:
            why = text.plain(str(refusal).replace(str(folder), folder.name), 400, lines=False)
            refused[text.plain(host, 80, lines=False)] = why
    return hosts, refused


def read(path: Path, host: str, tasks: FleetPlan) -> HostAnswer:
    """Read the record of a host, which must be of this one and of this plan, and hold it against its tasks.

    Refusal: it is no such record; the sentence says why.
    """
    again = "let the host run again"
    if why := files.why_unreadable(path, plan.table().limits.mib << 20):
        raise Refusal(f"{path}: {why}; {again}")
    record = reading.read(path)
    facts, place = record.provenance, store.place(record.provenance)
    asked = {"verb": plan.VERB, "host": host, "plan": tasks.id}
    for what, seen in {"verb": record.verb, "host": facts.get("host"), "plan": facts.get("plan")}.items():
        if seen != asked[what]:
            raise Refusal(f"{path}: is of another {what} ({seen or 'none'}, and not {asked[what]}); {again}")
    cards, lacks = _compared(record, host, tasks)
    rehearsed = " (rehearsed)" if place.rehearsed else ""
    return HostAnswer(
        host, record, f"{place.stack}{rehearsed} on {place.devices}", state(facts), tuple(cards), tuple(lacks)
    )


def reason(record: Record) -> str:
    """Return what the first of its gravest checks says; nothing where all is well."""
    if not record.verdict.exit_code:
        return ""
    bad = next((check for check in record.checks if check.verdict is record.verdict), None)
    sentence = f"{bad.id}: {bad.reason}" if bad else f"ended '{record.verdict.value}', and does not say why"
    return text.plain(sentence, 300, lines=False)


def state(facts: Mapping[str, Figure]) -> store.State:
    """Return the state that hosts must share to be compared."""
    return store.state({known: value for name, value in facts.items() if (known := _fact(name))})


@lru_cache(maxsize=8192)
def _fact(name: str) -> str:
    """Return as what a fact counts, what is set of clocks and limits as the driver's; an empty string where it does not count."""
    if text.matches(name, plan.table().state.ignored):
        return ""
    return f"driver.{name}" if name.startswith("set.") else name


def _compared(record: Record, host: str, tasks: FleetPlan) -> tuple[list[CardAnswer], list[str]]:
    """Return what may be compared with other hosts, card by card, and what is lacking or otherwise, in sentences."""
    checks = {check.id: check for check in record.checks}
    rows = {(str(row.figures.get("card")), row.workload): row for row in record.measurements}
    cards, lacks = list[CardAnswer](), list[str]()
    count = int(record.provenance.get("cards", 0))
    if not count:
        lacks.append("no card")
    if record.provenance.get("rehearsed") is not False:
        lacks.append("was rehearsed, so nothing is known of its hardware")
    for step in STEPS:
        lacks += _not(checks, step, Verdict.SKIPPED if step in tasks.without else Verdict.PASSED)
    for number in map(str, range(count)):
        card = CardAnswer(host, number)
        for name in (*tasks.subjects(), *(tasks.together(count) if number == "0" else ())):
            lacks += _subject(card, name, checks, rows.get((number, name)), tasks)
        for kernel in tasks.kernels():
            for pattern in plan.table().patterns:
                lacks += _replay(card, kernel, pattern, checks)
        lacks += _not(checks, f"card/{number}")
        cards.append(card)
    return cards, lacks


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
    if unverified := [*_not(checks, f"subject/{card.number}::{name}")]:
        yield from unverified
        return
    asked = subjects(tasks.stack)[name]
    if row is None or (row.preset, row.version, row.unit) != (tasks.profile, asked.version, asked.unit):
        yield f"{name} of card {card.number} not measured, or by another version of stackproof"
        return
    card.seconds[name] = row.value
    if row.figures.get("settled") is not True:
        yield f"{name} of card {card.number} {UNSETTLED}"


@cache
def subjects(stack: str) -> Mapping[str, bench_subjects.Subject]:
    return bench_subjects.ours(stacks.load(stack))


def _replay(card: CardAnswer, kernel: str, pattern: str, checks: Mapping[str, Check]) -> Iterator[str]:
    """Take one row of the replay over, right or wrong; say where it is missing or not right."""
    name = f"{REPLAY}/{card.number}::{kernel}[{pattern}]"
    yield from _not(checks, name)
    if name in checks:
        figures = checks[name].figures
        answer = ReplayAnswer(str(figures["digest"]), int(figures["products"]), int(figures["odd"]))
        card.replayed[f"{kernel} {pattern}"] = answer
