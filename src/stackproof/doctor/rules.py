"""A finding: how bad, one sentence, the remedy as a command or a setting, a link where there is one.

The tables of `data/doctor.toml`, and how a row is held against facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from stackproof import DATA
from stackproof.base.toml import Table
from stackproof.stack.stacks import TOOLKITS
from stackproof.stack.variables import LEVELS, Level, compiled, expressions

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


@dataclass(frozen=True)
class Maker:
    """A maker of cards: how its cards, drivers, nodes and libraries are recognised."""

    name: str
    key: str
    pci_vendor: str
    toolkit: str
    drivers: tuple[str, ...]
    foreign: tuple[str, ...]
    nodes: tuple[str, ...]
    nodes_on_demand: tuple[str, ...]
    render_nodes: bool
    driver_files: tuple[str, ...]
    driver_pattern: re.Pattern[str]
    libraries: tuple[str, ...]
    folders: tuple[str, ...]
    skip: tuple[str, ...]
    on_card_switch: bool
    least_bar_mib: int
    device_flags: str
    install: str
    link: str


@dataclass(frozen=True)
class Tool:
    """A tool of a maker, and the words that make it print its version."""

    name: str
    toolkit: str
    paths: tuple[str, ...]
    version: tuple[str, ...]
    wanted: str


@dataclass(frozen=True)
class Container:
    """A kind of container, and what shows it."""

    name: str
    paths: tuple[str, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Virtualisation(Container):
    """A way of slicing cards, what shows it, and what it means."""

    mentions: Mapping[str, str]
    sentence: str
    remedy: str
    link: str


@dataclass(frozen=True)
class Rule:
    """Conditions on facts, and the finding if all of them hold."""

    area: str
    toolkit: str
    when: Mapping[str, re.Pattern[str]]
    unless: Mapping[str, re.Pattern[str]]
    absent: tuple[str, ...]
    below: Mapping[str, str]
    level: Level
    sentence: str
    remedy: str
    link: str

    def judge(self, facts: Facts) -> Iterator[Finding]:
        """Yield the finding if the rule holds of these facts."""
        if (
            all(name in facts and pattern.fullmatch(facts[name]) for name, pattern in self.when.items())
            and not any(name in facts and pattern.fullmatch(facts[name]) for name, pattern in self.unless.items())
            and not any(name in facts for name in self.absent)
            and all(name in facts and _less(facts[name], bound) for name, bound in self.below.items())
        ):
            sentence, remedy = _filled(self.sentence, facts), _filled(self.remedy, facts)
            yield Finding(self.area, self.level, sentence, remedy, self.link, self.toolkit)


@dataclass(frozen=True)
class Agreement:
    """Facts whose versions have to say the same."""

    what: str
    values: Mapping[str, re.Pattern[str]]
    toolkit: str
    level: Level
    remedy: str
    link: str

    def judge(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding if what the patterns catch differs; what is absent or does not match is not asked."""
        caught = {
            name: "".join(found.groups())
            for name, pattern in self.values.items()
            if (found := pattern.fullmatch(facts.get(name, "")))
        }
        if len(set(caught.values())) > 1:
            said = ", ".join(f"{name} {facts[name]}" for name in caught)
            sentence = f"{self.what} must be one and the same throughout: {said}"
            yield Finding("environment", self.level, sentence, self.remedy, self.link, self.toolkit)


