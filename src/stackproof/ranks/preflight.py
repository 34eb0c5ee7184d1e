"""What is wrong with a group before any rank starts, by a description of its hosts, cards and variables; and how that is made.

What it refuses would otherwise be a hang, a crash of every rank, or a group that is silently another one than was asked for.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from stackproof.base.errors import Refusal
from stackproof.base.files import kernel_value
from stackproof.device.devices import visible
from stackproof.device.kinds import Device
from stackproof.ranks.blame import named
from stackproof.ranks.launchers import too_long
from stackproof.ranks.libraries import serving
from stackproof.stack import findings, variables
from stackproof.stack.stacks import Stack

SYSFS = Path("/sys/class/net")
_BRIDGES = ("docker", "br-", "virbr", "veth", "cni", "flannel", "lxcbr", "lxdbr")
"""Interfaces of containers: a group that forms over one of them is slow, or reaches no other host."""


def interfaces() -> list[str]:
    """Return this host's interfaces that are up and no bridge of containers; none without sysfs."""
    up = (path for path in sorted(SYSFS.glob("*")) if path.is_dir() and kernel_value(path / "operstate") != "down")
    return [path.name for path in up if not (path / "bridge").is_dir() and not path.name.startswith(_BRIDGES)]


class PreflightRefusal(Refusal):
    """The group would hang, crash or be another one than was asked for; nothing was started."""


@dataclass(frozen=True)
class Node:
    """What a rank, or the ranks of one host, find there: cards, variables, interfaces."""

    host: str
    cards: int
    """Cards that a rank sees; a rank's own where each sees its own only."""
    environ: Mapping[str, str]
    interfaces: Sequence[str]
    """Those over which other hosts may be reached."""


@dataclass(frozen=True)
class RankPlace:
    """Where one rank sits: its host, its card as torch calls it, and what tells the card from all others of the host."""

    rank: int
    host: str
    card: str
    identity: str
    """Empty where the host shows the rank no such card."""
    machine: str = ""
    """What tells hosts of one name apart, and is the same for all ranks of a host."""

    @property
    def place(self) -> tuple[str, str, str]:
        """What no two ranks may share."""
        return self.host, self.machine, self.identity


@dataclass(frozen=True)
class PlannedGroup:
    """A group that is about to form."""

    stack: Stack
    """Its `backend` is the one over which the group forms."""
    seats: tuple[RankPlace, ...]
    nodes: tuple[Node, ...]
    """One of each rank in their order, or of each host."""
    deadline_s: float
    available: bool
    """Whether this torch was built with the backend, or something registered it."""
    on_host: bool = False
    """Whether the tensors are the host's, so that ranks share it as any processes do."""

    @property
    def hosts(self) -> list[Node]:
        """Of several descriptions of one host the first."""
        return list({node.host: node for node in reversed(self.nodes)}.values())[::-1]


def require(group: PlannedGroup) -> None:
    """Refuse the group with every reason there is.

    Raises:
        PreflightRefusal: one sentence with the remedy for each thing that is wrong.
    """
    if reasons := refusals(group):
        raise PreflightRefusal(" | ".join(reasons))


def refusals(group: PlannedGroup) -> list[str]:
    """Return one sentence with its remedy for each thing that is wrong; the first is the one to mend first."""
    return list(dict.fromkeys(sentence for look in _LOOKS for sentence in look(group)))


def _backend(group: PlannedGroup) -> Iterator[str]:
    if not group.available:
        yield (
            f"torch {torch.__version__} has no backend '{group.stack.backend}', which stack '{group.stack.name}' names: "
            "install the build that has it, or the package that registers it, and import that before the group forms"
        )


def _duplicates(group: PlannedGroup) -> Iterator[str]:
    if group.on_host or not all(serving(group.stack.backend).separates(node.environ) for node in group.hosts):
        return
    remedy = "start as many ranks on each host as it has cards, or ask for shared cards with --oversubscribe"
    if len({node.cards for node in group.hosts}) > 1:
        each = ", ".join(f"{node.host} {node.cards}" for node in group.hosts)
        remedy = f"the hosts have different numbers of cards ({each}), so start on each as many ranks as it has"
    taken: dict[tuple[str, str, str], RankPlace] = {}
    for seat in (seat for seat in group.seats if seat.identity):
        first = taken.setdefault(seat.place, seat)
        if first is not seat:
            yield (
                f"Duplicate GPU: rank {first.rank} and rank {seat.rank} are both on {seat.card} ({seat.identity}) of {seat.host}, "
                f"and {serving(group.stack.backend).name} refuses two ranks on one card: {remedy}"
            )


