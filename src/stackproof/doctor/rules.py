"""The tables of `data/doctor.toml`, and the findings that their rows make of facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

from stackproof import DATA
from stackproof.base.toml import Key, OneOf, kept
from stackproof.stack.stacks import TOOLKITS
from stackproof.stack.variables import Expression, Level

AREAS = ("host", "cards", "environment", "variables")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `toolkit` is set if it concerns only stacks with that toolkit."""

    area: str
    level: Level
    sentence: str
    remedy: str = ""
    link: str = ""
    toolkit: str = ""
    subjects: tuple[str, ...] = ()
    """The variables that it is about."""

    def at_most(self, level: Level) -> Finding:
        """Return the finding, made milder if it is worse than `level`."""
        order = list(Level)
        return replace(self, level=level) if order.index(self.level) > order.index(level) else self


def ok(area: str, sentence: str, toolkit: str = "") -> Finding:
    """Make the finding that something is as it should be."""
    return Finding(area, Level.OK, sentence, toolkit=toolkit)


TABLE = DATA / "doctor.toml"
Facts = Mapping[str, str]

_PLACE = re.compile(r"\{([\w.+-]+)\}")
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_Toolkit = Annotated[str, OneOf(("", *TOOLKITS))]


@dataclass(frozen=True, kw_only=True)
class Maker:
    """A maker of cards: how its cards, drivers, nodes and libraries are recognised."""

    name: str
    key: str
    pci_vendor: str
    toolkit: _Toolkit = ""
    drivers: tuple[str, ...]
    foreign: tuple[str, ...]
    nodes: tuple[str, ...]
    nodes_on_demand: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    """The nodes of single cards, one each."""
    render_nodes: bool = False
    driver_files: tuple[str, ...]
    driver_pattern: Expression
    libraries: tuple[str, ...]
    folders: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    on_card_switch: bool = False
    tiles: int = 1
    """How many devices a process may see of a card whose model is not in the table."""
    least_bar_mib: int = 0
    device_flags: str
    install: str
    link: str


@dataclass(frozen=True)
class Model:
    """A card by its PCI identity."""

    pci: str
    name: str
    tiles: int = 1


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool of a maker, by names and paths."""

    name: str
    toolkit: _Toolkit = ""
    paths: tuple[str, ...]
    remedy: str = ""


@dataclass(frozen=True)
class Container:
    """A kind of container, and what shows it."""

    name: str
    paths: tuple[str, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Virtualisation(Container):
    """A way of slicing cards, what shows it, and what it means."""

    mentions: Mapping[str, str] = field(default_factory=dict)
    sentence: str
    remedy: str
    link: str


@dataclass(frozen=True, kw_only=True)
class OnPath:
    """A fact: the folders of a search path that hold one of these files, or what the group of `take` finds in their names."""

    fact: str
    variable: str
    files: tuple[str, ...]
    take: Expression | None = None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Conditions on facts, and the finding if all of them hold."""

    area: Annotated[str, OneOf(AREAS)]
    toolkit: _Toolkit = ""
    when: Mapping[str, Expression] = field(default_factory=dict)
    unless: Mapping[str, Expression] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    below: Mapping[str, str] = field(default_factory=dict)
    level: Level
    sentence: str
    remedy: str
    link: str = ""

    def judge(self, facts: Facts) -> Iterator[Finding]:
        if (
            all(name in facts and pattern.fullmatch(facts[name]) for name, pattern in self.when.items())
            and not any(name in facts and pattern.fullmatch(facts[name]) for name, pattern in self.unless.items())
            and not any(name in facts for name in self.absent)
            and all(name in facts and _less(facts[name], _filled(bound, facts)) for name, bound in self.below.items())
        ):
            sentence, remedy = _filled(self.sentence, facts), _filled(self.remedy, facts)
            yield Finding(self.area, self.level, sentence, remedy, self.link, self.toolkit)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Facts whose versions have to say the same."""

    area = "environment"
    what: str
    values: Mapping[str, Expression] = field(default_factory=dict)
    toolkit: _Toolkit = ""
    level: Level
    remedy: str
    link: str = ""

    def judge(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding if what the patterns catch differs; what is absent or does not match is not asked."""
        caught = {
            name: "".join(match.groups())
            for name, pattern in self.values.items()
            if (match := pattern.fullmatch(facts.get(name, "")))
        }
        if len(set(caught.values())) > 1:
            listed = ", ".join(f"{name} {facts[name]}" for name in caught)
            sentence = f"{self.what} must be one and the same throughout: {listed}"
            yield Finding("environment", self.level, sentence, self.remedy, self.link, self.toolkit)


@dataclass(frozen=True)
class ReleasePair:
    """Which release of one package belongs to which of another."""

    area = "environment"
    left: str
    right: str
    releases: Mapping[str, str]
    level: Level
    link: str = ""

    def judge(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding if both are there and the table wants another release of the right one."""
        release = self.releases.get(_release(facts.get(self.left, "")))
        if release and self.right in facts and _release(facts[self.right]) != release:
            sentence = f"{self.left} {facts[self.left]} goes with {self.right} {release}, not with {facts[self.right]}"
            remedy = f"python -m pip install '{self.right}=={release}.*'   # of the same index as {self.left}"
            yield Finding("environment", self.level, sentence, remedy, self.link)


@dataclass(frozen=True)
class Rules:
    """The table `data/doctor.toml`: what a host must have, and what it must not."""

    makers: Annotated[tuple[Maker, ...], Key("maker")]
    cards: Annotated[tuple[Model, ...], Key("model")]
    tools: Annotated[tuple[Tool, ...], Key("tool")]
    containers: Annotated[tuple[Container, ...], Key("container")]
    virtualisations: Annotated[tuple[Virtualisation, ...], Key("virtualisation")]
    rows: Annotated[tuple[Rule, ...], Key("rule")]
    paths: Annotated[tuple[OnPath, ...], Key("path")]
    agreements: Annotated[tuple[Agreement, ...], Key("agreement")]
    pairs: Annotated[tuple[ReleasePair, ...], Key("pair")]
    folders: tuple[str, ...] = ()

    @cached_property
    def models(self) -> Mapping[str, Model]:
        """Cards by their PCI identity."""
        return {card.pci: card for card in self.cards}

    def judge(self, area: str, facts: Facts) -> Iterator[Finding]:
        rows: tuple[Rule | Agreement | ReleasePair, ...] = (*self.rows, *self.agreements, *self.pairs)
        for row in rows:
            if row.area == area:
                yield from row.judge(facts)


load = kept(TABLE, Rules)


def _filled(text: str, facts: Facts) -> str:
    return _PLACE.sub(lambda match: facts.get(match[1], "unknown"), text)


def _release(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _less(value: str, bound: str) -> bool:
    """Whether a version or a number is below another; what has no number (unlimited) is not."""
    version, limit = _VERSION.search(value), _VERSION.fullmatch(bound)
    return bool(version and limit and [*map(int, version[0].split("."))] < [*map(int, limit[0].split("."))])
