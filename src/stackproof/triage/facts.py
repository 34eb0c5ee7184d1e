"""What a log says of versions, topology and settings; what was asked for against what is in effect."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from . import rules
from .deaths import People
from .probes import Hit, Who
from .scanning import Evidence

_MOST_VALUES = 8
_ASSIGNMENT = re.compile(r"""(?<![\w=/.-])([A-Z][A-Z0-9_]+)=("[^"]*"|'[^']*'|[^\s;#]+)""")
_GENV = re.compile(r"-genv ([A-Z][A-Z0-9_]+) ([^\s;#=]+)")
_NO_VALUE = ("<not specified>", "")


@dataclass(frozen=True)
class Shown:
    """A fact: its values in the order of the log with how often each was seen, and what is odd about it."""

    name: str
    group: str
    values: tuple[tuple[str, int], ...]
    odd: str
    first: Hit


@dataclass(frozen=True)
class Setting:
    """A variable that was asked to be one thing and is another."""

    name: str
    asked: str
    in_effect: str
    asked_at: Hit
    in_effect_at: Hit


def shown(evidence: Evidence) -> list[Shown]:
    """Return the facts that the logs hold."""
    found = (_shown(fact, evidence) for fact in rules.facts() if fact.role == rules.FACT)
    return [row for row in found if row]


def _shown(fact: rules.Fact, evidence: Evidence) -> Shown | None:
    tally = evidence.tally(fact.probe.key)
    if not tally.kept:
        return None
    values = Counter(" ".join(hit.groups.get("value", "").split()).rstrip(".,;") for hit in tally.kept)
    if len(values) < fact.least:
        return None
    return Shown(fact.name, fact.group, tuple(list(values.items())[:_MOST_VALUES]), fact.odd, tally.kept[0])


def differing(evidence: Evidence) -> list[Setting]:
    """Return the variables that somebody set and that the libraries report to be otherwise, for the same rank.

    A setting of a script counts for all ranks, and the last one counts.
    """
    people = People(evidence)
    asked, in_effect = _asked(evidence, people), _in_effect(evidence, people)
    found = []
    for name in sorted(asked):
        for who, (value, at) in asked[name].items():
            reported = in_effect.get(name, {})
            own = {who: reported[who]} if who in reported else reported if who[0] != "rank" else {}
            for other, hit in list(own.values())[:1]:
                if _plain(other) != _plain(value):
                    found.append(Setting(name, value, other, at, hit))
    return found


Values = dict[str, dict[Who, tuple[str, Hit]]]


def _asked(evidence: Evidence, people: People) -> Values:
    found: Values = {}
    for fact in rules.facts():
        for hit in evidence.tally(fact.probe.key).kept if fact.role == rules.ASKED else ():
            for name, value in [*_ASSIGNMENT.findall(hit.text), *_GENV.findall(hit.text)]:
                if "$" not in value:
                    found.setdefault(name, {})[people.who(hit)] = (value.strip("\"'"), hit)
    return found


def _in_effect(evidence: Evidence, people: People) -> Values:
    found: Values = {}
    for fact in rules.facts():
        for hit in evidence.tally(fact.probe.key).kept if fact.role == rules.IN_EFFECT else ():
            value = hit.groups.get("value", "").strip()
            if value not in _NO_VALUE and "name" in hit.groups:
                found.setdefault(hit.groups["name"], {})[people.who(hit)] = (value, hit)
    return found


def _plain(value: str) -> str:
    """Return a value as libraries compare it."""
    return value.strip(" \"'.").casefold()
