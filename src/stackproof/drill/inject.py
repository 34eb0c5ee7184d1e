"""The kinds of injection: each prepares a site, which is all that a run of a verb needs to be under the fault, or free of it.

An edit of a copied file that changes nothing is refused, because the fault would not be there.
"""

from __future__ import annotations

import re
import shutil
import textwrap
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from stackproof import ROOT
from stackproof.base.errors import EnvironmentMismatchError, Refusal
from stackproof.base.places import COMPILED_CODE
from stackproof.base.toml import Key, OneOf, Wrong
from stackproof.stack import environments

_COPIED = ("src", "suites", "fixtures", "stacks")
_PLACES = {
    "everywhere": "True", "checks": "in_checks()", "ranks": "in_rank()", "rank 1": "in_rank(1)", "head": 'in_side("head")',
}  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """What is done to one file of a copy; `file` may hold * where its name holds a version."""

    file: str
    create: str = ""
    append: str = ""
    pattern: str = ""
    replacement: str = ""
    rename: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.create, self.append, self.pattern, self.rename))) != 1:
            raise Wrong("file", "needs exactly one of create, append, pattern (with replacement), rename")

    def apply(self, root: Path) -> Path:
        """Do it to the copy at `root` and return the file that was touched."""
        if self.create:  # a * may stand for a version in the folders above
            star = re.match(r".*\*[^/]*/", self.file)
            path = _only(root, star[0].rstrip("/")) / self.file[star.end() :] if star else root / self.file
        else:
            path = _only(root, self.file)
        materialise(root, path)
        if self.rename:
            return path.rename(path.parent / self.rename)
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(self._changed(before or b""))
        if path.read_bytes() == before:
            raise Refusal(f"{self.file}: the edit changed nothing, so the fault is not there; mend the row")
        return path

    def _changed(self, text: bytes) -> bytes:
        if self.create:
            return self.create.encode()
        if self.append:
            return text + self.append.encode()
        return re.sub(self.pattern.encode(), self.replacement.encode(), text, count=1, flags=re.MULTILINE)


def materialise(root: Path, path: Path) -> None:
    """Make a file below a tree of links one's own: what the links name stays as it is."""
    for parent in reversed(path.relative_to(root).parents):
        folder = root / parent
        if folder.is_symlink():
            target = folder.resolve()
            folder.unlink()
            link_tree(target, folder)
        folder.mkdir(exist_ok=True)
    if path.is_symlink():
        target = path.resolve()
        path.unlink()
        shutil.copy(target, path)


def link_tree(source: Path, target: Path) -> None:
    """Make a folder that holds a link to everything in another."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        (target / entry.name).symlink_to(entry)


def _only(root: Path, pattern: str) -> Path:
    paths = sorted(root.glob(pattern))
    if len(paths) != 1:
        raise Refusal(f"'{pattern}' names {len(paths)} files of {root}; a row of edits must name one")
    return paths[0]


@dataclass
class Site:
    """Where and with what a verb runs; words such as {file} in its arguments are filled in."""

    folder: Path
    python: Path
    root: Path = ROOT
    code: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    @property
    def signs(self) -> Path:
        """The folder in which each process under the fault leaves a file."""
        return self.folder / "signs"


class Injection:
    """How a fault gets into a run."""

    kind: str

    @property
    def ground(self) -> str:
        """What the site is without the fault; the same for injections that can share a run without one, empty for a plain site."""
        return ""

    def inject(self, site: Site) -> None:
        raise NotImplementedError

    def spare(self, site: Site) -> None:
        """Prepare the site in the same way without the fault."""


_Where = Annotated[str, OneOf(lambda: tuple(_PLACES))]


@dataclass(frozen=True)
class Planted(Injection):
    """Python that the processes of the run import before anything else."""

    code: str
    where: _Where = "checks"
    kind: str = "planted"

    def inject(self, site: Site) -> None:
        guarded = textwrap.indent(textwrap.dedent(self.code), "    ")
        site.code = f"if {_PLACES[self.where]}:\n{guarded}"


@dataclass(frozen=True)
class Variables(Injection):
    """Environment variables, as users export them, or the switches of the simulated accelerator."""

    variables: Mapping[str, str]
    kind: str = "variables"

    def inject(self, site: Site) -> None:
        """Export them; a process that finds them set is under the fault."""
        site.variables |= self.variables
        site.code = f"import os\nif {dict(self.variables)!r}.items() <= os.environ.items():\n    fired()\n"


@dataclass(frozen=True)
class Switched(Injection):
    """Faults of the simulated accelerator, which counts itself how often each fired (fixtures/simulated)."""

    faults: str
    kind: str = "switch"

    def inject(self, site: Site) -> None:
        site.variables |= {"SIM_FAULTS": self.faults, "SIM_FAULTS_FIRED": str(site.signs)}


@dataclass(frozen=True)
class Edited(Injection):
    """Edits of a copy that `copy` makes, whose files are named from the folder that it returns."""

    edits: Annotated[tuple[Edit, ...], Key("edit")]

    @property
    def ground(self) -> str:
        return self.kind

    def inject(self, site: Site) -> None:
        root = self.copy(site)
        for edit in self.edits:
            edit.apply(root)

    def spare(self, site: Site) -> None:
        self.copy(site)

    def copy(self, site: Site) -> Path:
        """Make the copy, and let the site run in it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Checkout(Edited):
    """Edits of a scratch copy of the checkout."""

    kind: str = "checkout"

    def copy(self, site: Site) -> Path:
        site.root = copy_checkout(site.folder / "checkout")
        site.code = f"watch({str(site.root / 'src')!r})\n"
        return site.root


