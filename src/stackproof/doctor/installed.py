"""Python environments: what is installed, by the metadata on disk; nothing is imported, and no torch is needed."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import advice, files
from stackproof.base.errors import Refusal
from stackproof.base.text import first_few
from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import Finding, ok
from stackproof.stack import environment_proof, environments, hosts, installed_files, lockfile
from stackproof.stack.environment_proof import flavour_differences, lock_differences, read_flavour
from stackproof.stack.stacks import Stack
from stackproof.stack.variables import Level

_FOR_CUDA = re.compile(r"(.+?)(-cu\d\d)?")
_OF_CARDS = "oneccl_bindings_for_pytorch/lib/liboneccl_bindings_for_pytorch_xpu.so"
"""What the oneCCL bindings load for cards, as their __init__.py has it; their version says +xpu in builds for the CPU alone too."""
_SHARED = ("nvidia-nccl", "nvidia-cudnn")  # one folder for both: rows of the table say so


@dataclass(frozen=True)
class Installed:
    """One environment: how it is called, its Python, its distributions (all versions that are there), its torch."""

    label: str
    python: str
    packages: Mapping[str, tuple[str, ...]]
    torch: str
    toolkits: Mapping[str, str]
    ccl_of_cards: bool = False

    @property
    def facts(self) -> dict[str, str]:
        """What rules judge: versions by canonical name, the Python, and what torch/version.py says."""
        values = {name: versions[-1] for name, versions in self.packages.items()}
        values |= {f"torch.{name}": value for name, value in self.toolkits.items()}
        values |= {"oneccl-bind-pt-xpu": "its library"} if self.ccl_of_cards else {}
        values["python"] = ".".join(self.python.split(".")[:2])
        return values | ({"torch": self.torch} if self.torch else {})

    def lacks(self, stack: Stack) -> list[str]:
        """Return in what its torch is not of the stack's flavour."""
        lines = flavour_differences(stack.flavour, self.torch, dict(self.toolkits))
        return [line.removeprefix("! ").removeprefix(f"torch {self.torch}: ") for line in lines]


