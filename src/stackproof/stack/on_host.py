"""What values name of a host: interfaces, adapters, cards, cores, NUMA nodes, files; held against what the host has.

What is not known of a host (None, or no card at all) is not judged, so that a sandbox and a login node make no alarm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stackproof.stack.stacks import TOOLKITS

_BRIDGES = ("docker", "br-", "virbr", "veth", "cni", "flannel", "lxcbr", "lxdbr", "ifb", "lo")


def _nothing_is_known(_: str) -> bool | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What there is for values to name."""

    interfaces: tuple[str, ...] | None = None
    adapters: Mapping[str, tuple[str, ...]] | None = None
    """RDMA adapters, each with its ports."""
    cards: Mapping[str, int] = field(default_factory=dict)
    """By toolkit, how many a process may choose from."""
    cores: int | None = None
    nodes: int | None = None
    """NUMA nodes."""
    is_file: Callable[[str], bool | None] = _nothing_is_known
    is_folder: Callable[[str], bool | None] = _nothing_is_known
    folders: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Folders beside a missing one that are called much the same."""


@dataclass(frozen=True)
class Absence:
    """What a value names and the host does not have: a clause after "NAME='value' ", a value that would do ("" if none), and why."""

    clause: str
    instead: str = ""
    comment: str = ""
    mild: bool = False
    """Whether it is slow at worst."""


def lack(kind: str, value: str, host: Inventory) -> Absence | None:
    """Return what the host lacks of what the value names; `kind` is a key of `KINDS`."""
    return KINDS[kind](value, host)


def left(grammar: str, value: str, names: Iterable[str]) -> list[str]:
    """Return the names that a filter leaves.

    `prefixes` is NCCL's: beginnings, after ^ those to leave out, after = whole names. `names` is a plain list.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    if grammar == "names":
        wanted = words(value)
        return [name for name in names if name in wanted]
    excludes, rest = value.startswith("^"), value.removeprefix("^")
    exact, beginnings = rest.startswith("="), tuple(words(rest.removeprefix("=")))
    return [name for name in names if (name in beginnings if exact else name.startswith(beginnings)) != excludes]


def words(value: str) -> list[str]:
    """Return the parts of a list without blanks."""
    return [word.strip() for word in value.split(",") if word.strip()]


def _by_prefix(value: str, host: Inventory) -> Absence | None:
    names = host.interfaces
    if not names or left("prefixes", value, names):
        return _of_a_list(value, names or ())
    instead = _alike(value.lstrip("^="), names) or _usual(names)
    return Absence(
        f"matches no interface of this host, which has {', '.join(names)}", instead, "the one that reaches the others"
    )


def _of_a_list(value: str, names: tuple[str, ...]) -> Absence | None:
    """A whole name, which ends in a number, that is nowhere here; a beginning such as `ib` may be for other hosts."""
    exact, rest = value.startswith("="), value.removeprefix("=")
    asked = [] if value.startswith("^") else words(rest)
    lost = [word for word in asked if word[-1].isdecimal() and not any(name.startswith(word) for name in names)]
    if not names or not lost:
        return None
    kept = ",".join(word for word in asked if word not in lost)
    return Absence(f"names {', '.join(lost)}, and this host has {', '.join(names)}", f"{'=' * exact}{kept}")


def _by_name(value: str, host: Inventory) -> Absence | None:
    names = host.interfaces
    lost = [word for word in words(value) if names and word not in names]
    if not names or not lost:
        return None
    clause = f"names {', '.join(lost)}, and this host has {', '.join(names)}"
    kept = [word if word in names else _alike(word, names) for word in words(value)]
    instead = ",".join(dict.fromkeys(filter(None, kept))) or _usual(names)
    return Absence(clause, instead, "the one that reaches the others")


def _alike(word: str, names: Iterable[str]) -> str:
    """Return the name with the same letters in another order or with another number, or none."""
    asked = word.casefold()
    swapped = (name for name in names if sorted(name.casefold()) == sorted(asked))
    numbered = (name for name in names if name.rstrip("0123456789") == asked.rstrip("0123456789"))
    return next(swapped, next(numbered, ""))


