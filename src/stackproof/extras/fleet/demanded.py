"""What each row of a host's record must say, from the tables that `card` works by.

What is lacking or says something else is named with what was asked, and is no evidence: such a row is not compared with any other's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeGuard

from stackproof.api.base import plain
from stackproof.api.record import Check, Figure, Measurement, Record, Verdict
from stackproof.api.runs import Subject, ours
from stackproof.api.stack import stacks
from stackproof.extras.fleet import rules, wanted
from stackproof.extras.fleet.rules import ShownFigure
from stackproof.extras.fleet.wanted import PlanWants

REPLAY = "replay"
"""The group of a record's checks that hold digests."""
_DIGEST = re.compile(r"[0-9a-f]{16}")
_LOCK = re.compile(r"[0-9a-f]{64}")
UNPINNED = "unpinned"
"""What stands for the lock of an environment that is none of ours."""
_CLOSE = 1e-6
_LEAST_SAMPLES = 3
_INTERVAL = ("low", "high", "noise")


@dataclass(frozen=True)
class CheckTerms:
    """What one check of the record must be."""

    verdict: Verdict
    card: str = ""
    words: tuple[str, str, str] = ("", "", "")
    """Its group, subject and aspect."""
    code: bool = False
    """Whether it is a verb's, which ended with an exit code."""
    seconds: float = 0.0
    """So long it took at least."""
    batch: int = 0
    """Of a row of the replay: so many products at once."""

    def faults(self, check: Check) -> Iterator[str]:
        """Say in what a check differs."""
        if check.verdict is not self.verdict:
            said = f" ({plain(check.reason, 120, lines=False)})" if check.reason else ""
            yield f"is {check.verdict.value}, not {self.verdict.value}{said}"
            return
        if not check.reason.strip():
            yield "gives no reason"
        if self.verdict is Verdict.PASSED and (check.seconds <= 0 or check.seconds < self.seconds):
            yield f"took {check.seconds:g} s, not {self.seconds:g} s or more" if self.seconds else "took no time"
        if (check.group, check.subject, check.aspect) != self.words:
            yield f"is of {_told((check.group, check.subject, check.aspect))}, not of {_told(self.words)}"
        if self.card:
            yield from _is(check.figures, "card", self.card)
        if self.code:
            yield from _is(check.figures, "exit code", 0)
        if self.batch:
            yield from self._replay(check.figures)

    def believable(self, check: Check) -> bool:
        """Whether a row of the replay says what the card computed, right or wrong: then others are compared with it."""
        return not any(self._replay(check.figures, ("odd",))) and check.figures.get("card") == self.card

    def _replay(self, figures: Mapping[str, Figure], may_be: tuple[str, ...] = ()) -> Iterator[str]:
        digest, products = figures.get("digest"), figures.get("products")
        if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            yield f"has {_shown(digest)} for 'digest', which is none"
        first, block = rules.FIRST * self.batch, rules.BLOCK * self.batch
        if not _whole(products) or products < first + 2 * block or (products - first) % block:
            yield f"has {_shown(products)} for 'products', not {first} + n x {block} with n of 2 or more"
        for name in ("odd", "odd cold", "odd hot"):
            odd = figures.get(name)
            if not (_whole(odd) and (odd == 0 or (name in may_be and 0 < odd <= _number(products)))):
                yield f"has {_shown(odd)} for '{name}', not 0"
            if name in may_be:
                return