def own(machine: Machine) -> Installed | None:
    """Return the environment that was asked for, usually that of this Python; None if it has no torch."""
    here = machine.prefix == Path(sys.prefix)
    folders = [Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages"))] if here else []
    version = platform.python_version() if here else ""
    installed = _read(f"this Python ({machine.environment})", folders or _site_packages(machine.prefix), version)
    return installed if installed.torch else None


def built(stack: Stack) -> Installed | None:
    """Return the environment that was built for a stack; None if there is none, or it is unfinished."""
    where = environments.location(stack)
    return _read(f"stack {stack.name}", _site_packages(where), "") if environments.stamp(where) else None


def examine_built(stack: Stack, env: Installed, present: Sequence[Stack]) -> Iterator[Finding]:
    """Hold a stack's environment against its lock and its flavour."""
    where = environments.location(stack)
    try:
        wrong = _against_lock(stack, env)
    except Refusal as refusal:
        yield Finding("environment", Level.PROBLEM, f"{env.label}: {refusal}")
        return
    if lacks := wrong + env.lacks(stack):
        sentence = f"{env.label}: its environment is not its lock: {first_few(lacks, between='; ')}"
        yield Finding(
            "environment", Level.PROBLEM, sentence, f"rm -r {where} && {hosts.proof(stack, stack in present)}"
        )
    else:
        yield ok(
            "environment",
            f"{env.label}: {len(env.packages)} packages have the versions of its lock (files are not read here), torch {env.torch}",
        )


def examine_own(installed: Installed, named: Stack | None, present: list[Stack]) -> Iterator[Finding]:
    """Hold this Python's torch against the stack that was named, or against those that the host has."""
    built_for = ", ".join(f"{name.upper()} {value}" for name, value in installed.toolkits.items()) or "the CPU only"
    text = f"{installed.label}: Python {installed.python}, torch {installed.torch} for {built_for}"
    candidates = [named] if named else present
    fitting = [stack.name for stack in candidates if not installed.lacks(stack)]
    if fitting:
        yield ok("environment", f"{text}; the flavour of {', '.join(fitting)}")
    elif named:
        sentence = f"{text}; {'; '.join(installed.lacks(named))}"
        builds = "builds the right one" if named in present else "builds a stand-in for the CPU"
        remedy = f"install the stack's own torch here; `{hosts.proof(named, named in present)}` {builds}"
        yield Finding("environment", Level.PROBLEM, sentence, remedy)
    cards = [stack for stack in present if not named and "set" in stack.flavour.toolkits.values()]
    if cards and not any(stack.name in fitting for stack in cards):
        names = ", ".join(stack.name for stack in cards)
        sentence = f"{installed.label}: torch {installed.torch} is of no use to this host's cards (stacks {names})"
        remedy = f"`{hosts.proof(cards[0], True)}` builds an environment that is"
        yield Finding("environment", Level.WARNING, sentence, remedy)


def examine_companions(env: Installed, named: Stack | None, present: list[Stack]) -> Iterator[Finding]:
    """Hold what stands beside torch, in an environment that is not ours, against the stack that it is for.

    Without a name that is the nearest of those whose release of torch it has; somebody's own environment is for none.
    """
    fitting = [stack for stack in ([named] if named else present) if not env.lacks(stack)]
    try:
        others = {stack.name: list(environment_proof.other(stack, env.facts, env.facts["python"])) for stack in fitting}
    except Refusal as refusal:
        yield Finding("environment", Level.WARNING, f"{env.label}: {refusal}")
        return
    meant = [stack for stack in fitting if named or _has_torch(others[stack.name])]
    if not meant:
        return
    stack = min(meant, key=lambda stack: sum(not row.fits for row in others[stack.name]))
    level = Level.WARNING if named or "set" in stack.flavour.toolkits.values() else Level.NOTE
    yield from _unlike(env, stack, others[stack.name], level, hosts.proof(stack, stack in present))


def _has_torch(others: list[environment_proof.Companion]) -> bool:
    return all(other.fits for other in others if other.name == "torch")


def _unlike(
    env: Installed, stack: Stack, others: list[environment_proof.Companion], level: Level, proof: str
) -> Iterator[Finding]:
    """Yield what is out of range and what is absent; else that all is in its range."""
    wrong, absent = [row for row in others if row.here and not row.fits], [row for row in others if not row.here]
    python = env.facts["python"]
    strange = [] if python in stack.pythons else [f"Python {python} (the stack is for {' or '.join(stack.pythons)})"]
    if strange or wrong:
        sentence = f"{env.label}: not what stack {stack.name} asks for: {', '.join([*strange, *map(str, wrong)])}"
        theirs = _has_torch(others) and not strange
        remedy = _by_constraints(stack, wrong) if theirs else f"`{proof}` builds an environment that is its lock"
        yield Finding("environment", level, sentence, remedy)
    if absent:
        names = ", ".join(row.name for row in absent)
        sentence = f"{env.label}: of stack {stack.name} {names} {'is' if len(absent) == 1 else 'are'} not installed"
        yield Finding(
            "environment", Level.NOTE, f"{sentence}; what needs it is skipped", _by_constraints(stack, absent)
        )
    if not (strange or wrong or absent):
        yield ok("environment", f"{env.label}: the companions that stack {stack.name} asks for are in their ranges")


def _by_constraints(stack: Stack, wrong: list[environment_proof.Companion]) -> str:
    names = " ".join(row.name for row in wrong if not row.vendors)
    install = advice.pip("install", "-c", "constraints.txt")
    commands = f"python -m stackproof constraints {stack.name} > constraints.txt && {install} {names}"
    return commands if names else stack.install_hint


def doubled(env: Installed) -> Iterator[Finding]:
    """Yield the packages that are there twice: in two versions (a mixed env), or for two CUDAs."""
    there: dict[str, list[str]] = {}
    for name, versions in env.packages.items():
        stem, toolkit = _FOR_CUDA.fullmatch(name).groups()  # type: ignore[union-attr]  # it matches any name
        there.setdefault(stem, []).extend(f"{version}{toolkit or ''}" for version in versions)
    for name, kinds in there.items():
        if len(kinds) > 1 and name not in _SHARED:
            level = Level.PROBLEM if name == "torch" else Level.WARNING
            twice = f"{env.label}: {name} is there twice, as {' and as '.join(kinds)}; which one is loaded is chance"
            yield Finding("environment", level, twice, f"{advice.pip('uninstall', name)}, twice, then install it again")


def _site_packages(prefix: Path) -> list[Path]:
    names = ("site-packages", "dist-packages")
    return [path for name in names for path in files.sorted_matches(prefix, f"lib/python3*/{name}")]


def _read(label: str, folders: list[Path], version: str) -> Installed:
    torch, toolkits = "", dict[str, str]()
    if written := [folder / "torch/version.py" for folder in folders if (folder / "torch/version.py").is_file()]:
        try:
            torch, toolkits = read_flavour(written[0])
        except Refusal:
            torch = "that cannot be read"
    named = re.search(r"python(3\.\d+)", str(folders[0])) if folders else None
    of_cards = any((folder / _OF_CARDS).is_file() for folder in folders)
    python, packages = version or (named[1] if named else ""), installed_files.installed(folders)
    return Installed(label, python, packages, torch, toolkits, of_cards)


def _against_lock(stack: Stack, env: Installed) -> list[str]:
    expected = lockfile.own(stack).expected(lockfile.environment_of(env.facts["python"]))
    present = {name: " and ".join(versions) for name, versions in env.packages.items()}
    return [line.removeprefix("! ") for line in lock_differences(expected, present)]
