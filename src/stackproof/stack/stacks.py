"""What a stack is: a folder under `stacks/`, read strictly. Adding a stack is adding a folder."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stackproof import ROOT
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import Table

STACKS = ROOT / "stacks"
SUITES = ROOT / "suites"
PRECISIONS = ("float64", "float32", "bfloat16", "float16")
TOOLKITS = ("cuda", "hip", "xpu")
TOOLKIT_STATES = ("set", "unset", "any")


@dataclass(frozen=True)
class HostRequirement:
    """One thing that a host must have for the stack; any one of the alternatives will do."""

    what: str
    paths: tuple[str, ...]
    tools: tuple[str, ...]
    pci_vendors: tuple[str, ...]
    pci_skip: tuple[str, ...]


@dataclass(frozen=True)
class Flavour:
    """What `torch/version.py` must say: which toolkits are set, and what the version contains."""

    toolkits: Mapping[str, str]
    version_contains: str


@dataclass(frozen=True)
class Driver:
    """Where the driver's version can be read without torch: files, and one vendor tool."""

    files: tuple[str, ...]
    command: tuple[str, ...]


@dataclass(frozen=True)
class Vendor:
    """A wheel that the package index does not serve: exact version, source, what it declares it needs."""

    name: str
    version: str
    index: str
    file: str
    requires: tuple[str, ...]

    @property
    def pin(self) -> str:
        """The requirement as the lock writes it."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Rehearsal:
    """The stack on a machine without its hardware: upstream builds of the same versions, on the CPU."""

    device: str
    backend: str
    imports: tuple[str, ...]
    substitutes: tuple[str, ...]
    flavour: Flavour
    environment: Mapping[str, str]
    expected: Mapping[str, int]


@dataclass(frozen=True)
class Stack:
    """One exact combination of device, driver, toolkit, PyTorch build and companion packages."""

    name: str
    folder: Path
    title: str
    pythons: tuple[str, ...]
    hardware: str
    """The torch device type that the stack is about; `device` differs from it in a rehearsal."""
    device: str
    backend: str
    backends: tuple[str, ...]
    """Every c10d backend that users of the stack may choose, its own first."""
    shared_card_backend: str
    priority: int
    imports: tuple[str, ...]
    precisions: tuple[str, ...]
    visibility: str
    driver: Driver
    environment: Mapping[str, str]
    packages: tuple[str, ...]
    """Folders of this checkout that hold packages of the stack's own, for the path of what runs in it; no index serves them."""
    install_hint: str
    host: tuple[HostRequirement, ...]
    flavour: Flavour
    vendor: tuple[Vendor, ...]
    missing: Mapping[str, str]
    expected: Mapping[str, int]
    rehearsal: Rehearsal
    rehearsed: bool = False

    @property
    def inputs(self) -> Path:
        """The ranges that the lock is made from."""
        return self.folder / "requirements.in"

    @property
    def lock(self) -> Path:
        """The lock that this stack, or its rehearsal, is installed from."""
        substituted = self.rehearsed and self.rehearsal.substitutes
        return self.folder / ("rehearsal.lock" if substituted else "requirements.lock")

    @property
    def label(self) -> str:
        """How tables and records call it; a rehearsal can never be mistaken for the stack."""
        return (
            f"{self.name} (rehearsed on {self.device}, not verified on {self.hardware})"
            if self.rehearsed
            else self.name
        )

    def path(self, given: str) -> str:
        """Return a search path for Python with the stack's own packages behind what is given."""
        return os.pathsep.join([*filter(None, [given]), *self.packages])

    def rehearse(self) -> Stack:
        """Return the stack as it is rehearsed: other device, backend, flavour, imports; else the same."""
        stand_in = self.rehearsal
        return replace(
            self,
            rehearsed=True,
            device=stand_in.device,
            backend=stand_in.backend,
            backends=(stand_in.backend,),
            shared_card_backend=stand_in.backend,
            imports=stand_in.imports,
            visibility="",
            environment=stand_in.environment,
            packages=(),
            flavour=stand_in.flavour,
            expected=stand_in.expected,
            host=(),
            vendor=(),
        )


def names(folder: Path = STACKS) -> tuple[str, ...]:
    """Return the stacks that exist, in alphabetical order."""
    return tuple(sorted(path.parent.name for path in folder.glob("*/stack.toml")))


def load(name: str, folder: Path = STACKS) -> Stack:
    """Return the stack of that name, or refuse with the nearest name."""
    known = names(folder)
    if name not in known:
        raise Refusal(f"there is no stack '{name}'{suggestion(name, known)}; known stacks: {', '.join(known)}")
    return _definition(folder / name / "stack.toml")


def load_all(folder: Path = STACKS) -> tuple[Stack, ...]:
    """Return every stack, the one that a host should prefer first."""
    return tuple(
        sorted((load(name, folder) for name in names(folder)), key=lambda stack: (-stack.priority, stack.name))
    )