@dataclass(frozen=True)
class FigureTerms:
    """What the measurement of one subject on one card must be."""

    words: Mapping[str, object]
    """What its own fields must say, by name."""
    amounts: Mapping[str, float]
    """Figures that are known beforehand."""
    shown: tuple[ShownFigure, ...]
    least: int
    most: int

    def faults(self, row: Measurement) -> Iterator[str]:
        """Say in what a measurement differs."""
        for name, asked in self.words.items():
            if (told := getattr(row, name)) != asked or isinstance(told, bool):
                yield f"has {_shown(told)} for '{name}', not {_shown(asked)}"
        if not (math.isfinite(row.value) and row.value > 0 and row.countable):
            yield f"has {row.value:g} for its value, or a sample that is no time"
        if not self.least <= len(row.samples) <= self.most:
            yield f"has {len(row.samples)} samples, not {self.least} to {self.most}"
        yield from self._figures(row)

    def _figures(self, row: Measurement) -> Iterator[str]:
        figures = row.figures
        yield from _is(figures, "samples", len(row.samples))
        yield from (
            f"has {_shown(figures.get(name))} for '{name}'" for name in _INTERVAL if not _finite(figures.get(name))
        )
        for name, amount in self.amounts.items():
            told = figures.get(name)
            if not (_finite(told) and math.isclose(_number(told), amount, rel_tol=_CLOSE)):
                yield f"has {_shown(told)} for '{name}', not {amount:g}"
        for one in self.shown:
            told = figures.get(one.figure)
            if not (_finite(told) and one.least <= _number(told) <= one.most):
                yield f"has {_shown(told)} for '{one.figure}', not {one.least:g} to {one.most:g}"
        if figures.get("settled") is not True:
            yield UNSETTLED


UNSETTLED = "had not settled when it was timed"
"""Such a figure is compared, as a slow card may not settle; but it proves nothing."""


class Demand(NamedTuple):
    """All rows of one host: checks by id, measurements by card and subject."""

    checks: Mapping[str, CheckTerms]
    figures: Mapping[tuple[str, str], FigureTerms]
    replays: Mapping[str, list[str]]
    """By card, the ids of the rows of its replay."""


