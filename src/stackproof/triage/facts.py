"""What a log says of versions, topology and settings, and whether what was asked for or claimed of the run is so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stackproof.triage import rules
from stackproof.triage.deaths import People
from stackproof.triage.scan import Evidence
from stackproof.triage.search import Hit, Who

_MOST_VALUES = 8
_ASSIGNMENT = re.compile(r"""(?<![\w=/.-])([A-Z][A-Z0-9_]+)=("[^"]*"|'[^']*'|[^\s;#]+)""")
_GENV = re.compile(r"-genv ([A-Z][A-Z0-9_]+) ([^\s;#=]+)")
# A library's advice: "to force enable ATL/MPI set CCL_ATL_TRANSPORT=mpi".
_HINT = re.compile(r"\S\s+(?:set|setting|use|using|try|with)\s+[`'\"]?[A-Z][A-Z0-9_]+=")
_NO_VALUE = ("<not specified>", "")


@dataclass(frozen=True)
class Shown:
    """A fact that the logs hold: its values in the order of the log with how often each was seen."""

    fact: rules.Fact
    values: tuple[tuple[str, int], ...]
    first: Hit


@dataclass(frozen=True)
class Conflict:
    """Something that was asked for and that the log shows not to be so; `id` is a rule's, or the name of a variable."""

    id: str
    title: str
    remedy: str
    asked: Hit
    shown: Hit


def shown(evidence: Evidence) -> list[Shown]:
    rows = []
    for fact in rules.facts(rules.FACT):
        hits = evidence.tally(fact.probe.key).kept
        values = Counter(" ".join(hit.groups.get("value", "").split()).rstrip(".,;") for hit in hits)
        if hits and len(values) >= fact.least:
            rows.append(Shown(fact, tuple(list(values.items())[:_MOST_VALUES]), hits[0]))
    return rows


def differing(evidence: Evidence) -> list[Conflict]:
    """Return the variables that somebody set and that the libraries report to be otherwise, for the same rank.

    A setting of a script counts for all ranks, and the last one counts.
    """
    people = People(evidence)
    asked, in_effect = _asked(evidence, people), _in_effect(evidence, people)
    conflicts = []
    for name in sorted(asked):
        for who, (value, at) in asked[name].items():
            reported = in_effect.get(name, {})
            own = {who: reported[who]} if who in reported else reported if who[0] != "rank" else {}
            for other, hit in list(own.values())[:1]:
                if _plain(other) != _plain(value):
                    title = f"{name}={value} was asked for, {other} is in effect"
                    conflicts.append(Conflict(name, title, "", at, hit))
    return conflicts


Values = dict[str, dict[Who, tuple[str, Hit]]]


def _asked(evidence: Evidence, people: People) -> Values:
    values: Values = {}
    for fact in rules.facts(rules.ASKED):
        for hit in evidence.tally(fact.probe.key).kept:
            for name, value in [*_ASSIGNMENT.findall(hit.text), *_GENV.findall(hit.text)]:
                if "$" not in value:
                    values.setdefault(name, {})[people.who(hit)] = (value.strip("\"'"), hit)
    return values


def _in_effect(evidence: Evidence, people: People) -> Values:
    values: Values = {}
    for fact in rules.facts(rules.IN_EFFECT):
        for hit in evidence.tally(fact.probe.key).kept:
            value = hit.groups.get("value", "").strip()
            if value not in _NO_VALUE and "name" in hit.groups:
                values.setdefault(hit.groups["name"], {})[people.who(hit)] = (value, hit)
    return values


def _plain(value: str) -> str:
    return value.strip(" \"'.").casefold()


YES, NO, NOT_SHOWN = "yes", "no", "not shown"
_MOST_LINES = 3


@dataclass(frozen=True)
class Part:
    """One part of a claim: what the log says of it, and the lines for and against."""

    name: str
    answer: str
    for_it: tuple[Hit, ...]
    against: tuple[Hit, ...]


@dataclass(frozen=True)
class Answer:
    """Whether a claim holds; it does only when every part of it is shown."""

    expectation: rules.Expectation
    answer: str
    parts: tuple[Part, ...]

    @property
    def holds(self) -> bool:
        """Whether the log proves the claim."""
        return self.answer == YES

    @property
    def sentence(self) -> str:
        """The answer in words; what is not shown can be made to show."""
        missing = [part.name for part in self.parts if part.answer == NOT_SHOWN]
        refuted = [part.name for part in self.parts if part.answer == NO]
        partly = [part.name for part in self.parts if part.for_it and part.against and part.answer == NO]
        if refuted:
            mixed = f" (partly: {', '.join(partly)} holds for some lines and not for others)" if partly else ""
            return f"no: {self.expectation.title}: refuted: {', '.join(refuted)}{mixed}"
        if missing:
            return f"not shown: {self.expectation.title}: the log says nothing of: {', '.join(missing)}; {self.expectation.how}"
        return f"yes: {self.expectation.title}"


def answer(name: str, evidence: Evidence) -> Answer:
    """Return what the logs say of a claim, by its name in `expectations.toml`."""
    expectation = rules.expectations()[name]
    names = dict.fromkeys(sign.part for sign in expectation.signs)
    parts = tuple(_part(part, expectation.signs, evidence) for part in names)
    answers = {part.answer for part in parts}
    return Answer(expectation, NO if NO in answers else NOT_SHOWN if NOT_SHOWN in answers else YES, parts)


def _part(name: str, signs: Sequence[rules.Sign], evidence: Evidence) -> Part:
    own = [sign for sign in signs if sign.part == name]
    for_it = _lines([sign for sign in own if sign.answer == YES], evidence)
    strong = _lines([sign for sign in own if sign.answer == NO and not sign.weak], evidence)
    against = strong if strong or for_it else _lines([sign for sign in own if sign.weak], evidence)
    return Part(name, NO if against else YES if for_it else NOT_SHOWN, for_it, against)


def _lines(signs: Sequence[rules.Sign], evidence: Evidence) -> tuple[Hit, ...]:
    hits = (hit for sign in signs for hit in evidence.tally(sign.probe.key).kept)
    return tuple(sorted(hits, key=lambda hit: hit.place)[:_MOST_LINES])


def conflicts(evidence: Evidence) -> list[Conflict]:
    """Return what was asked for and is not so; a line right after one that shows the opposite asks for nothing."""
    conflicts = []
    for rule in rules.claims().contradiction:
        shown = evidence.tally(rule.shown.key).kept
        after = {(hit.place.source, hit.place.line + 1) for hit in shown}
        asked = [hit for hit in evidence.tally(rule.asked.key).kept if not _HINT.search(hit.text)]
        asked = [hit for hit in asked if (hit.place.source, hit.place.line) not in after]
        if asked and shown:
            conflicts.append(Conflict(rule.id, rule.title, f"{rule.remedy} ({rule.link})", asked[0], shown[0]))
    return conflicts
