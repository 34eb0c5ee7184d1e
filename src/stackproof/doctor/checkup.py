"""One look at a host: which stacks it has, what is missing, and what is wrong with its environments and its variables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stackproof.base import advice
from stackproof.base.text import first_few
from stackproof.doctor import cards, host, installed, rules
from stackproof.doctor.machine import Machine
from stackproof.doctor.presence import Presence, look
from stackproof.doctor.rules import AREAS, Facts, Finding, ok
from stackproof.stack import environments, findings, hosts, stacks, variables
from stackproof.stack.findings import Inventory, Known
from stackproof.stack.stacks import Stack
from stackproof.stack.variables import Level

# What is there, then what is wrong with it, the worst first.
_ORDER = (Level.OK, Level.PROBLEM, Level.WARNING, Level.NOTE)


@dataclass(frozen=True)
class Checkup:
    """The findings of a doctor's visit, by subject; nothing on the host was changed."""

    presence: Presence
    findings: tuple[Finding, ...]
    facts: Mapping[str, str]
    known: Known

    @property
    def exit_code(self) -> int:
        """1 if there is a problem, as in the contracts; a broken definition has a code of its own."""
        return int(any(finding.level is Level.PROBLEM for finding in self.findings))


def examine(name: str | None = None, machine: Machine | None = None) -> Checkup:
    """Look at the host on behalf of one stack, or of all.

    Without a name only problems of stacks that the host has count; the others' are warnings, because a laptop need not use its card.

    Raises:
        Refusal: there is no stack of that name, or a table of ours is broken.
    """
    machine = machine or Machine()
    named = stacks.load(name) if name else None
    report = look([name] if name else stacks.names(), machine.tree, machine.environ)
    concerned = [named] if named else report.stacks_here
    facts: dict[str, str] = {}
    results = list(_findings(machine, named, report.stacks_here, concerned, facts))
    for stack in concerned:  # a vendor's own environment needs neither interpreter nor lock
        for reason in report.unready.get(stack.name, ()) if not installed.built(stack) else ():
            sentence = f"the environment of stack {stack.name} cannot be built: {reason}"
            results.append(Finding("environment", Level.WARNING, sentence))
    if report.broken:
        results.append(Finding("environment", Level.PROBLEM, f"a stack cannot be read: {report.broken}"))
    toolkits = _toolkits(concerned)
    counted = [row if not row.toolkit or row.toolkit in toolkits else row.at_most(Level.WARNING) for row in results]
    ordered = sorted(dict.fromkeys(counted), key=lambda row: (AREAS.index(row.area), _ORDER.index(row.level)))
    return Checkup(report, tuple(ordered), facts, known_variables(machine.environ, concerned))


def _findings(
    machine: Machine, named: Stack | None, present: list[Stack], concerned: list[Stack], facts: dict[str, str]
) -> Iterator[Finding]:
    """Look at everything in turn; facts are gathered on the way, for rules that come later."""
    table = rules.load()
    makers = [maker for maker in table.makers if not named or maker.toolkit in _toolkits([named])]
    on_bus = {maker: cards.discover(machine, maker, table) for maker in makers}
    facts.update(host.gather(machine))
    facts.update(cards.gather(machine, table, (card for same in on_bus.values() for card in same)))
    facts.update(host.derive(machine, table))
    yield from host.describe(facts)
    here = _toolkits(concerned) | {maker.toolkit for maker in makers if on_bus[maker]}
    yield from (row for row in table.judge("host", facts) if not row.toolkit or row.toolkit in here)
    if named:
        yield from _lacking(named, machine)
    seen = [row for maker in _seen(on_bus) for row in cards.examine(machine, maker, on_bus[maker], facts)]
    yield from seen or [ok("cards", f"no card of {', '.join(maker.name for maker in table.makers)} is here")]
    yield from host.examine(machine, table, {maker.toolkit for maker, of_maker in on_bus.items() if of_maker})
    yield from _environments(machine, named, present, concerned, facts)
    inventory = inventory_of(machine, facts, [card for same in on_bus.values() for card in same])
    yield from examine_variables(machine.environ, concerned, inventory)


def _lacking(stack: Stack, machine: Machine) -> Iterator[Finding]:
    looked = hosts.inspect(stack, machine.tree)
    if lost := "; ".join(row.what for row in looked.findings if not row.found):
        sentence = f"this host has no stack '{stack.name}': it lacks {lost} (`--all` says where each was looked for)"
        yield Finding("cards", Level.PROBLEM, sentence, stack.install_hint)


def _seen(on_bus: Mapping[rules.Maker, list[cards.Card]]) -> Iterator[rules.Maker]:
    """Yield the makers to look at: of those that share a toolkit and its nodes, the ones with cards, or else the first."""
    for toolkit in dict.fromkeys(maker.toolkit for maker in on_bus):
        sharing = [maker for maker in on_bus if maker.toolkit == toolkit]
        yield from [maker for maker in sharing if on_bus[maker]] or sharing[:1]