@dataclass
class Held:
    """A record held against its demand: rows that may be compared, by card, and what is lacking or otherwise, in sentences."""

    replayed: list[tuple[str, Check]] = field(default_factory=list)
    measured: list[tuple[str, Measurement]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@cache
def demand(wants: PlanWants, cards: int) -> Demand:
    """Return the rows of a host that has so many cards."""
    checks, figures = dict[str, CheckTerms](), dict[tuple[str, str], FigureTerms]()
    for step in wanted.STEPS:
        out = step in wants.without
        checks[step] = CheckTerms(Verdict.SKIPPED if out else Verdict.PASSED, code=step == "smoke" and not out)
    for card in map(str, range(cards)):
        checks |= _of_card(wants, card, cards)
        for name in _measured(wants, card, cards):
            figures[card, name] = _figure(wants, name)
    replays = {
        card: [name for name, one in checks.items() if one.batch and one.card == card]
        for card in map(str, range(cards))
    }
    return Demand(checks, figures, replays)


def _of_card(wants: PlanWants, card: str, cards: int) -> Iterator[tuple[str, CheckTerms]]:
    """Yield the checks of one card: subjects, done or skipped for what is said in data, rows of the replay, and what sums it up."""
    done, profile = _measured(wants, card, cards), rules.profile(wants.profile)
    for name in (*profile.subjects, *(profile.together if card == "0" else ())):
        if name not in wants.without:
            verdict = Verdict.PASSED if name in done else Verdict.SKIPPED
            yield f"subject/{card}::{name}", CheckTerms(verdict, card, ("", name, ""))
    for kernel, batch in _kernels(wants).items():
        for pattern in rules.load().values.patterns:
            terms = CheckTerms(Verdict.PASSED, card, (REPLAY, kernel, pattern), seconds=2 * profile.replay, batch=batch)
            yield f"{REPLAY}/{card}::{kernel}[{pattern}]", terms
    yield coverage_id(card), CheckTerms(Verdict.PASSED, card)
    yield f"card/{card}", CheckTerms(Verdict.PASSED, card)


def coverage_id(card: str) -> str:
    """Return the id of the check that sums a card's replay up."""
    return f"{REPLAY}/{card}::coverage"


def _measured(wants: PlanWants, card: str, cards: int) -> list[str]:
    together = wanted.together_of(wants.stack, wants.profile, cards) if card == "0" else ()
    return [name for name in (*wanted.subjects_of(wants.stack, wants.profile), *together) if name not in wants.without]


def _kernels(wants: PlanWants) -> dict[str, int]:
    """Return how many products at once each kernel of the replay gives."""
    table, precisions = rules.load(), stacks.load(wants.stack).precisions
    named = {f"{row.kernel}-{dtype}": row for row in table.replay for dtype in row.dtypes if dtype in precisions}
    return {
        name: getattr(row, wants.profile).batch
        for name, row in named.items()
        if not {row.kernel, name} & set(wants.without)
    }


def _figure(wants: PlanWants, name: str) -> FigureTerms:
    subject, profile = _subjects(wants.stack)[name], rules.profile(wants.profile)
    asked, ranks = rules.asked(name), int(subject.parameters[wants.profile].get("ranks", 0))
    words: dict[str, object] = {
        "workload": name, "preset": wants.profile, "dtype": subject.dtype or asked.dtype, "world_size": ranks or 1,
        "metric": subject.kind, "unit": subject.unit, "version": subject.version,
    }  # fmt: skip
    amount: float = getattr(asked, wants.profile)
    shown = tuple(one for one in rules.load().shown if one.ranks or not ranks)
    return FigureTerms(
        words, {f"one run, {subject.unit.removeprefix('s/')}": amount}, shown, min(_LEAST_SAMPLES, profile.least), profile.most
    )  # fmt: skip


@cache
def _subjects(stack: str) -> Mapping[str, Subject]:
    return ours(stacks.load(stack))


def held(record: Record, wants: PlanWants) -> Held:
    """Hold a record against what its plan wants of its host."""
    cards, found = max(counted(record.provenance), 1), Held()
    found.faults += _facts(record.provenance, wants)
    terms = demand(wants, cards)
    checks = _checks(record, terms, found)
    answered = {terms.checks[name].card for name in checks} | {""}
    if len(answered) <= cards:
        found.faults.append(f"{len(answered) - 1} of the {cards} cards that it has answered")
    found.faults += [f"no {name}" for name, one in terms.checks.items() if name not in checks and one.card in answered]
    measured = _measurements(record, terms, checks, found)
    lacking = [key for key in terms.figures if key not in measured and key[0] in answered]
    found.faults += [f"{name} of card {card} not measured{_why(checks, card, name)}" for card, name in lacking]
    found.faults += [one for card in answered - {""} for one in _sums(checks, terms, card)]
    return found


def _checks(record: Record, terms: Demand, found: Held) -> dict[str, Check]:
    """Take the checks one by one; return those that were asked for."""
    seen = dict[str, Check]()
    for check in record.checks:
        asked = terms.checks.get(check.id)
        if asked is None or check.id in seen:
            name = plain(check.id, 80, lines=False)
            found.faults.append(f"{name} is in it twice" if asked else f"{name} was not asked for")
            continue
        seen[check.id] = check
        why = [*asked.faults(check)]
        found.faults += [f"{check.id} {one}" for one in why]
        if check.seconds > record.seconds:
            found.faults.append(f"{check.id} took {check.seconds:g} s, and all of it {record.seconds:g} s")
        if asked.batch and (not why or asked.believable(check)):
            found.replayed.append((asked.card, check))
    return seen


def _measurements(record: Record, terms: Demand, checks: Mapping[str, Check], found: Held) -> set[tuple[str, str]]:
    """Take the measurements one by one, each with the check of its subject, which has verified it; return those that were asked for."""
    seen = set[tuple[str, str]]()
    for row in record.measurements:
        key = str(row.figures.get("card")), row.workload
        asked, name = terms.figures.get(key), plain(f"{row.workload} of card {key[0]}", 80, lines=False)
        if asked is None or key in seen or row.figures["card"] != key[0]:
            found.faults.append(f"{name} was measured twice" if key in seen else f"{name} was not asked for")
            continue
        seen.add(key)
        why = [*asked.faults(row), *_unverified(row, checks.get(f"subject/{key[0]}::{row.workload}"))]
        found.faults += [f"{name} {one}" for one in why]
        if not why or why == [UNSETTLED]:
            found.measured.append((key[0], row))
    return seen


def _unverified(row: Measurement, check: Check | None) -> Iterator[str]:
    """Say that what was timed is not what its check has verified: the same sentence stands in both."""
    if not check or check.verdict is not Verdict.PASSED or row.figures.get("verified") != check.reason:
        yield f"was verified by {_shown(row.figures.get('verified'))}, and its check says {_shown(check and check.reason)}"


def counted(facts: Mapping[str, Figure]) -> int:
    """Return how many cards a host says that it has; 0 where it does not say it in a number that can be."""
    one, other = facts.get("cards"), facts.get("devices")
    return one if _whole(one) and one == other and _whole(other) and 1 <= one <= rules.load().limits.cards else 0


def _facts(facts: Mapping[str, Figure], wants: PlanWants) -> Iterator[str]:
    """Say what of the host itself is not as asked: its cards, its environment, and that it is the hardware."""
    if not (cards := counted(facts)):
        told = ", ".join(f"{name}: {_shown(facts.get(name))}" for name in ("cards", "devices"))
        yield f"does not say how many cards it has, in one number that can be ({told})"
    if cards < wants.cards:
        yield f"{cards} of the {wants.cards} cards that the plan wants"
    for name, asked in (("stack", wants.stack), ("verified on", stacks.load(wants.stack).device)):
        yield from _is(facts, name, asked)
    if facts.get("rehearsed") is not False:
        yield "was rehearsed, so nothing is known of its hardware"
    pinned, lock, hashed = facts.get("pinned"), facts.get("lock"), facts.get("files hashed")
    if not isinstance(pinned, bool):
        yield f"does not say whether its environment is its lock (pinned: {_shown(pinned)})"
    elif pinned and not (isinstance(lock, str) and _LOCK.fullmatch(lock) and _whole(hashed) and hashed > 0):
        yield f"says that it is its lock, which is {_shown(lock)}, with {_shown(hashed)} files compared"
    elif not pinned and lock != UNPINNED:
        yield f"says that it is no lock, and that its lock is {_shown(lock)}"


def _why(checks: Mapping[str, Check], card: str, name: str) -> str:
    check = checks.get(f"subject/{card}::{name}")
    return f" ({plain(check.reason, 120, lines=False)})" if check and check.verdict is not Verdict.PASSED else ""


def _sums(checks: Mapping[str, Check], terms: Demand, card: str) -> Iterator[str]:
    """Say where the sums of a card's replay are not those of its rows."""
    rows = terms.replays[card]
    if (whole := checks.get(coverage_id(card))) is None or any(name not in checks for name in rows):
        return
    kernels = len({terms.checks[name].words[1] for name in rows})
    products = sum(_number(checks[name].figures.get("products")) for name in rows)
    for name, asked in (("products", products), ("odd", 0), ("kernels", kernels)):
        yield from (f"{coverage_id(card)} {why}" for why in _is(whole.figures, name, asked))


def _is(figures: Mapping[str, Figure], name: str, asked: Figure) -> Iterator[str]:
    told = figures.get(name)
    if told != asked or isinstance(told, (bool, float)):
        yield f"has {_shown(told)} for '{name}', not {_shown(asked)}"


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _shown(value: object) -> str:
    return "nothing" if value is None else plain(f"{value!r}", 60, lines=False)


def _told(words: tuple[str, str, str]) -> str:
    return plain(f"'{' '.join(filter(None, words))}'", 80, lines=False)
