"""One look at a host: which stacks it has, what is missing, and what is wrong with its environments and its variables."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stackproof.base.errors import Refusal
from stackproof.doctor import cards, host, installed, rules
from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import AREAS, Finding, ok
from stackproof.stack import environments, hosts, lockfile, stacks, variables
from stackproof.stack.stacks import Stack
from stackproof.stack.variables import Level, Slip

_NOT_READY = ("missing - ", "unusable - ")


@dataclass(frozen=True)
class Presence:
    """Lines for people, and what they are made of."""

    lines: tuple[str, ...]
    present: list[Stack]
    """The stacks that are here, the preferred one first."""
    unready: Mapping[str, tuple[str, ...]]
    """Why the environment of a stack cannot be built: no interpreter, an unusable lock."""
    broken: Refusal | None
    """Why a definition could not be read."""


def look(names: Collection[str], root: str = "", environ: Mapping[str, str] = os.environ) -> Presence:
    """Look for these stacks; one that is broken does not silence the others."""
    libc, cpus = " ".join(platform.libc_ver()), os.cpu_count()
    lines = [f"host: {platform.system()} {platform.release()}, {libc}, {platform.machine()}, {cpus} CPUs"]
    lines.append(f"`nox -s smoke` would prove: {_preferred(root)}")
    loaded, refusals = _loaded(names)
    present, unready = [], {}
    with ThreadPoolExecutor() as pool:  # looking for an interpreter runs candidates, and every stack has its own
        python = {stack.pythons: pool.submit(_interpreter, stack) for stack in loaded.values()}
        for name in names:
            lines.append("")
            if name in refusals:
                lines.append(f"{name}: broken - {refusals[name]}")
                continue
            found = hosts.inspect(loaded[name], root)
            present += [found.stack] if found.present else []
            ready = (python[found.stack.pythons].result(), _lock(found.stack))
            unready[name] = tuple(text.partition(" - ")[2] for text in ready if text.startswith(_NOT_READY))
            lines += _about(found, *ready, environ)
    present.sort(key=lambda stack: (-stack.priority, stack.name))
    return Presence(tuple(lines), present, unready, next(iter(refusals.values()), None))


def _loaded(names: Collection[str]) -> tuple[dict[str, Stack], dict[str, Refusal]]:
    loaded, refusals = {}, {}
    for name in names:
        try:
            loaded[name] = stacks.load(name)
        except Refusal as refusal:
            refusals[name] = refusal
    return loaded, refusals


def _preferred(root: str) -> str:
    try:
        return hosts.preferred(root).stack.name
    except Refusal as refusal:
        return f"nothing - {refusal}"


def _about(found: hosts.Availability, python: str, lock: str, environ: Mapping[str, str]) -> Iterator[str]:
    stack = found.stack
    yield f"{stack.name}: {'present' if found.present else 'not on this host'} - {stack.title}"
    for finding in found.findings:
        state, how = ("ok", "seen") if finding.found else ("missing", "looked at")
        yield f"  [{state}] {finding.what} ({how}: {finding.evidence})"
    if not found.present:
        yield f"  to get it: {stack.install_hint}"
    yield f"  python: {python}"
    yield f"  lock: {lock}"
    yield f"  environment: {_environment(stack)}"
    if stack.visibility:
        yield f"  {stack.visibility}: {environ.get(stack.visibility, 'not set, all cards are visible')}"


def _interpreter(stack: Stack) -> str:
    try:
        return str(environments.find_interpreter(stack))
    except Refusal as refusal:
        # Stacks that want the same Python are answered together: the sentence must not name the one that asked.
        return f"missing - {_unnamed(refusal, stack)}"


def _unnamed(refusal: Refusal, stack: Stack) -> str:
    return str(refusal).removeprefix(f"stack '{stack.name}' ")


def _lock(stack: Stack) -> str:
    try:
        lock = lockfile.read(stack.lock)
    except Refusal as refusal:
        return f"unusable - {refusal}"
    missing = (
        f", unhashed: {len(lock.unhashed)} (run `nox -s lock -- {stack.name}` where the vendor's wheels can be reached)"
        if lock.unhashed
        else ""
    )
    return f"{len(lock.pins)} packages, {lock.digest[:12]}{missing}"


def _environment(stack: Stack) -> str:
    where = environments.location(stack)
    if not where.exists():
        return f"not built yet; `nox -s {stack.name}-smoke` builds it"
    digest = environments.stamp(where).get("lock_digest")
    if digest is None:
        return f"{os.path.relpath(where)}, unfinished; `nox -s {stack.name}-smoke` builds it again"
    return f"{os.path.relpath(where)}, built from lock {str(digest)[:12]}"


def examine_variables(machine: Machine, concerned: list[Stack]) -> Iterator[Finding]:
    """Yield what is wrong with the variables; a problem with what no stack here reads is a warning at most.

    `concerned`: the stack that was named, or those that the host has, the preferred one first.
    """
    read = {family for stack in concerned for family in variables.relevant(stack)}
    slips = dict.fromkeys(variables.examine(machine.environ, read))
    if len(concerned) != 1:  # nobody named a stack: also what another stack than those here would read
        slips |= dict.fromkeys(variables.examine(machine.environ))
    for slip in slips:
        yield _finding(slip, slip.family in read)
    if not slips:
        yield ok(
            "variables",
            "no variable of the libraries below torch is misspelt, out of its values, or at odds with another",
        )


def _finding(slip: Slip, counts: bool) -> Finding:
    found = Finding("variables", slip.level, slip.sentence, slip.remedy, slip.link)
    return found if counts else found.at_most(Level.WARNING)


# What is there, then what is wrong with it, the worst first.
_ORDER = (Level.OK, Level.PROBLEM, Level.WARNING, Level.NOTE)


@dataclass(frozen=True)
class Checkup:
    """What was found; nothing was changed."""

    presence: tuple[str, ...]
    """The lines about stacks: which are here, why, what is built."""
    findings: tuple[Finding, ...]
    facts: Mapping[str, str]
    present: tuple[str, ...]
    broken: Refusal | None
    """Why a stack's definition could not be read; everything else has been looked at all the same."""

    @property
    def exit_code(self) -> int:
        """1 if there is a problem, as in the contracts; a broken definition has a code of its own."""
        return int(any(finding.level is Level.PROBLEM for finding in self.findings))

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
    concerned = [wanted] if wanted else report.present
    facts: dict[str, str] = {}
    found = [*_looks(machine, wanted, report.present, concerned, facts), *_unready(concerned, report)]
    toolkits = _toolkits(concerned)
    counted = [row if not row.toolkit or row.toolkit in toolkits else row.at_most(Level.WARNING) for row in found]
    unique = dict.fromkeys(counted)
    ordered = sorted(unique, key=lambda row: (AREAS.index(row.area), _ORDER.index(row.level)))
    names = tuple(stack.name for stack in report.present)
    return Checkup(report.lines, tuple(ordered), facts, names, report.broken)


