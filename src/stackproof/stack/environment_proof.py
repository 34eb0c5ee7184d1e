"""Proves an environment: what is installed equals the lock, torch has the right flavour, nothing replaced it.

Of an environment that is not ours, which companions of torch are out of the stack's ranges, and the lock's pins as constraints for pip: in
a vendor's container pip takes the newest transformers beside an older torch, and what the vendor built must stay as it is installed.
Nothing here imports torch: importing the wrong one may crash. The interpreter that runs this is the one that is proved.
"""

from __future__ import annotations

import ast
import csv
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackproof.base import advice
from stackproof.base.errors import EnvironmentMismatchError, StackUnavailableError, answer
from stackproof.base.text import counted
from stackproof.stack import environments, installed_files, lockfile, startup
from stackproof.stack.installed_files import Coverage
from stackproof.stack.stacks import TOOLKITS, Flavour, Stack

_MOST_SHOWN = 12
_OTHER = "leave that folder as it is and add --locked, which builds the stack's own and goes on in it"
# What was not built by us is not ours to delete.
_REPLACE = "install the stack's own torch there, or run the verb where it is installed"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True)
class Proof:
    """What could be said of the environment."""

    pinned: bool
    lock_digest: str
    unhashed: tuple[str, ...]
    packages: int
    torch_version: str
    toolkits: dict[str, str]
    files: Coverage | None = None
    """What was compared file by file; nothing of an environment that is not ours."""
    companions: str = ""
    """Which packages, in an environment that is not ours, are out of the ranges that the stack asks for."""

    def sentence(self, stack: Stack) -> str:
        """Return the proof in one sentence, which begins with what is not proved."""
        if not self.pinned:
            what = "unpinned: not an environment of ours, so only its flavour is proved"
            off = f"; {self.companions}" if self.companions else ""
            return f"{what}; torch {self.torch_version}{off}"
        lock = f"{stack.lock.parent.name}/{stack.lock.name} ({self.lock_digest[:12]})"
        missing = f"; {counted(len(self.unhashed), 'package')} without a hash" if self.unhashed else ""
        files = f"; {self.files.sentence()}" if self.files else ""
        return f"{self.packages} packages equal {lock}, torch {self.torch_version}{files}{missing}"


def prove(stack: Stack, deep: bool = False) -> Proof:
    """Return the proof of this interpreter's environment.

    Args:
        stack: whose lock it has to be.
        deep: hash every file again, whatever is remembered of it.

    Raises:
        EnvironmentMismatchError: with the difference, line by line, and the remedy.
        StackUnavailableError: there is no torch at all.
    """
    left = environments.stamp(Path(sys.prefix))
    lock, there = lockfile.own(stack), installed()
    if left:
        _refuse(stack, _other_stack(stack, left), _OTHER)
        _refuse(stack, _differences(left, lock, there), advice.REBUILD)
    version, toolkits = torch_flavour()
    wrong = flavour_differences(stack.flavour, version, toolkits) + ([] if left else _damage())
    files = None
    if left:
        files, differ = installed_files.compare(environments.site_packages(Path(sys.prefix)), left, deep)
        wrong += differ
    wrong += startup.complaints(stack, os.environ, tuple(_site_packages()))
    _refuse(stack, wrong, advice.REBUILD if left else _REPLACE)
    unhashed = tuple(f"{pin.name}=={pin.version}" for pin in lock.unhashed) if left else ()
    off = "" if left else out_of_range(stack, [*other(stack, there, PYTHON)])
    return Proof(bool(left), lock.digest if left else "", unhashed, len(there), version, toolkits, files, off)


def installed() -> dict[str, str]:
    """Return this environment's distributions: canonical name to version, to all if one is there twice."""
    return {name: " and ".join(versions) for name, versions in installed_files.installed(_site_packages()).items()}


