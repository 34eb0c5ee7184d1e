"""What is wrong with a group before any rank starts, as pure functions of a description of hosts, cards and variables.

What it refuses would otherwise be a hang, a crash of every rank, or a group that is silently another one than was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.files import kernel_says
from stackproof.base.toml import Key, Table
from stackproof.ranks.libraries import serving
from stackproof.stack import findings, variables
from stackproof.stack.findings import listed, passed_by

SYSFS = Path("/sys/class/net")


@dataclass(frozen=True)
class Interface:
    """A network interface: its name, whether it is up, whether it is a bridge."""

    name: str
    up: bool
    bridge: bool


def interfaces() -> tuple[Interface, ...]:
    """Return this host's interfaces by name; none where there is no sysfs."""
    return tuple(
        Interface(path.name, kernel_says(path / "operstate") != "down", (path / "bridge").is_dir())
        for path in sorted(SYSFS.glob("*"))
        if path.is_dir()
    )


def providers(value: str) -> list[str]:
    """Return the providers that a filter of libfabric asks for, layers apart: `tcp;ofi_rxm` is two; none if it only excludes."""
    return [] if value.startswith("^") else [part for word in listed(value) for part in word.split(";") if part]


def installed(folder: str) -> list[str]:
    """Return the providers that libfabric would load from a folder: `libNAME-fi.so`."""
    found = Path(folder).glob("lib*-fi.so*") if folder else ()
    return sorted({path.name.removeprefix("lib").split("-fi.so")[0] for path in found})


def bridges(found: Iterable[Interface], beginnings: Collection[str]) -> list[str]:
    """Return the names of those that belong to containers: bridges, and what begins like one."""
    return [one.name for one in found if one.bridge or one.name.startswith(tuple(beginnings))]


TABLE = DATA / "preflight.toml"
LONGEST_S = 3600.0


class PreflightRefusal(Refusal):
    """The group would hang, crash or be another one than was asked for; nothing was started."""


@dataclass(frozen=True)
class Node:
    """What the ranks of one host find there: cards, variables, interfaces."""

    host: str
    cards: int
    """Cards that a rank sees; a rank's own where each sees its own only."""
    environ: Mapping[str, str]
    interfaces: tuple[Interface, ...]
    providers: tuple[str, ...] = ()
    """libfabric providers in the folder that the variables name."""


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
class Crew:
    """A group that is about to form."""

    stack: str
    backend: str
    families: tuple[str, ...]
    """Of variables that the stack's libraries read (`variables.relevant`)."""
    visibility: str
    """The variable that chooses the stack's cards."""
    seats: tuple[RankPlace, ...]
    nodes: tuple[Node, ...]
    available: bool
    """Whether this torch was built with the backend, or something registered it."""
    torch: str
    deadline_s: float
    on_host: bool = False
    """Whether the tensors are the host's, so that ranks share it as any processes do."""


@dataclass(frozen=True)
class _Filter:
    variable: str
    backends: tuple[str, ...]
    grammar: Literal["prefixes", "names"]


@dataclass(frozen=True)
class _Provider:
    variable: str
    path: str
    backends: tuple[str, ...]
    known: tuple[str, ...]


@dataclass(frozen=True)
class _Timeout:
    variable: str
    second: int


@dataclass(frozen=True)
class _Rules:
    bridges: tuple[str, ...]
    provider: _Provider
    filters: Annotated[tuple[_Filter, ...], Key("filter")]
    timeouts: Annotated[tuple[_Timeout, ...], Key("timeout")]


def require(crew: Crew) -> None:
    """Refuse the group with every reason there is.

    Raises:
        PreflightRefusal: one sentence with the remedy for each thing that is wrong.
    """
    if found := refusals(crew):
        raise PreflightRefusal(" | ".join(found))


def refusals(crew: Crew) -> list[str]:
    """Return one sentence with its remedy for each thing that is wrong; the first is the one to mend first."""
    return list(dict.fromkeys(sentence for look in _LOOKS for sentence in look(crew)))


def _backend(crew: Crew) -> Iterator[str]:
    if not crew.available:
        yield (
            f"torch {crew.torch} has no backend '{crew.backend}', which stack '{crew.stack}' names: "
            "install the build that has it, or the package that registers it, and import that before the group forms"
        )


def _duplicates(crew: Crew) -> Iterator[str]:
    if not _separate(crew):
        return
    taken: dict[tuple[str, str, str], RankPlace] = {}
    for seat in (seat for seat in crew.seats if seat.identity):
        first = taken.setdefault(seat.place, seat)
        if first is not seat:
            yield (
                f"Duplicate GPU: rank {first.rank} and rank {seat.rank} are both on {seat.card} ({seat.identity}) of {seat.host}, "
                f"and {serving(crew.backend).name} refuses two ranks on one card: {_spread(crew)}"
            )


