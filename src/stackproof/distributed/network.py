"""The host's network interfaces, and which of them the filters of NCCL, gloo, oneCCL and libfabric leave. Needs no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

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
        Interface(path.name, _text(path / "operstate") != "down", (path / "bridge").is_dir())
        for path in sorted(SYSFS.glob("*"))
        if path.is_dir()
    )


def left(grammar: str, value: str, names: Iterable[str]) -> list[str]:
    """Return the names that a filter leaves.

    `prefixes` is NCCL's: beginnings, after ^ those to leave out, after = whole names. `names` is a plain list.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    if grammar == "names":
        wanted = _words(value)
        return [name for name in names if name in wanted]
    excludes, rest = value.startswith("^"), value.removeprefix("^")
    exact, words = rest.startswith("="), tuple(_words(rest.removeprefix("=")))
    return [name for name in names if (name in words if exact else name.startswith(words)) != excludes]


def providers(value: str) -> list[str]:
    """Return the providers that a filter of libfabric asks for, layers apart: `tcp;ofi_rxm` is two; none if it only excludes."""
    return [] if value.startswith("^") else [part for word in _words(value) for part in word.split(";") if part]


def installed(folder: str) -> list[str]:
    """Return the providers that libfabric would load from a folder: `libNAME-fi.so`."""
    found = Path(folder).glob("lib*-fi.so*") if folder else ()
    return sorted({path.name.removeprefix("lib").split("-fi.so")[0] for path in found})


def bridges(found: Iterable[Interface], beginnings: Collection[str]) -> list[str]:
    """Return the names of those that belong to containers: bridges, and what begins like one."""
    return [one.name for one in found if one.bridge or one.name.startswith(tuple(beginnings))]


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