def torch_flavour() -> tuple[str, dict[str, str]]:
    """Return torch's version and the toolkits that `torch/version.py` names, read as text."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        raise StackUnavailableError(
            f"there is no torch in {sys.prefix}; run with --locked, which builds the environment of the lock, "
            "or install the stack's torch"
        )
    return read_flavour(Path(spec.origin).parent / "version.py")


def read_flavour(path: Path) -> tuple[str, dict[str, str]]:
    """Return what a `torch/version.py` says, of any environment, without running it."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        raise EnvironmentMismatchError(
            f"{path}: cannot be read ({error}): torch is damaged, or something else is called so; move that away, or install torch again"
        ) from error
    values: dict[str, str] = {}
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Constant) and value.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values |= {target.id: str(value.value) for target in targets if isinstance(target, ast.Name)}
    return values.get("__version__", "unknown"), {key: values[key] for key in TOOLKITS if values.get(key)}


def _site_packages() -> list[Path]:
    """The environment's own folders: PYTHONPATH and the checkout are not part of it."""
    return [Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


def _other_stack(stack: Stack, left: Mapping[str, object]) -> list[str]:
    built = left.get("stack"), left.get("lock")
    if environments.DAMAGED in left or built == (stack.name, stack.lock.name):
        return []
    return [
        f"this environment was built for '{built[0]}' from {built[1]}, not for '{stack.name}' from {stack.lock.name}"
    ]


def _differences(left: Mapping[str, object], lock: lockfile.Lock, there: Mapping[str, str]) -> list[str]:
    if environments.DAMAGED in left:
        return [f"! its {environments.STAMP} is damaged, so that nobody knows what was built"]
    differ = lock_differences(lock.expected(), there)
    if left.get("lock_digest") == lock.digest:
        return differ
    return [f"lock digest: built from {str(left.get('lock_digest'))[:12]}, the file is {lock.digest[:12]}", *differ]


def lock_differences(expected: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """Say in what installed versions are not those of a lock, a line each; both are versions by canonical name."""
    missing, extra = sorted(expected.keys() - present.keys()), sorted(present.keys() - expected.keys())
    both = sorted(expected.keys() & present.keys())
    other = [name for name in both if present[name] != installed_files.normal_version(expected[name])]
    return [
        *(f"- {name}=={expected[name]} (in the lock, not installed)" for name in missing),
        *(f"+ {name}=={present[name]} (installed, not in the lock)" for name in extra),
        *(f"! {name}: lock {expected[name]}, installed {present[name]}" for name in other),
    ]


def flavour_differences(flavour: Flavour, version: str, toolkits: dict[str, str]) -> list[str]:
    """Say in what a torch is not of the flavour that a stack wants, a line each."""
    wrong = [
        f"! torch {version}: torch.version.{toolkit} is {toolkits.get(toolkit)}, the stack wants it {state}"
        for toolkit, state in flavour.toolkits.items()
        if (toolkit in toolkits) != (state == "set")
    ]
    if flavour.version_contains not in version:
        wrong.append(f"! torch {version}: the stack wants a version that contains '{flavour.version_contains}'")
    return wrong


def _damage() -> list[str]:
    """Say whether torch's files have the sizes of its RECORD; from Python 3.12 on `Distribution.files` leaves out what is missing."""
    try:
        torch = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        return ["! torch is importable but no distribution claims it"]
    wrong = []
    for row in csv.reader((torch.read_text("RECORD") or "").splitlines()):
        if len(row) == 3 and row[2].isdecimal():
            path = Path(str(torch.locate_file(row[0])))
            if not path.exists() or path.stat().st_size != int(row[2]):
                wrong.append(row[0])
    count = f"{len(wrong)} of its files are missing or of another size"
    return [f"! torch {torch.version}: {count}, the first is {wrong[0]}"] if wrong else []


def _refuse(stack: Stack, differences: list[str], remedy: str) -> None:
    if not differences:
        return
    shown = "\n  ".join(differences[:_MOST_SHOWN])
    more = f"\n  ... and {len(differences) - _MOST_SHOWN} more" if len(differences) > _MOST_SHOWN else ""
    what = f"the environment {sys.prefix} is not stack '{stack.name}' as {stack.lock.name} pins it"
    raise EnvironmentMismatchError(f"{what}; {remedy}:\n  {shown}{more}")


@dataclass(frozen=True)
class Companion:
    """A package that the stack asks for, and that is here in another version than in the lock, or not at all."""

    name: str
    here: str
    """Empty where it is not installed."""
    locked: str
    asked: str
    """The range in the stack's inputs."""
    fits: bool
    """Whether what is here is in that range."""
    vendors: bool
    """Whether the vendor builds it, so that no index serves it."""

    def __str__(self) -> str:
        asked = "" if self.vendors else f", asked for {self.asked}"
        return f"{self.name} {self.here} (locked {self.locked}{asked})" if self.here else self.name


def other(stack: Stack, there: Mapping[str, str], python: str) -> Iterator[Companion]:
    """Yield what is not the lock's of the packages that the stack asks for by name; all else follows from these.

    `there`: versions by canonical name. `python`: such as "3.10". A vendor's own build may carry any local version.
    """
    environment = lockfile.environment_of(python)
    locked = lockfile.own(stack).expected(environment)
    for requirement in lockfile.asked(stack, environment):
        name = canonicalize_name(requirement.name)
        here, pinned, vendors = there.get(name, ""), locked.get(name, ""), lockfile.is_vendor_build(requirement)
        if here != pinned and pinned:
            yield Companion(name, here, pinned, str(requirement.specifier), _fits(requirement, here, vendors), vendors)


def _fits(requirement: Requirement, here: str, vendors: bool) -> bool:
    version = installed_files.version_of(here)
    if version is None or not vendors:
        return version is not None and requirement.specifier.contains(version, prereleases=True)
    return any(Version(part.version).public == version.public for part in requirement.specifier)


def out_of_range(stack: Stack, companions: list[Companion]) -> str:
    """Say which are out of range, in few words for a check's reason; empty where none is."""
    outside = [str(companion) for companion in companions if companion.here and not companion.fits]
    return f"not what {stack.name} asks for: {', '.join(outside)}" if outside else ""


def constraints(lock: lockfile.Lock, there: Mapping[str, str]) -> Iterator[str]:
    """Yield a line of pip's constraints for each package: the lock's version, or what is there already if a vendor built it.

    Source: https://pip.pypa.io/en/stable/user_guide/#constraints-files
    """
    pins = {canonicalize_name(pin.name): pin for pin in lock.pins if pin.applies()}
    for name, pin in pins.items():
        if name in there and (pin.unhashed or _is_local(pin.version) or _is_local(there[name])):
            yield _pin(name, there[name], f"the lock has {pin.version}" if there[name] != pin.version else "")
        else:
            yield pin.requirement
    for other in sorted(there.keys() - pins.keys()):
        if _is_local(there[other]):
            yield _pin(other, there[other], "not in the lock")


def weaknesses(lock: lockfile.Lock, there: Mapping[str, str]) -> Iterator[str]:
    """Yield what makes these constraints weaker than they look."""
    if PYTHON not in lock.header["python"].split(", "):
        yield f"the lock is for Python {lock.header['python']} and this is {PYTHON}; not every version may exist for it"
    if "torch" not in there:
        yield "this Python has no torch; run it with the Python of the container, so that the vendor's builds are held as they are"


def _is_local(version: str) -> bool:
    """Whether a version has the `+...` of a build that is not upstream's; one that is no version at all is such a build too."""
    known = installed_files.version_of(version)
    return known is None or known.local is not None


def _pin(name: str, version: str, why: str) -> str:
    known = installed_files.version_of(version)
    exactly = f"=={known}" if known else f"==={version}"  # compared as text
    return f"{name}{exactly}  # installed here{f'; {why}' if why else ''}"


if __name__ == "__main__":  # STACK [--rehearsed] [--deep]: prove this interpreter's environment
    from stackproof.stack import stacks

    named = stacks.load(sys.argv[1], rehearsed="--rehearsed" in sys.argv)
    sys.exit(answer(lambda: prove(named, "--deep" in sys.argv).sentence(named)))