def _spread(crew: Crew) -> str:
    counts = {node.cards for node in crew.nodes}
    if len(counts) > 1:
        each = ", ".join(f"{node.host} {node.cards}" for node in crew.nodes)
        return f"the hosts have different numbers of cards ({each}), so start on each as many ranks as it has"
    return "start as many ranks on each host as it has cards, or ask for shared cards with --oversubscribe"


def _too_many(crew: Crew) -> Iterator[str]:
    for node in crew.nodes:
        mine = [seat for seat in crew.seats if seat.host == node.host]
        without = [seat for seat in mine if not seat.identity]
        if without and not node.cards:
            yield f"{node.host} shows no card to its ranks: check the driver, permissions and visibility variables there"
        elif without:
            yield (
                f"{len(mine)} ranks on {node.host}, which shows {node.cards} cards: rank {without[0].rank} has none; "
                f"start {node.cards} ranks there, or ask for shared cards with --oversubscribe"
            )


def _separate(crew: Crew) -> bool:
    """Whether every rank needs a card of its own."""
    return not crew.on_host and all(serving(crew.backend).separates(node.environ) for node in crew.nodes)


def _time_outs(crew: Crew) -> Iterator[str]:
    if crew.deadline_s > LONGEST_S:
        yield (
            f"a deadline of {crew.deadline_s:.0f} s is above an hour, and a hang would hold the machine for as long: "
            "choose a shorter one (--deadline, --deadline-scale)"
        )
    for node in crew.nodes:
        for name, second in ((row.variable, row.second) for row in _rules().timeouts):
            value = node.environ.get(name, "")
            if value.isdecimal() and int(value) > LONGEST_S * second:
                yield (
                    f"{name}={value} is above an hour, and a hang would hold the machine for as long: export {name}={600 * second}"
                )


def _filters(crew: Crew) -> Iterator[str]:
    for node in crew.nodes:
        for row in _rules().filters:
            if crew.backend in row.backends and row.variable in node.environ and node.interfaces:
                yield from _filter(row, node)


def _filter(row: _Filter, node: Node) -> Iterator[str]:
    value, there = node.environ[row.variable], [one.name for one in node.interfaces]
    found, bridges = passed_by(row.grammar, value, there), _bridges(node)
    useful = [one.name for one in node.interfaces if one.up and one.name not in bridges]
    choice = " or ".join(name for name in useful if name != "lo") or "lo"
    matches = f"{row.variable}={value} matches only {', '.join(found)} of {node.host}"
    if not found:
        which = f"{row.variable}={value} matches no interface of {node.host}, which has {', '.join(there)}"
        yield f"{which}: name one of these, or unset it"
    elif set(found) <= set(bridges):
        yield f"{matches}, a bridge of containers: name {choice}, or unset it"
    elif not any(one.up for one in node.interfaces if one.name in found):
        yield f"{matches}, which is down: name {choice}, or unset it"


def _bridges(node: Node) -> list[str]:
    return bridges(node.interfaces, _rules().bridges)


def _providers(crew: Crew) -> Iterator[str]:
    row = _rules().provider
    for node in crew.nodes if crew.backend in row.backends else ():
        for name in providers(node.environ.get(row.variable, "")):
            if name not in row.known and name not in node.providers:
                where = f" and {node.environ[row.path]} holds none" if row.path in node.environ else ""
                asked = f"{row.variable}={node.environ[row.variable]}"
                yield f"{asked}: libfabric knows no provider '{name}'{where}: export {row.variable}=tcp, or unset it"


def _environment(crew: Crew) -> Iterator[str]:
    """What the tables of variables call a problem, and names that no library knows but that are near to one."""
    for node in crew.nodes:
        short = sum(seat.host == node.host for seat in crew.seats) > max(node.cards, 1)
        for slip in findings.examine(node.environ, crew.families):
            likely = (
                short and crew.visibility in slip.variables
            )  # a mask that leaves fewer cards than ranks was not meant so
            if likely or slip.misspelt or slip.level is variables.Level.PROBLEM:
                yield f"{slip.sentence}: {slip.remedy.partition('   #')[0]}"


_LOOKS: tuple[Callable[[Crew], Iterator[str]], ...] = (
    _backend,
    _environment,
    _duplicates,
    _too_many,
    _filters,
    _providers,
    _time_outs,
)


@cache
def _rules() -> _Rules:
    return Table.load(TABLE).row(_Rules)