@functools.cache
def _definition(path: Path) -> Stack:
    with Table.load(path) as table:
        return Stack(
            name=path.parent.name,
            folder=path.parent,
            title=table.take("title", str),
            pythons=_pythons(table),
            hardware=(device := _word(table, "device")),
            device=device,
            backend=(backend := _word(table, "backend")),
            backends=_backends(table, backend),
            shared_card_backend=table.take("shared_card_backend", str, "gloo"),
            priority=table.take("priority", int),
            imports=table.strings("imports"),
            precisions=table.strings("precisions", allowed=PRECISIONS),
            visibility=table.take("visibility", str),
            driver=_driver(table),
            environment=table.mapping("environment", {}),
            packages=_packages(table),
            install_hint=table.take("install_hint", str),
            host=tuple(_requirement(row) for row in table.tables("host")),
            flavour=_flavour(table),
            vendor=tuple(_vendor(row) for row in table.tables("vendor")),
            missing=table.mapping("missing", {}),
            expected=(expected := _expected(table)),
            rehearsal=_rehearsal(table, expected),
        )


def _pythons(table: Table) -> tuple[str, ...]:
    versions = table.strings("python")
    for version in versions:
        if not re.fullmatch(r"3\.[1-9][0-9]", version):
            raise table.refuse("python", f"contains {version!r}; allowed: '3.10' or newer, the preferred one first")
    if not versions:
        raise table.refuse("python", "is empty; name at least one version such as '3.10'")
    return versions


def _word(table: Table, key: str) -> str:
    value = table.take(key, str)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", value):
        raise table.refuse(key, f"is {value!r}; allowed: one lower-case word as torch writes it, without an index")
    return value


def _backends(table: Table, own: str) -> tuple[str, ...]:
    found = table.strings("backends", [own])
    if found[:1] != (own,):
        raise table.refuse("backends", f"is {list(found)!r}; the stack's own backend, '{own}', comes first")
    return found


def _packages(table: Table) -> tuple[str, ...]:
    found = table.strings("packages", [])
    for folder in found:
        if not (ROOT / folder).is_dir():
            raise table.refuse(
                "packages", f"names '{folder}', which is no folder of this checkout; write one, such as 'fixtures'"
            )
    return tuple(str(ROOT / folder) for folder in found)


def _requirement(table: Table) -> HostRequirement:
    with table:
        row = HostRequirement(
            what=table.take("what", str),
            paths=table.strings("paths", []),
            tools=table.strings("tools", []),
            pci_vendors=table.strings("pci_vendors", []),
            pci_skip=table.strings("pci_skip", []),
        )
    if not (row.paths or row.tools or row.pci_vendors):
        raise table.refuse("what", "says what is needed but not how it is seen; give 'paths', 'tools' or 'pci_vendors'")
    return row


def _driver(parent: Table) -> Driver:
    with parent.table("driver", {}) as table:
        return Driver(table.strings("files", []), table.strings("command", []))


def _flavour(parent: Table) -> Flavour:
    with parent.table("flavour") as table:
        contains = table.take("version_contains", str, "")
        states = {toolkit: table.take(toolkit, str, "any", TOOLKIT_STATES) for toolkit in TOOLKITS}
    return Flavour({toolkit: state for toolkit, state in states.items() if state != "any"}, contains)


def _vendor(table: Table) -> Vendor:
    with table:
        row = Vendor(
            name=table.take("name", str),
            version=table.take("version", str),
            index=table.take("index", str, ""),
            file=table.take("file", str, ""),
            requires=table.strings("requires", []),
        )
    if bool(row.index) == bool(row.file):
        given = "are both given" if row.index else "are both missing"
        why = "name one: the index that serves the wheel, or the address to download it from by hand"
        raise table.refuse("index", f"and 'file' {given}; {why}")
    return row


def _rehearsal(parent: Table, expected: Mapping[str, int]) -> Rehearsal:
    with parent.table("rehearsal") as table:
        return Rehearsal(
            device=_word(table, "device"),
            backend=_word(table, "backend"),
            imports=table.strings("imports"),
            substitutes=table.strings("substitutes", []),
            flavour=_flavour(table),
            environment=table.mapping("environment", {}),
            expected=_expected(table, expected),
        )


def suites() -> tuple[str, ...]:
    """Return the suites that exist: folders of tests under `suites/`, in alphabetical order."""
    return tuple(sorted({path.parent.name for path in SUITES.glob("*/test_*.py")}))


def _expected(parent: Table, default: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the fewest checks of each suite that must be executed; without the table those of `default`, if there are any."""
    with parent.table("expected", None if default is None else {}) as table:
        fewest = {suite: table.take(suite, int, (default or {}).get(suite, 1)) for suite in suites()}
        for suite, count in fewest.items():
            if count < 1:
                raise table.refuse(
                    suite,
                    f"is {count}; it must be 1 or more, because a run that checks nothing proves nothing",
                )
    return fewest
