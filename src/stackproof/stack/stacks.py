"""What a stack is: a folder under `stacks/`, read strictly. Adding a stack is adding a folder."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from stackproof.base.errors import Refusal, suggestion
from stackproof.base.places import ROOT, STACKS, SUITES, called
from stackproof.base.toml import Key, OneOf, Parsed, Table, Wrong
from stackproof.project import projects

PRECISIONS = ("float64", "float32", "bfloat16", "float16")
TOOLKITS = ("cuda", "hip", "xpu")
"""What `torch/version.py` can say that torch was built for."""
HOST = "cpu"
"""What torch calls the host, for those who ask without torch; who has torch asks `device.devices.HOST`."""
DEVELOPMENT = "cpu"
"""The stack that every host has, in whose environment our own tests and tools run."""
_A_GROUP = 2
_TORCHS_OWN = (HOST, "cuda", "xpu")


def suites() -> tuple[str, ...]:
    """Return the suites that exist: folders of tests under `suites/`, ours and the project's, in alphabetical order."""
    return tuple(sorted(_suites_in(SUITES) | set(own_suites())))


def own_suites() -> tuple[str, ...]:
    project = projects.current()
    words = _suites_in.__wrapped__(project.suites) if project and project.suites else frozenset[str]()
    if both := sorted(words & _suites_in(SUITES)):
        raise Refusal(f"{project.suites}: the suite '{both[0]}' is one of stackproof's too; give it another name")  # type: ignore[union-attr]
    return tuple(sorted(words))


@functools.cache
def _suites_in(folder: Path) -> frozenset[str]:
    """Return the suites of a folder: ours are asked for in each row of a manifest or a definition, and do not change."""
    return frozenset(path.parent.name for path in folder.glob("*/test_*.py"))


