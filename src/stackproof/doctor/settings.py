"""The environment variables as findings: held against the tables that a preflight uses too, and against this host."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from stackproof.doctor.cards import Card
from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import Facts, Finding, ok
from stackproof.stack import findings, variables
from stackproof.stack.findings import EnvFinding, Inventory, Known
from stackproof.stack.stacks import Stack
from stackproof.stack.variables import Level

_NET, _RDMA = "/sys/class/net", "/sys/class/infiniband"
_SHOWN = 4


def examine(environ: Mapping[str, str], concerned: list[Stack], host: Inventory | None = None) -> Iterator[Finding]:
    """Yield what is wrong with the variables; a problem with what no stack here reads is a warning at most.

    `concerned`: the stack that was named, or those that the host has, the preferred one first.
    """
    read = _read(concerned)
    found = dict.fromkeys(findings.examine(environ, read, host))
    if len(concerned) != 1:  # nobody named a stack: also what another stack than those here would read
        found |= dict.fromkeys(findings.examine(environ, None, host))
    for slip in found:
        yield _finding(slip, slip.family in read)
    yield ok("variables", _counted(known(environ, concerned), bool(found)))


def known(environ: Mapping[str, str], concerned: list[Stack]) -> Known:
    """Say which variables were checked, and which nobody can check."""
    return findings.known(environ, _read(concerned) if len(concerned) == 1 else None)


def host_of(machine: Machine, facts: Facts, cards: Collection[Card]) -> Inventory:
    """Gather what values may name of this machine."""
    interfaces = tuple(_named(path) for path in machine.glob(f"{_NET}/*") if machine.exists(f"{path}/operstate"))
    adapters = {
        _named(path): tuple(map(_named, machine.glob(f"{path}/ports/*"))) for path in machine.glob(f"{_RDMA}/*")
    }
    cpus = facts.get("cpus", "")
    return Inventory(
        interfaces=interfaces or None,
        adapters=adapters if adapters or interfaces else None,
        cards=_cards(machine, cards),
        cores=int(cpus) if cpus.isdecimal() else None,
        nodes=len(machine.glob("/sys/devices/system/node/node[0-9]*")) or None,
        is_file=lambda path: machine.path(path).is_file() if _judged(machine, path) else None,
        is_folder=lambda path: machine.path(path).is_dir() if _judged(machine, path) else None,
        folders=lambda path: _near(machine, path),
    )


def _read(concerned: list[Stack]) -> set[str]:
    return {family for stack in concerned for family in variables.relevant(stack)}


def _finding(slip: EnvFinding, counts: bool) -> Finding:
    found = Finding("variables", slip.level, slip.sentence, slip.remedy, slip.link, subjects=slip.variables)
    return found if counts else found.at_most(Level.WARNING)


def _counted(found: Known, slipped: bool) -> str:
    """Say how many were checked, and name those that were not: silence about them is no claim."""
    if not (found.checked or found.free or found.unknown):
        return "none of the libraries below torch is set"
    clean = "" if slipped or not found.checked else ", and none is misspelt, out of its values, or at odds with another"
    said = [f"{len(found.checked)} of the libraries below torch checked{clean}"]
    said += [f"values not known here: {len(found.free)} ({_some(found.free)})"] if found.free else []
    said += [f"in no list: {len(found.unknown)} ({_some(found.unknown)})"] if found.unknown else []
    return "; ".join(said)


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _cards(machine: Machine, cards: Collection[Card]) -> dict[str, int]:
    """How many cards a process may choose from, by toolkit: a container's nodes count, not the whole bus."""
    counts: dict[str, int] = {}
    for card in cards:
        opened = not card.nodes or any(machine.exists(node) for node in card.nodes)
        counts[card.maker.toolkit] = counts.get(card.maker.toolkit, 0) + (card.tiles if opened else 0)
    for maker in {card.maker for card in cards}:
        nodes = [node for pattern in maker.numbered for node in machine.glob(pattern)]
        if nodes:
            counts[maker.toolkit] = len(nodes)
    return counts


def _judged(machine: Machine, path: str) -> bool:
    """A relative path is looked for only where we stand in the machine ourselves."""
    return machine.real or path.startswith("/")


def _near(machine: Machine, path: str) -> tuple[str, ...]:
    """Return folders beside a missing one that begin like it, the shortest first: /usr/local/cuda for /usr/local/cuda-99."""
    parent, _, name = path.rstrip("/").rpartition("/")
    stem = re.split(r"[-_.\d]", name)[0]
    found = machine.glob(f"{parent}/{stem}*") if stem and parent.startswith("/") and "*" not in path else []
    return tuple(sorted((one for one in found if machine.path(one).is_dir()), key=lambda one: (len(one), one)))


def _named(path: str) -> str:
    return path.rsplit("/", 1)[1]
