"""Proving a claim about a run from its log, and finding what was asked for and is not so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import rules
from .probes import Hit
from .scanning import Evidence

YES, NO, NOT_SHOWN = "yes", "no", "not shown"
_MOST_LINES = 3


@dataclass(frozen=True)
class Part:
    """One part of a claim: what the log says of it, and the lines for and against."""

    name: str
    answer: str
    for_it: tuple[Hit, ...]
    against: tuple[Hit, ...]
    counts: tuple[int, int]


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


@dataclass(frozen=True)
class Conflict:
    """Something that was asked for and that the log shows not to be so."""

    rule: rules.Contradiction
    asked: Hit
    shown: Hit


def answer(name: str, evidence: Evidence) -> Answer:
    """Return what the logs say of a claim, by its name in `expectations.toml`."""
    expectation = rules.expectations()[name]
    names = dict.fromkeys(sign.part for sign in expectation.signs)
    parts = tuple(_part(part, expectation.signs, evidence) for part in names)
    answers = {part.answer for part in parts}
    return Answer(expectation, NO if NO in answers else NOT_SHOWN if NOT_SHOWN in answers else YES, parts)


def _part(name: str, signs: Sequence[rules.Sign], evidence: Evidence) -> Part:
    own = [sign for sign in signs if sign.part == name]
    for_it, ayes = _lines([sign for sign in own if sign.answer == YES], evidence)
    strong, noes = _lines([sign for sign in own if sign.answer == NO and not sign.weak], evidence)
    weak, weak_noes = _lines([sign for sign in own if sign.weak], evidence)
    against, count = (strong, noes) if noes or ayes else (weak, weak_noes)
    word = NO if count else YES if ayes else NOT_SHOWN
    return Part(name, word, for_it, against, (ayes, count))


def _lines(signs: Sequence[rules.Sign], evidence: Evidence) -> tuple[tuple[Hit, ...], int]:
    tallies = [evidence.tally(sign.probe.key) for sign in signs]
    hits = sorted((hit for tally in tallies for hit in tally.kept), key=lambda hit: hit.place)
    return tuple(hits[:_MOST_LINES]), sum(tally.count for tally in tallies)


def conflicts(evidence: Evidence) -> list[Conflict]:
    """Return what was asked for and is not so."""
    found = []
    for rule in rules.contradictions():
        asked, shown = evidence.tally(rule.asked.key).kept, evidence.tally(rule.shown.key).kept
        if asked and shown:
            found.append(Conflict(rule, asked[0], shown[0]))
    return found