def _like(pattern: str, why: str) -> Parsed:
    """Return the mark of a text of this pattern; another one is refused with why."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(why.format(repr(text)))
        return text

    return Parsed(parse)


def _own_folder(text: str) -> str:
    if not (ROOT / text).is_dir():
        raise ValueError(f"names '{text}', which is no folder of this checkout; write one, such as 'fixtures'")
    return str(ROOT / text)


_Python = Annotated[str, _like(r"3\.[1-9][0-9]", "contains {}; allowed: '3.10' or newer, the preferred one first")]
_Word = Annotated[
    str, _like("[a-z][a-z0-9_]*", "is {}; allowed: one lower-case word as torch writes it, without an index")
]
_Variable = Annotated[
    str,
    _like(
        "([A-Za-z_][A-Za-z0-9_]*)?", "is {}, and no variable has such a name; write one such as CUDA_VISIBLE_DEVICES"
    ),
]
_Module = Annotated[
    str, _like(r"[A-Za-z_]\w*(\.\w+)*", "contains {}, which is no module's name; write one such as torch")
]
_State = Literal["set", "unset", "any"]
_FORMER = ("optimisers",)
"""Suites that are gone: the frozen sides of nights still name them, and nothing is asked of them."""
_Fewest = Mapping[Annotated[str, OneOf(lambda: (*suites(), *_FORMER))], int]


@dataclass(frozen=True)
class HostRequirement:
    """One thing that a host must have for the stack; any one of the alternatives will do."""

    what: str
    paths: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    pci_vendors: tuple[str, ...] = ()
    pci_skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.paths or self.tools or self.pci_vendors):
            raise Wrong("what", "says what is needed but not how it is seen; give 'paths', 'tools' or 'pci_vendors'")


@dataclass(frozen=True)
class Flavour:
    """What `torch/version.py` must say: which toolkits are set, and what the version contains."""

    version_contains: str = ""
    cuda: _State = "any"
    hip: _State = "any"
    xpu: _State = "any"

    @property
    def toolkits(self) -> dict[str, str]:
        """Which toolkits must be set or unset."""
        states = {toolkit: str(getattr(self, toolkit)) for toolkit in TOOLKITS}
        return {toolkit: state for toolkit, state in states.items() if state != "any"}


@dataclass(frozen=True)
class Driver:
    """Where the driver's version can be read without torch: files, and one vendor tool."""

    files: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vendor:
    """A wheel that the package index does not serve: exact version, source, what it declares it needs."""

    name: str
    version: str
    index: str = ""
    file: str = ""
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.index) == bool(self.file):
            text = "are both given" if self.index else "are both missing"
            why = "name one: the index that serves the wheel, or the address to download it from by hand"
            raise Wrong("index", f"and 'file' {text}; {why}")

    @property
    def pin(self) -> str:
        """The requirement as the lock writes it."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Rehearsal:
    """The stack on a machine without its hardware: upstream builds of the same versions, on the CPU."""

    device: _Word
    backend: _Word
    imports: tuple[_Module, ...]
    flavour: Flavour
    substitutes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    expected: _Fewest = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_some(self.expected)


def _require_some(fewest: _Fewest) -> None:
    for suite, count in fewest.items():
        if count < 1:
            why = f"is {count}; it must be 1 or more, because a run that checks nothing proves nothing"
            raise Wrong(f"expected.{suite}", why)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """One exact combination of device, driver, toolkit, PyTorch build and companion packages."""

    name: str
    folder: Path
    title: str
    pythons: Annotated[tuple[_Python, ...], Key("python")]
    hardware: str
    """The torch device type that the stack is about; `device` differs from it in a rehearsal."""
    device: _Word
    backend: _Word
    backends: tuple[str, ...] = ()
    """Every c10d backend that users of the stack may choose, its own first."""
    shared_card_backend: str = "gloo"
    priority: int
    imports: tuple[_Module, ...]
    precisions: Annotated[tuple[str, ...], OneOf(PRECISIONS)]
    visibility: _Variable
    driver: Driver = Driver()
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[Annotated[str, Parsed(_own_folder)], ...] = ()
    """Folders of this checkout that hold packages of the stack's own, for the path of what runs in it; no index serves them."""
    install_hint: str
    host: tuple[HostRequirement, ...]
    flavour: Flavour
    vendor: tuple[Vendor, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    expected: _Fewest
    """The fewest checks of each suite that must be executed; of a suite that the file does not name, one."""
    least_ranks: int = _A_GROUP
    """The fewest ranks over which a collective counts as verified; one rank exchanges nothing."""
    rehearsal: Rehearsal
    rehearsed: bool = False

    def __post_init__(self) -> None:
        for name in {**self.environment, **self.rehearsal.environment}:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise Wrong("environment", f"has {name!r}, and no variable has such a name")
        if not self.pythons:
            raise Wrong("python", "is empty; name at least one version such as '3.10'")
        _require_some(self.expected)

    @property
    def definition(self) -> str:
        """How people call the file that says all this."""
        return display_path(self.folder / "stack.toml")

    @property
    def inputs(self) -> Path:
        """The ranges that the lock is made from."""
        return self.folder / "requirements.in"

    @property
    def substituted(self) -> bool:
        """Whether it is a rehearsal with builds in place of the vendor's, which has a lock of its own."""
        return self.rehearsed and bool(self.rehearsal.substitutes)

    @property
    def lock(self) -> Path:
        """The lock that this stack, or its rehearsal, is installed from."""
        return self.folder / ("rehearsal.lock" if self.substituted else "requirements.lock")

    @property
    def label(self) -> str:
        """How tables and records call it; a rehearsal can never be mistaken for the stack."""
        where = f" (rehearsed on {self.device}, not verified on {self.hardware})" if self.rehearsed else ""
        return f"{self.name}{where}"

    def path(self, inherited: str) -> str:
        """Return a search path for Python with the stack's own packages behind what is given."""
        return os.pathsep.join([*filter(None, [inherited]), *self.packages])

    def process_environment(self) -> dict[str, str]:
        """Return what its processes are started with: its defaults where the user has set nothing, its packages on the path."""
        defaults = {name: value for name, value in self.environment.items() if name not in os.environ}
        return {**defaults, "PYTHONPATH": self.path(os.environ.get("PYTHONPATH", ""))} if self.packages else defaults

    def rehearse(self) -> Stack:
        """Return the stack as it is rehearsed: other device, backend, flavour, imports; else the same."""
        stand_in = self.rehearsal
        return replace(
            self, rehearsed=True, device=stand_in.device, backend=stand_in.backend, backends=(stand_in.backend,),
            shared_card_backend=stand_in.backend, imports=stand_in.imports, visibility="",
            environment=stand_in.environment, packages=(), flavour=stand_in.flavour, expected=stand_in.expected,
            host=(), vendor=(),
        )  # fmt: skip


def names(folder: Path = STACKS) -> tuple[str, ...]:
    """Return the stacks that exist, in alphabetical order: ours, and those of the project and of packages beside them."""
    return tuple(sorted(_files(folder)))


def _files(folder: Path) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for place in (folder, *(projects.stack_folders() if folder == STACKS else ())):
        for path in sorted(place.glob("*/stack.toml")):
            if path.parent.name in paths:
                raise Refusal(
                    f"{path}: the stack '{path.parent.name}' exists already, in {paths[path.parent.name]}; give its folder another name"
                )
            paths[path.parent.name] = path
    return paths


def load(name: str, folder: Path = STACKS, *, rehearsed: bool = False) -> Stack:
    """Return the stack of that name, or its rehearsal; refuse another name with the nearest."""
    known = _files(folder)
    if name not in known:
        raise Refusal(f"there is no stack {name!r}{suggestion(name, known)}; known stacks: {', '.join(sorted(known))}")
    stack = _definition(known[name])
    return stack.rehearse() if rehearsed else stack


def display_path(path: Path) -> str:
    """Return the path of a file of a stack as people type it: within its project, else as any file of ours."""
    project = projects.current()
    if project and path.is_relative_to(project.folder):
        return project.display_path(path)
    return called(path)


def load_all(folder: Path = STACKS) -> tuple[Stack, ...]:
    """Return every stack, the one that a host should prefer first."""
    return tuple(
        sorted((load(name, folder) for name in names(folder)), key=lambda stack: (-stack.priority, stack.name))
    )


def doubles() -> tuple[str, ...]:
    """Return the stacks that are test doubles, whose priority is below zero: what passes there says nothing of hardware."""
    return tuple(stack.name for stack in load_all() if stack.priority < 0)


def title(name: str) -> str:
    """Return the title of a stack, or what is wrong with its definition: a menu shows both."""
    try:
        return load(name).title
    except Refusal as refusal:
        return f"broken: {refusal}"


def _of_today(fewest: _Fewest) -> _Fewest:
    return {name: count for name, count in fewest.items() if name not in _FORMER}


def why_no_name(name: str) -> str:
    """Return why a stack cannot be called so, or an empty string: its name is a part of flags, sessions and folders."""
    fits = re.fullmatch(r"[a-z0-9][a-z0-9-]*", name)
    return "" if fits else "is no name for a stack; write small letters, digits and hyphens, such as my-card"


@functools.cache
def _definition(path: Path) -> Stack:
    if why := why_no_name(path.parent.name):
        raise Refusal(f"{path.parent}: '{path.parent.name}' {why}")
    fields = {"name": path.parent.name, "folder": path.parent, "hardware": "", "rehearsed": False}
    table = Table.load(path)
    read = table.row(Stack, **fields)
    expected = {**dict.fromkeys(suites(), 1), **_of_today(read.expected)}
    rehearsal = replace(read.rehearsal, expected={**expected, **_of_today(read.rehearsal.expected)})
    backends = read.backends or (read.backend,)
    if backends[0] != read.backend:
        why = f"is {list(backends)!r}; the stack's own backend, '{read.backend}', comes first"
        raise table.refuse("backends", why)
    if read.least_ranks < _A_GROUP:
        raise table.refuse("least_ranks", f"is {read.least_ranks}; it must be {_A_GROUP} or more: one rank is no group")
    if read.device not in _TORCHS_OWN and not read.packages and {*read.imports} <= {"torch"}:
        own = f"torch knows {', '.join(_TORCHS_OWN)} and what an extension registers"
        raise table.refuse("device", f"is '{read.device}': {own}; name one of these, or the extension in 'imports'")
    return replace(read, hardware=read.device, backends=backends, expected=expected, rehearsal=rehearsal)
