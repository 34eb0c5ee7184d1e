"""Accelerator cards: what the PCI bus shows, whose driver they have, whether this user may open their nodes, how they are linked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import Facts, Finding, Maker, Rules, ok
from stackproof.stack import hosts
from stackproof.stack.variables import Level

_DEVICES = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_BRIDGE = "0x0604"


@dataclass(frozen=True)
class Link:
    """A PCIe link: lanes as they are and could be, and the speed in GT/s, lower in idle cards; 0 if unknown."""

    width: int
    widest: int
    speed: float

    def __str__(self) -> str:
        return f"PCIe {self.speed:g} GT/s x{self.width}" if self.width else "PCIe link unknown"


@dataclass(frozen=True)
class Card:
    """One card on the bus."""

    maker: Maker
    address: str
    name: str
    driver: str
    nodes: tuple[str, ...]
    link: Link
    bar_mib: int
    numa: str
    tiles: int
    """How many devices a process sees of it at most."""


def discover(machine: Machine, maker: Maker, rules: Rules) -> list[Card]:
    """Return the maker's cards on the PCI bus; none where the bus cannot be read."""
    addresses = hosts.cards((maker.pci_vendor,), maker.skip, machine.tree)
    return [_card(machine, maker, rules, address) for address in addresses]


def gather(machine: Machine, rules: Rules, cards: Iterable[Card]) -> dict[str, str]:
    """Return facts of the makers: how many cards, which driver."""
    counts: dict[str, int] = defaultdict(int)
    for card in cards:
        counts[card.maker.key] += 1
    values = {f"{key}.cards": str(count) for key, count in counts.items()}
    for maker in rules.makers:
        matches = map(maker.driver_pattern.search, map(machine.read, maker.driver_files))
        if version := next(filter(None, matches), None):
            values[f"{maker.key}.driver"] = version[1]
    return values


def examine(machine: Machine, maker: Maker, cards: list[Card], facts: Facts) -> Iterator[Finding]:
    """Yield what there is of a maker's cards and what is wrong with them; nothing where the host has none of them."""
    nodes = sorted({node for pattern in (*maker.nodes, *maker.nodes_on_demand) for node in machine.glob(pattern)})
    if not cards and not nodes:
        return
    yield from _described(maker, cards, nodes, facts)
    for card in cards:
        yield from _driver(card)
        yield from _link(card)
    yield from _missing(machine, maker, cards, facts)
    yield from _forbidden(machine, maker, [*nodes, *(node for card in cards for node in card.nodes)], facts)
    if lost := [name for name in maker.libraries if not machine.has_library(name, maker.folders)]:
        sentence = f"{', '.join(lost)} is not here; it comes with {maker.name}'s driver, and no wheel brings it"
        yield Finding("cards", Level.PROBLEM, sentence, maker.install, maker.link, maker.toolkit)


def _card(machine: Machine, maker: Maker, rules: Rules, address: str) -> Card:
    folder = f"{_DEVICES}/{address}"
    vendor, device = machine.read(f"{folder}/vendor"), machine.read(f"{folder}/device")
    render = machine.glob(f"{folder}/drm/renderD*") if maker.render_nodes else []
    model = rules.models.get(f"{vendor}:{device}")
    text = machine.read(f"/proc/driver/nvidia/gpus/{address}/information")
    named = re.search(r"^Model:\s*(?:NVIDIA )?(.*)", text, re.MULTILINE)  # as NVIDIA's driver says it
    known = model.name if model else f"device {device or 'unknown'}"
    return Card(
        maker=maker,
        address=address,
        name=named[1].strip() if named else known,
        driver=machine.target(f"{folder}/driver").rsplit("/", 1)[1] if machine.exists(f"{folder}/driver") else "",
        nodes=tuple(f"/dev/dri/{node.rsplit('/', 1)[1]}" for node in render),
        link=_read_link(machine, _linked(machine, folder, maker)),
        bar_mib=_largest_bar(machine.read(f"{folder}/resource")),
        numa=machine.read(f"{folder}/numa_node"),
        tiles=model.tiles if model else maker.tiles,
    )


def _linked(machine: Machine, folder: str, maker: Maker) -> str:
    """Return the folder of the device whose link is that of the slot.

    On an Arc card the GPU sits behind a switch of its own, and only the switch's upstream port has the real link:
    https://github.com/geerlingguy/raspberry-pi-pcie-devices/issues/695
    """
    chain = _ADDRESS.findall(machine.target(folder))
    if maker.on_card_switch and len(chain) > 2:
        port = f"{_DEVICES}/{chain[-3]}"
        if machine.read(f"{port}/vendor") == maker.pci_vendor and machine.read(f"{port}/class").startswith(_BRIDGE):
            return port
    return folder