def _usual(names: Iterable[str]) -> str:
    return next((name for name in names if not name.startswith(_BRIDGES)), "lo")


def _adapters(value: str, host: Inventory) -> Absence | None:
    """NCCL's list: beginnings of names or, after =, whole names, each with a port if wanted; ^ leaves out."""
    if host.adapters is None:
        return None
    if not host.adapters:
        return Absence("names an adapter, and this host has none in /sys/class/infiniband")
    rest = value.removeprefix("^")
    exact, there = rest.startswith("="), list(host.adapters)
    shown = ", ".join(f"{name} (port {', '.join(ports)})" for name, ports in host.adapters.items())
    for word in () if value.startswith("^") else words(rest.removeprefix("=")):
        name, _, port = word.partition(":")
        found = [one for one in there if (one == name if exact else one.startswith(name))]
        if not found:
            return Absence(f"names {word}, and this host has {shown}", _alike(word, there) or ",".join(there))
        if port and not any(port in host.adapters[one] for one in found):
            return Absence(
                f"names port {port} of {name}, and this host has {shown}", f"{found[0]}:{host.adapters[found[0]][0]}"
            )
    return None


def _cards(toolkit: str) -> Callable[[str, Inventory], Absence | None]:
    def judge(value: str, host: Inventory) -> Absence | None:
        count = host.cards.get(toolkit, 0)
        chosen = [int(number) for number in re.findall(r"(?:^|,)\s*(\d+)", value)]
        lost = [number for number in chosen if number >= count]
        if not count or not lost:
            return None
        there = "card 0 only" if count == 1 else f"cards 0 to {count - 1}"
        kept = [str(number) for number in chosen if number < count] or [
            str(number) for number in range(min(count, len(chosen)))
        ]
        return Absence(f"names card {lost[0]}, and this host has {there}", ",".join(kept), f"it has {there}")

    return judge


def _cores(value: str, host: Inventory) -> Absence | None:
    numbers = [int(number) for number in re.findall(r"\d+", re.sub(r":\d+", "", value))]
    if not host.cores or not numbers or max(numbers) < host.cores:
        return None
    return Absence(f"names core {max(numbers)}, and this host has cores 0 to {host.cores - 1}")


def _count_of_cores(value: str, host: Inventory) -> Absence | None:
    most = max((int(number) for number in re.findall(r"\d+", value)), default=0)
    if not host.cores or most <= host.cores:
        return None
    return Absence(
        f"is more threads than this host's {host.cores} CPUs",
        str(host.cores),
        "divided by the ranks of this host",
        mild=True,
    )


def _nodes(value: str, host: Inventory) -> Absence | None:
    numbers = [int(number) for number in re.findall(r"\d+", value)]
    if not host.nodes or not numbers or max(numbers) < host.nodes:
        return None
    return Absence(f"names NUMA node {max(numbers)}, and this host has nodes 0 to {host.nodes - 1}")


def _file(value: str, host: Inventory) -> Absence | None:
    return Absence("names a file that is not here") if host.is_file(value) is False else None


def _folder(value: str, host: Inventory) -> Absence | None:
    value = value.rstrip("/") or "/"
    if host.is_folder(value) is not False:
        return None
    near = host.folders(value)
    return Absence("names a folder that is not here", near[0] if near else "")


def _parent(value: str, host: Inventory) -> Absence | None:
    """A file that the library would make: its folder has to be there."""
    folder = value.rpartition("/")[0]
    if not folder or "%" in folder or host.is_folder(folder) is not False:
        return None
    return Absence(f"would be written to {folder}, which is not here")


KINDS: Mapping[str, Callable[[str, Inventory], Absence | None]] = {
    "interfaces by prefix": _by_prefix,
    "interfaces": _by_name,
    "adapters": _adapters,
    **{toolkit: _cards(toolkit) for toolkit in TOOLKITS},
    "cores": _cores,
    "count of cores": _count_of_cores,
    "NUMA nodes": _nodes,
    "file": _file,
    "folder": _folder,
    "parent": _parent,
}