def _environments(
    machine: Machine, named: Stack | None, present: list[Stack], concerned: list[Stack], facts: dict[str, str]
) -> Iterator[Finding]:
    table = rules.load()
    built = [(stack, env) for stack in concerned if (env := installed.built(stack))]
    for stack, env in built:
        yield from installed.examine_built(stack, env, present)
        yield from installed.doubled(env)
        yield from table.judge("environment", {**facts, **env.facts})
    if (own := installed.own(machine)) is None:
        if not built:
            build = hosts.proof(concerned[0], concerned[0] in present) if concerned else advice.command("NAME", "smoke")
            sentence = f"there is no torch in {machine.environment}, and no environment is built"
            yield Finding("environment", Level.NOTE, sentence, build)
        return
    yield from installed.examine_own(own, named, present)
    if not environments.stamp(machine.prefix):
        yield from installed.examine_companions(own, named, present)
    yield from installed.doubled(own)
    facts.update(own.facts)
    yield from table.judge("environment", facts)


def _toolkits(concerned: Collection[Stack]) -> set[str]:
    return {name for stack in concerned for name, state in stack.flavour.toolkits.items() if state == "set"}


_NET, _RDMA = "/sys/class/net", "/sys/class/infiniband"


def examine_variables(
    environ: Mapping[str, str], concerned: list[Stack], host: Inventory | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with the variables; a problem with what no stack here reads is a warning at most.

    `concerned`: the stack that was named, or those that the host has, the preferred one first.
    """
    read = _read(concerned)
    slips = dict.fromkeys(findings.examine(environ, read, host))
    if len(concerned) != 1:  # nobody named a stack: also what another stack than those here would read
        slips |= dict.fromkeys(findings.examine(environ, None, host))
    for slip in slips:
        row = Finding("variables", slip.level, slip.sentence, slip.remedy, slip.link, subjects=slip.variables)
        yield row if slip.family in read else row.at_most(Level.WARNING)
    yield ok("variables", _counted(known_variables(environ, concerned), bool(slips)))


def known_variables(environ: Mapping[str, str], concerned: list[Stack]) -> Known:
    """Say which variables were checked, and which nobody can check."""
    return findings.known(environ, _read(concerned) if len(concerned) == 1 else None)


def inventory_of(machine: Machine, facts: Facts, bus: Collection[cards.Card]) -> Inventory:
    """Gather what values may name of this machine."""
    interfaces = tuple(_named(path) for path in machine.glob(f"{_NET}/*") if machine.exists(f"{path}/operstate"))
    adapters = {
        _named(path): tuple(map(_named, machine.glob(f"{path}/ports/*"))) for path in machine.glob(f"{_RDMA}/*")
    }
    cpus = facts.get("cpus", "")
    return Inventory(
        interfaces=interfaces or None,
        adapters=adapters if adapters or interfaces else None,
        cards=_visible_cards(machine, bus),
        cores=int(cpus) if cpus.isdecimal() else None,
        # A relative path is looked for only where we stand in the machine ourselves.
        is_file=lambda path: machine.path(path).is_file() if machine.real or path.startswith("/") else None,
        is_folder=lambda path: machine.path(path).is_dir() if machine.real or path.startswith("/") else None,
    )


def _read(concerned: list[Stack]) -> set[str]:
    return {family for stack in concerned for family in variables.relevant(stack)}


def _counted(known: Known, slipped: bool) -> str:
    """Say how many were checked, and name those that were not: silence about them is no claim."""
    if not (known.checked or known.free or known.unknown):
        return "none of the libraries below torch is set"
    clean = "" if slipped or not known.checked else ", and none is misspelt, out of its values, or at odds with another"
    parts = [f"{len(known.checked)} of the libraries below torch checked{clean}"]
    parts += [f"values not known here: {len(known.free)} ({first_few(known.free)})"] if known.free else []
    parts += [f"in no list: {len(known.unknown)} ({first_few(known.unknown)})"] if known.unknown else []
    return "; ".join(parts)


def _visible_cards(machine: Machine, bus: Collection[cards.Card]) -> dict[str, int]:
    """How many cards a process may choose from, by toolkit: a container's nodes count, not the whole bus."""
    counts: dict[str, int] = {}
    for card in bus:
        opened = not card.nodes or any(machine.exists(node) for node in card.nodes)
        counts[card.maker.toolkit] = counts.get(card.maker.toolkit, 0) + (card.tiles if opened else 0)
    for maker in {card.maker for card in bus}:
        nodes = [node for pattern in maker.numbered for node in machine.glob(pattern)]
        if nodes:
            counts[maker.toolkit] = len(nodes)
    return counts


def _named(path: str) -> str:
    return path.rsplit("/", 1)[1]