@dataclass(frozen=True)
class Pair:
    """Which release of one package belongs to which of another."""

    left: str
    right: str
    releases: Mapping[str, str]
    level: Level
    link: str

    def judge(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding if both are there and the table wants another release of the right one."""
        if self.left not in facts or self.right not in facts:
            return
        wanted = self.releases.get(_release(facts[self.left]))
        if wanted and _release(facts[self.right]) != wanted:
            sentence = f"{self.left} {facts[self.left]} goes with {self.right} {wanted}, not with {facts[self.right]}"
            remedy = f"python -m pip install '{self.right}=={wanted}.*'   # of the same index as {self.left}"
            yield Finding("environment", self.level, sentence, remedy, self.link)


@dataclass(frozen=True)
class Rules:
    """The whole table."""

    makers: tuple[Maker, ...]
    models: Mapping[str, str]
    tools: tuple[Tool, ...]
    containers: tuple[Container, ...]
    virtualisations: tuple[Virtualisation, ...]
    rows: tuple[Rule, ...]
    agreements: tuple[Agreement, ...]
    pairs: tuple[Pair, ...]

    def judge(self, area: str, facts: Facts) -> Iterator[Finding]:
        """Yield what the rows of one area find in the facts."""
        for rule in self.rows:
            if rule.area == area:
                yield from rule.judge(facts)
        if area == "environment":
            for agreement in self.agreements:
                yield from agreement.judge(facts)
            for pair in self.pairs:
                yield from pair.judge(facts)


@cache
def load() -> Rules:
    """Load `data/doctor.toml`."""
    with Table.load(TABLE) as table:
        return Rules(
            makers=tuple(_maker(row) for row in table.tables("maker")),
            models=dict(_model(row) for row in table.tables("model")),
            tools=tuple(_tool(row) for row in table.tables("tool")),
            containers=tuple(_container(row) for row in table.tables("container")),
            virtualisations=tuple(_virtualisation(row) for row in table.tables("virtualisation")),
            rows=tuple(_rule(row) for row in table.tables("rule")),
            agreements=tuple(_agreement(row) for row in table.tables("agreement")),
            pairs=tuple(_pair(row) for row in table.tables("pair")),
        )


def _maker(table: Table) -> Maker:
    with table:
        return Maker(
            name=table.take("name", str),
            key=table.take("key", str),
            pci_vendor=table.take("pci_vendor", str),
            toolkit=_toolkit(table),
            drivers=table.strings("drivers"),
            foreign=table.strings("foreign"),
            nodes=table.strings("nodes"),
            nodes_on_demand=table.strings("nodes_on_demand", []),
            render_nodes=table.take("render_nodes", bool, False),
            driver_files=table.strings("driver_files"),
            driver_pattern=compiled(table, "driver_pattern", table.take("driver_pattern", str)),
            libraries=table.strings("libraries"),
            folders=table.strings("folders", []),
            skip=table.strings("skip", []),
            on_card_switch=table.take("on_card_switch", bool, False),
            least_bar_mib=table.take("least_bar_mib", int, 0),
            device_flags=table.take("device_flags", str),
            install=table.take("install", str),
            link=table.take("link", str),
        )


def _model(table: Table) -> tuple[str, str]:
    with table:
        return table.take("pci", str), table.take("name", str)


def _tool(table: Table) -> Tool:
    with table:
        return Tool(
            name=table.take("name", str),
            toolkit=_toolkit(table),
            paths=table.strings("paths"),
            version=table.strings("version"),
            wanted=table.take("wanted", str, ""),
        )


def _container(table: Table) -> Container:
    with table:
        return Container(table.take("name", str), table.strings("paths"), table.strings("variables"))


def _virtualisation(table: Table) -> Virtualisation:
    with table:
        return Virtualisation(
            name=table.take("name", str),
            paths=table.strings("paths"),
            variables=table.strings("variables"),
            mentions=table.mapping("mentions", {}),
            sentence=table.take("sentence", str),
            remedy=table.take("remedy", str),
            link=table.take("link", str),
        )


def _rule(table: Table) -> Rule:
    with table:
        return Rule(
            area=table.take("area", str, allowed=AREAS),
            toolkit=_toolkit(table),
            when=expressions(table, "when"),
            unless=expressions(table, "unless"),
            absent=table.strings("absent", []),
            below=table.mapping("below", {}),
            level=_level(table),
            sentence=table.take("sentence", str),
            remedy=table.take("remedy", str),
            link=table.take("link", str, ""),
        )


def _agreement(table: Table) -> Agreement:
    with table:
        return Agreement(
            what=table.take("what", str),
            values=expressions(table, "values"),
            toolkit=_toolkit(table),
            level=_level(table),
            remedy=table.take("remedy", str),
            link=table.take("link", str, ""),
        )


def _pair(table: Table) -> Pair:
    with table:
        return Pair(
            left=table.take("left", str),
            right=table.take("right", str),
            releases=table.mapping("releases"),
            level=_level(table),
            link=table.take("link", str, ""),
        )


def _toolkit(table: Table) -> str:
    return table.take("toolkit", str, "", ("", *TOOLKITS))


def _level(table: Table) -> Level:
    return Level(table.take("level", str, allowed=LEVELS))


def _filled(text: str, facts: Facts) -> str:
    return _PLACE.sub(lambda found: facts.get(found[1], "unknown"), text)


def _release(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _less(value: str, bound: str) -> bool:
    """Whether a version or a number is below another; what has no number (unlimited) is not."""
    found = _VERSION.search(value)
    return bool(found) and _numbers(found[0]) < _numbers(bound) if found else False


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
