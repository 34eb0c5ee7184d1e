"""One look at a host: which stacks it has, what is missing, and what is wrong with its environments and its variables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stackproof.base import advice
from stackproof.base.errors import Refusal
from stackproof.doctor import cards, derived, host, installed, rules, settings
from stackproof.doctor.machine import Machine
from stackproof.doctor.presence import Presence, look
from stackproof.doctor.rules import AREAS, Finding, ok
from stackproof.stack import environments, hosts, stacks
from stackproof.stack.findings import Known
from stackproof.stack.stacks import Stack
from stackproof.stack.variables import Level

# What is there, then what is wrong with it, the worst first.
_ORDER = (Level.OK, Level.PROBLEM, Level.WARNING, Level.NOTE)


@dataclass(frozen=True)
class Checkup:
    """What was found; nothing was changed."""

    presence: Presence
    """Which stacks are here, why, what is built."""
    findings: tuple[Finding, ...]
    facts: Mapping[str, str]
    known: Known
    """Which variables were checked, and which could not be."""

    @property
    def exit_code(self) -> int:
        """1 if there is a problem, as in the contracts; a broken definition has a code of its own."""
        return int(any(finding.level is Level.PROBLEM for finding in self.findings))

    @property
    def broken(self) -> Refusal | None:
        """Why a stack's definition could not be read; everything else has been looked at all the same."""
        return self.presence.broken

    def count(self, level: Level) -> int:
        """How many findings are of this level."""
        return sum(finding.level is level for finding in self.findings)


def examine(name: str | None = None, machine: Machine | None = None) -> Checkup:
    """Look at the host on behalf of one stack, or of all.

    Without a name only problems of stacks that the host has count; the others' are warnings, because a laptop need not use its card.

    Raises:
        Refusal: there is no stack of that name, or a table of ours is broken.
    """
    machine = machine or Machine()
    root = "" if machine.real else str(machine.root)
    wanted = stacks.load(name) if name else None
    report = look([name] if name else stacks.names(), root, machine.environ)
    concerned = [wanted] if wanted else report.stacks_here
    facts: dict[str, str] = {}
    found = [*_findings(machine, wanted, report.stacks_here, concerned, facts), *_unready(concerned, report)]
    if report.broken:
        found.append(Finding("environment", Level.PROBLEM, f"a stack cannot be read: {report.broken}"))
    toolkits = _toolkits(concerned)
    counted = [row if not row.toolkit or row.toolkit in toolkits else row.at_most(Level.WARNING) for row in found]
    unique = dict.fromkeys(counted)
    ordered = sorted(unique, key=lambda row: (AREAS.index(row.area), _ORDER.index(row.level)))
    return Checkup(report, tuple(ordered), facts, settings.known(machine.environ, concerned))


def _findings(
    machine: Machine, wanted: Stack | None, present: list[Stack], concerned: list[Stack], facts: dict[str, str]
) -> Iterator[Finding]:
    """Look at everything in turn; facts are gathered on the way, for rules that come later."""
    table = rules.load()
    makers = [maker for maker in table.makers if not wanted or maker.toolkit in _toolkits([wanted])]
    on_bus = {maker: cards.discover(machine, maker, table) for maker in makers}
    facts.update(host.gather(machine))
    facts.update(cards.gather(machine, table, (card for same in on_bus.values() for card in same)))
    facts.update(derived.gather(machine, table, facts))
    yield from host.describe(facts)
    yield from _of(table.judge("host", facts), makers, on_bus, concerned)
    if wanted:
        yield from _lacking(wanted, machine)
    seen = [row for maker in _seen(on_bus) for row in cards.examine(machine, maker, on_bus[maker], facts)]
    yield from seen or [ok("cards", f"no card of {', '.join(maker.name for maker in table.makers)} is here")]
    yield from host.surroundings(machine)
    yield from host.examine(machine, table, {maker.toolkit for maker, found in on_bus.items() if found})
    yield from _environments(machine, wanted, present, concerned, facts)
    here = settings.host_of(machine, facts, [card for same in on_bus.values() for card in same])
    yield from settings.examine(machine.environ, concerned, here)


def _of(
    found: Iterator[Finding],
    makers: list[rules.Maker],
    on_bus: Mapping[rules.Maker, list[cards.Card]],
    concerned: list[Stack],
) -> Iterator[Finding]:
    """Pass on what concerns everybody, a stack that is meant, or cards that are here."""
    here = _toolkits(concerned) | {maker.toolkit for maker in makers if on_bus[maker]}
    yield from (row for row in found if not row.toolkit or row.toolkit in here)


def _lacking(stack: Stack, machine: Machine) -> Iterator[Finding]:
    """Say what the host lacks for the stack that was named."""
    looked = hosts.inspect(stack, "" if machine.real else str(machine.root))
    if lost := "; ".join(row.what for row in looked.findings if not row.found):
        sentence = f"this host has no stack '{stack.name}': it lacks {lost} (`--all` says where each was looked for)"
        yield Finding("cards", Level.PROBLEM, sentence, stack.install_hint)


def _seen(on_bus: Mapping[rules.Maker, list[cards.Card]]) -> Iterator[rules.Maker]:
    """Yield the makers to look at: of those that share a toolkit and its nodes, the ones with cards, or else the first."""
    for toolkit in dict.fromkeys(maker.toolkit for maker in on_bus):
        sharing = [maker for maker in on_bus if maker.toolkit == toolkit]
        yield from [maker for maker in sharing if on_bus[maker]] or sharing[:1]


def _environments(
    machine: Machine, wanted: Stack | None, present: list[Stack], concerned: list[Stack], facts: dict[str, str]
) -> Iterator[Finding]:
    table = rules.load()
    built = [(stack, found) for stack in concerned if (found := installed.built(stack))]
    for stack, found in built:
        yield from installed.examine_built(stack, found, present)
        yield from installed.doubled(found)
        yield from table.judge("environment", {**facts, **found.facts})
    if (own := installed.own(machine)) is None:
        if not built:
            yield Finding(
                "environment",
                Level.NOTE,
                f"there is no torch in {machine.environment}, and no environment is built",
                _build(concerned, present),
            )
        return
    yield from installed.examine_own(own, wanted, present)
    if not environments.stamp(machine.prefix):
        yield from installed.examine_companions(own, wanted, present)
    yield from installed.doubled(own)
    facts.update(own.facts)
    yield from table.judge("environment", facts)


def _unready(concerned: Collection[Stack], report: Presence) -> Iterator[Finding]:
    """Say why an environment that is not there yet cannot be built; a vendor's own environment needs none of it."""
    for stack in concerned:
        for reason in report.unready.get(stack.name, ()) if not installed.built(stack) else ():
            sentence = f"the environment of stack {stack.name} cannot be built: {reason}"
            yield Finding("environment", Level.WARNING, sentence)


def _build(concerned: list[Stack], present: list[Stack]) -> str:
    return hosts.proof(concerned[0], concerned[0] in present) if concerned else advice.command("NAME", "smoke")


def _toolkits(concerned: Collection[Stack]) -> set[str]:
    return {name for stack in concerned for name, state in stack.flavour.toolkits.items() if state == "set"}
