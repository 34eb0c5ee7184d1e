"""What a rank, or the launcher on behalf of its ranks, finds on its host: the description that the preflight judges."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from stackproof.device.devices import visible
from stackproof.device.kinds import Device
from stackproof.ranks import preflight
from stackproof.ranks.preflight import Crew, Interface, Node, RankPlace
from stackproof.stack import findings, variables
from stackproof.stack.stacks import Stack

_BOOT = Path("/proc/sys/kernel/random/boot_id")
# Names outside the libraries' own families that tell who started the ranks: preflight rules look at them.
_LAUNCHERS = ("TORCHELASTIC_", "LOCAL_", "PMI_", "PMIX_", "OMPI_", "MPI_", "SLURM_", "RANK", "WORLD_SIZE")


def local(stack: Stack, backend: str, cards: Sequence[int], deadline_s: float, on_host: bool = False) -> Crew:
    """Describe a group whose ranks torchrun will start on this host, rank i on card `cards[i]`."""
    shown = visible(stack.device)
    marks = {"TORCHELASTIC_RUN_ID": "ranks", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(len(cards))}
    environ = {**stack.environment, **os.environ, **marks}
    seats = [seat(rank, card, shown, stack, environ) for rank, card in enumerate(cards)]
    return crew(stack, backend, seats, [node(shown, environ)], deadline_s, on_host)


def crew(
    stack: Stack,
    backend: str,
    seats: Sequence[RankPlace],
    nodes: Sequence[Node],
    deadline_s: float,
    on_host: bool = False,
) -> Crew:
    """Put together what is known of a group that is about to form; of several descriptions of a host the first counts."""
    hosts = {found.host: found for found in reversed(nodes)}
    return Crew(
        stack=stack.name,
        backend=backend,
        families=variables.relevant(replace(stack, backend=backend)),
        seats=tuple(sorted(seats, key=lambda found: found.rank)),
        nodes=tuple(hosts[host] for host in sorted(hosts)),
        visibility=stack.visibility,
        available=dist.is_available() and dist.is_backend_available(backend),
        torch=torch.__version__,
        deadline_s=deadline_s,
        on_host=on_host or any(card.shareable for card in visible(stack.device)),
    )


def seat(rank: int, card: int, shown: Sequence[Device], stack: Stack, environ: Mapping[str, str]) -> RankPlace:
    """Describe where a rank sits; a card that is not shown leaves its identity empty."""
    name = f"{stack.device}:{card}"
    identity = _identity(shown[card], environ.get(stack.visibility, "")) if card < len(shown) else ""
    return RankPlace(rank, socket.gethostname(), str(shown[card]) if identity else name, identity, _machine())


def node(shown: Sequence[Device], environ: Mapping[str, str]) -> Node:
    """Describe this host."""
    folder = environ.get("FI_PROVIDER_PATH", "")
    return Node(
        socket.gethostname(), len(shown), dict(environ), preflight.interfaces(), tuple(preflight.installed(folder))
    )


def to_json(found: RankPlace, site: Node) -> dict[str, Any]:
    """Return what a rank tells the others of itself."""
    return {"seat": asdict(found), "node": {**asdict(site), "environ": _public(site.environ)}}


def from_json(told: Mapping[str, Any]) -> tuple[RankPlace, Node]:
    """Return what a rank told of itself."""
    interfaces = tuple(Interface(**row) for row in told["node"]["interfaces"])
    values = {**told["node"], "interfaces": interfaces, "providers": tuple(told["node"]["providers"])}
    return RankPlace(**told["seat"]), Node(**values)


def _identity(card: Device, mask: str) -> str:
    """Return the card's bus id, else its place among all cards of the host: the visibility variable renumbers them."""
    if found := card.bus_id():
        return found
    places = [part.strip() for part in mask.split(",") if part.strip()]
    return f"{card.kind} {places[card.index] if card.index < len(places) else card.index}"


def _machine() -> str:
    """Hosts of one name differ in the kernel's boot id, as NCCL tells them apart too."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _public(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what a library or a launcher reads, and what looks like it: the rest stays on this host."""
    prefixes = _prefixes(variables.families().values())
    known = {name for family in variables.families().values() for name in family.variables}
    known |= {name for slip in findings.examine(environ) for name in slip.variables}
    return {
        name: value for name, value in findings.public(environ).items() if name in known or name.startswith(prefixes)
    }


def _prefixes(families: Collection[variables.Family]) -> tuple[str, ...]:
    return tuple(prefix for family in families for prefix in family.prefixes) + _LAUNCHERS