@dataclass(frozen=True)
class Environment(Edited):
    """Edits of a copy of the environment that the stack's lock was installed into; files are named from its prefix."""

    kind: str = "environment"

    def copy(self, site: Site) -> Path:
        """Copy the environment as links; it knows itself by where its interpreter is."""
        original, prefix = site.python.parent.parent, site.folder / "environment"
        if not environments.stamp(original):
            raise EnvironmentMismatchError(
                f"{original} was not built from a lock, so nothing in it can be seen to differ; run `nox -s drill`"
            )
        site.python = environments.python_of(copy_environment(original, prefix))
        site.code = f"watch({str(prefix)!r})\n"
        return prefix


@dataclass(frozen=True)
class File(Edited):
    """A file that is handed to a verb in a scratch copy of the checkout: one of ours, or a text, doctored."""

    source: str
    """Its name in the checkout; of a text, the name that it gets."""
    text: str = ""
    beside: tuple[str, ...] = ()
    """Files of the checkout that lie beside it, such as its logs; {folder} is where they all are."""
    kind: str = "file"

    @property
    def ground(self) -> str:
        return f"{self.kind} {Path(self.source).name}"

    def copy(self, site: Site) -> Path:
        site.root = copy_checkout(site.folder / "checkout")
        handed = site.folder / "handed" / Path(self.source).name
        handed.parent.mkdir()
        handed.write_bytes(self.text.encode() if self.text else (ROOT / self.source).read_bytes())
        for name in self.beside:
            shutil.copy(ROOT / name, handed.parent)
        site.words |= {"file": str(handed), "folder": str(handed.parent)}
        site.code = f"watch({str(handed.parent if self.beside else handed)!r})\n"
        return handed.parent


@dataclass(frozen=True)
class HostFiles(Injection):
    """A host made of files that the doctor looks at: those of a sound one, and what is wrong with this one."""

    sound: Mapping[str, str]
    wrong: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
    """Links by name, with what they point at; both are paths of the host."""
    kind: str = "host"

    @property
    def ground(self) -> str:
        return f"{self.kind} {zlib.crc32(repr(sorted(self.sound.items())).encode()):08x}"

    def inject(self, site: Site) -> None:
        replace(self, sound={**self.sound, **self.wrong}).spare(site)

    def spare(self, site: Site) -> None:
        root = site.folder / "host"
        for name, text in self.sound.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name, target in self.links.items():
            (root / name.lstrip("/")).symlink_to(root / target.lstrip("/"))
        site.code = f"watch({str(root)!r})\ndoctor_sees({str(root)!r})\n"


_KINDS: tuple[type[Injection], ...] = (Planted, Variables, Switched, Checkout, Environment, File, HostFiles)
KINDS: dict[str, type] = {made.kind: made for made in _KINDS}


def copy_checkout(target: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "wheels")
    for name in _COPIED:
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    shutil.copy(ROOT / "noxfile.py", target)
    return target


def copy_environment(original: Path, target: Path) -> Path:
    """Copy an environment as links to what is in it, so that any of its files can be made another; return the copy."""
    target.mkdir()
    for name in ("pyvenv.cfg", environments.STAMP):
        shutil.copy(original / name, target / name)
    link_tree(original / "bin", target / "bin")
    for entry in original.iterdir():  # wheels also put files into share/ and etc/
        if entry.is_dir() and entry.name not in ("bin", "lib", "lib64", COMPILED_CODE.name):
            (target / entry.name).symlink_to(entry)
    (packages,) = original.glob("lib/python3*/site-packages")
    link_tree(packages, target / packages.relative_to(original))
    return target