def _looks(
    machine: Machine, wanted: Stack | None, present: list[Stack], concerned: list[Stack], facts: dict[str, str]
) -> Iterator[Finding]:
    """Look at everything in turn; facts are gathered on the way, for rules that come later."""
    table = rules.load()
    makers = [maker for maker in table.makers if not wanted or maker.toolkit in _toolkits([wanted])]
    on_bus = {maker: cards.discover(machine, maker, table.models) for maker in makers}
    facts.update(host.gather(machine))
    facts.update(cards.gather(machine, table, (card for same in on_bus.values() for card in same)))
    yield from host.describe(facts)
    yield from _of(table.judge("host", facts), makers, on_bus, concerned)
    if wanted:
        yield from _lacking(wanted, machine)
    seen = [row for maker in _seen(on_bus) for row in cards.examine(machine, maker, on_bus[maker], facts)]
    yield from seen or [ok("cards", f"no card of {', '.join(maker.name for maker in table.makers)} is here")]
    yield from host.surroundings(machine)
    yield from host.examine(machine, table, {maker.toolkit for maker, found in on_bus.items() if found})
    yield from _environments(machine, wanted, present, concerned, facts)
    yield from examine_variables(machine, concerned)


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
        sentence = f"this host has no stack '{stack.name}': it lacks {lost} (looked for where it says above)"
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
        yield from installed.examine_built(stack, found)
        yield from installed.doubled(found)
        yield from table.judge("environment", installed.merged(facts, found))
    if (own := installed.own(machine)) is None:
        if not built:
            yield Finding(
                "environment",
                Level.NOTE,
                f"there is no torch in {machine.environment}, and no environment is built",
                _build(concerned),
            )
        return
    yield from installed.examine_own(own, wanted, present)
    yield from installed.doubled(own)
    facts.update(own.facts)
    yield from table.judge("environment", facts)


def _unready(concerned: Collection[Stack], report: Presence) -> Iterator[Finding]:
    """Say why an environment that is not there yet cannot be built; a vendor's own environment needs none of it."""
    for stack in concerned:
        for reason in report.unready.get(stack.name, ()) if not installed.built(stack) else ():
            sentence = f"the environment of stack {stack.name} cannot be built: {reason}"
            yield Finding("environment", Level.WARNING, sentence)


def _build(concerned: list[Stack]) -> str:
    return f"nox -s {concerned[0].name}-smoke" if concerned else "nox -s smoke"


def _toolkits(concerned: Collection[Stack]) -> set[str]:
    return {name for stack in concerned for name, state in stack.flavour.toolkits.items() if state == "set"}