def _read_link(machine: Machine, folder: str) -> Link:
    def number(name: str) -> float:
        match = re.match(r"\d+(\.\d+)?", machine.read(f"{folder}/{name}"))
        return float(match[0]) if match else 0.0

    width, widest = int(number("current_link_width")), int(number("max_link_width"))
    if not 0 < width <= 32:  # 63 and 255 mean that the device does not say
        return Link(0, 0, 0.0)
    return Link(width, widest, number("current_link_speed"))


def _largest_bar(text: str) -> int:
    """Return the MiB of the largest region: lines of start, end, flags."""
    sizes = [0]
    for line in text.splitlines()[:6]:
        fields = line.split()
        if len(fields) == 3 and int(fields[1], 16):
            sizes.append(int(fields[1], 16) - int(fields[0], 16) + 1)
    return max(sizes) >> 20


def _described(maker: Maker, cards: list[Card], nodes: list[str], facts: Facts) -> Iterator[Finding]:
    version = facts.get(f"{maker.key}.driver", "")
    alike: dict[tuple[str, str, str], list[Card]] = defaultdict(list)
    for card in cards:
        alike[card.name, card.driver, str(card.link)].append(card)
    for (name, driver, link), same in alike.items():
        text = f"driver {driver} {version}".strip() if driver else "no driver"
        places: dict[str, list[str]] = defaultdict(list)
        for card in same:
            places[f"NUMA node {card.numa}: " if card.numa.isdecimal() else ""].append(card.address)
        where = "; ".join(f"{node}{', '.join(addresses)}" for node, addresses in places.items())
        yield ok("cards", f"{len(same)} x {maker.name} {name}: {text}, {link}; {where}", maker.toolkit)
    if not cards:
        text = f", driver {version}" if version else ""
        yield ok("cards", f"{maker.name}: {', '.join(nodes)}{text}; the PCI bus shows no card", maker.toolkit)


def _driver(card: Card) -> Iterator[Finding]:
    maker, what = card.maker, f"{card.maker.name} {card.name} at {card.address}"
    if card.driver not in maker.drivers:
        level = Level.PROBLEM if not card.driver or card.driver in maker.foreign else Level.NOTE
        bound = f"is bound to {card.driver}, and torch needs {' or '.join(maker.drivers)}"
        sentence = f"{what} {bound if card.driver else 'has no driver bound to it'}"
        yield Finding("cards", level, sentence, maker.install, maker.link, maker.toolkit)


def _link(card: Card) -> Iterator[Finding]:
    maker, link, what = card.maker, card.link, f"{card.maker.name} {card.name} at {card.address}"
    if 0 < link.width < link.widest:
        sentence = f"{what} runs at x{link.width} of x{link.widest} lanes"
        remedy = f"sudo lspci -vv -s {card.address} shows the slot; reseat the card, or give it a wider slot"
        yield Finding("cards", Level.WARNING, sentence, remedy, toolkit=maker.toolkit)
    if 0 < card.bar_mib < maker.least_bar_mib:
        sentence = f"{what} shows the CPU {card.bar_mib} MiB of its memory: Resizable BAR is off"
        remedy = "switch on Above 4G Decoding and Resizable BAR in the firmware"
        link_ = "https://github.com/intel/compute-runtime/issues/933"
        yield Finding("cards", Level.WARNING, sentence, remedy, link_, maker.toolkit)


def _missing(machine: Machine, maker: Maker, cards: list[Card], facts: Facts) -> Iterator[Finding]:
    """Nodes that a bound driver makes and that are not here: a container that was not given them."""
    contained = "container" in facts
    bound = [card for card in cards if card.driver and card.driver not in maker.foreign]
    expected = (*maker.nodes, *(maker.nodes_on_demand if contained else ()))
    lost = [pattern for pattern in expected if bound and not machine.glob(pattern)]
    lost += [node for card in bound for node in card.nodes if not machine.exists(node)]
    if not lost:
        return
    remedy = f"start the container with {maker.device_flags}" if contained else maker.install
    sentence = f"{maker.name} cards are on the bus, but {', '.join(lost)} {'is' if len(lost) == 1 else 'are'} not here"
    yield Finding("cards", Level.PROBLEM, sentence, remedy, maker.link, maker.toolkit)


def _forbidden(machine: Machine, maker: Maker, nodes: list[str], facts: Facts) -> Iterator[Finding]:
    """Nodes that this user may not read and write, those of one mode and group together."""
    closed: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for node in dict.fromkeys(nodes):
        if machine.exists(node) and not machine.may_use(node):
            closed[machine.ownership(node)].append(node)
    for (mode, group, number), same in closed.items():
        who = group or f"group {number}"
        sentence = f"this user may not read and write {', '.join(same)} ({mode} {who})"
        contained = "container" in facts or not group
        inside, outside = (
            f"start the container with --group-add {number}",
            f"sudo usermod -aG {group} $USER, then log in again",
        )
        remedy = inside if contained else outside
        yield Finding("cards", Level.PROBLEM, sentence, remedy, maker.link, maker.toolkit)