def _too_many(group: PlannedGroup) -> Iterator[str]:
    for node in group.hosts:
        mine = [seat for seat in group.seats if seat.host == node.host]
        without = [seat for seat in mine if not seat.identity]
        if without and not node.cards:
            yield f"{node.host} shows no card to its ranks: check the driver, permissions and visibility variables there"
        elif without:
            yield (
                f"{len(mine)} ranks on {node.host}, which shows {node.cards} cards: rank {without[0].rank} has none; "
                f"start {node.cards} ranks there, or ask for shared cards with --oversubscribe"
            )


def _deadline(group: PlannedGroup) -> Iterator[str]:
    if text := too_long(group.deadline_s):
        yield text


def _environment(group: PlannedGroup) -> Iterator[str]:
    found = dict[str, list[int]]()
    for number, node in enumerate(group.nodes):
        short = sum(seat.host == node.host for seat in group.seats) > max(node.cards, 1)
        host = findings.Inventory(interfaces=tuple(node.interfaces))
        for slip in findings.examine(node.environ, variables.relevant(group.stack), host):
            # A mask that leaves fewer cards than ranks was not meant so.
            likely = short and group.stack.visibility in slip.variables
            if likely or slip.misspelt or slip.level is variables.Level.PROBLEM:
                found.setdefault(slip.refusal.replace("this host", node.host), []).append(number)
    for sentence, ranks in found.items():
        some = len(ranks) < len(group.nodes) == len(group.seats)
        yield f"{named(ranks)}: {sentence}" if some else sentence


_LOOKS: tuple[Callable[[PlannedGroup], Iterator[str]], ...] = (
    _backend,
    _environment,
    _duplicates,
    _too_many,
    _deadline,
)


_BOOT = Path("/proc/sys/kernel/random/boot_id")  # tells hosts of one name apart, as NCCL does too
# Names outside the libraries' own families that tell who started the ranks: preflight rules look at them.
_LAUNCHERS = ("TORCHELASTIC_", "LOCAL_", "PMI_", "PMIX_", "OMPI_", "MPI_", "SLURM_", "RANK", "WORLD_SIZE")


def local_group(
    stack: Stack, backend: str, cards: Sequence[int], deadline_s: float, on_host: bool = False
) -> PlannedGroup:
    """Describe a group whose ranks torchrun will start on this host, rank i on card `cards[i]`."""
    shown = visible(stack.device)
    marks = {"TORCHELASTIC_RUN_ID": "ranks", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(len(cards))}
    environ = {**stack.environment, **os.environ, **marks}
    seats = [seat_of(rank, card, shown, stack, environ) for rank, card in enumerate(cards)]
    return group_of(replace(stack, backend=backend), seats, [this_host(shown, environ)], deadline_s, on_host)


def group_of(
    stack: Stack, seats: Sequence[RankPlace], nodes: Sequence[Node], deadline_s: float, on_host: bool = False
) -> PlannedGroup:
    """Describe a group that forms over the stack's backend."""
    available = dist.is_available() and dist.is_backend_available(stack.backend)
    on_host = on_host or any(card.shareable for card in visible(stack.device))
    ordered = sorted(seats, key=lambda place: place.rank)
    return PlannedGroup(stack, tuple(ordered), tuple(nodes), deadline_s, available, on_host)


def seat_of(rank: int, card: int, shown: Sequence[Device], stack: Stack, environ: Mapping[str, str]) -> RankPlace:
    """Describe where a rank sits; a card that is not shown leaves its identity empty."""
    name, identity = f"{stack.device}:{card}", ""
    if card < len(shown):
        # Where it has no bus id, its place among all cards of the host: the visibility variable renumbers them.
        places = [part.strip() for part in environ.get(stack.visibility, "").split(",") if part.strip()]
        name, kind, index = str(shown[card]), shown[card].kind, shown[card].index
        identity = shown[card].bus_id() or f"{kind} {places[index] if index < len(places) else index}"
    return RankPlace(rank, socket.gethostname(), name, identity, kernel_value(_BOOT))


def this_host(shown: Sequence[Device], environ: Mapping[str, str]) -> Node:
    return Node(socket.gethostname(), len(shown), dict(environ), interfaces())


def to_json(place: RankPlace, site: Node) -> dict[str, Any]:
    """Return what a rank tells the others of itself."""
    return {"seat": asdict(place), "node": {**asdict(site), "environ": _public(site.environ)}}


def from_json(fields: Mapping[str, Any]) -> tuple[RankPlace, Node]:
    return RankPlace(**fields["seat"]), Node(**fields["node"])


def _public(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what a library or a launcher reads, and what looks like it: the rest stays on this host."""
    prefixes = tuple(prefix for family in variables.families().values() for prefix in family.prefixes) + _LAUNCHERS
    known = {name for family in variables.families().values() for name in family.variables}
    known |= {name for slip in findings.examine(environ) for name in slip.variables}
    return {
        name: value for name, value in findings.public(environ).items() if name in known or name.startswith(prefixes)
    }
