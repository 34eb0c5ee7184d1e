"""Which stacks this host has, why, what is missing, what is built; as data."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from stackproof.base import advice, files, processes
from stackproof.base.errors import Refusal
from stackproof.stack import environments, hosts, lockfile, stacks
from stackproof.stack.stacks import Stack

NOTHING = "nothing"
"""What would be proved where not even the CPU's stack is there."""
_NOT_READY = ("missing - ", "unusable - ")


@dataclass(frozen=True)
class Sight:
    """One stack as this host shows it."""

    name: str
    title: str = ""
    present: bool = False
    requirements: tuple[hosts.Requirement, ...] = ()
    hint: str = ""
    """How to get it."""
    python: str = ""
    lock: str = ""
    environment: str = ""
    visibility: str = ""
    """The variable that chooses its cards."""
    visible: str | None = None
    broken: str = ""
    """Why its definition could not be read; then nothing else is known."""


@dataclass(frozen=True)
class Presence:
    """Every stack that was looked for."""

    host: str
    preferred: str
    """What `nox -s smoke` would prove."""
    stacks: tuple[Sight, ...]
    stacks_here: list[Stack] = field(default_factory=list)
    """The stacks that are here, the preferred one first."""
    unready: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Why the environment of a stack cannot be built: no interpreter, an unusable lock."""
    broken: Refusal | None = None
    """Why a definition could not be read."""


def look(names: Collection[str], root: str = "", environ: Mapping[str, str] = os.environ) -> Presence:
    """Look for these stacks; one that is broken does not silence the others."""
    libc, cpus = " ".join(platform.libc_ver()), processes.cores()
    loaded, refusals = _loaded(names)
    seen, here, unready = [], [], {}
    with ThreadPoolExecutor() as pool:  # looking for an interpreter runs candidates, and every stack has its own
        python = {stack.pythons: pool.submit(_interpreter, stack) for stack in loaded.values()}
        for name in names:
            if name in refusals:
                seen.append(Sight(name, broken=str(refusals[name])))
                continue
            found = hosts.inspect(loaded[name], root)
            here += [found.stack] if found.present else []
            ready = (python[found.stack.pythons].result(), _lock(found.stack))
            unready[name] = tuple(text.partition(" - ")[2] for text in ready if text.startswith(_NOT_READY))
            seen.append(_about(found, *ready, environ))
    here.sort(key=lambda stack: (-stack.priority, stack.name))
    host = f"{platform.system()} {platform.release()}, {libc}, {platform.machine()}, {cpus} CPUs"
    return Presence(host, _preferred(root), tuple(seen), here, unready, next(iter(refusals.values()), None))


def _loaded(names: Collection[str]) -> tuple[dict[str, Stack], dict[str, Refusal]]:
    loaded, refusals = {}, {}
    for name in names:
        try:
            loaded[name] = stacks.load(name)
        except Refusal as refusal:
            refusals[name] = refusal
    return loaded, refusals


def _preferred(root: str) -> str:
    try:
        return hosts.preferred(root).stack.name
    except Refusal as refusal:
        return f"{NOTHING} - {refusal}"


def _about(found: hosts.Availability, python: str, lock: str, environ: Mapping[str, str]) -> Sight:
    stack = found.stack
    return Sight(
        stack.name,
        stack.title,
        found.present,
        found.findings,
        "" if found.present else stack.install_hint,
        python,
        lock,
        _environment(stack, found.present),
        stack.visibility,
        environ.get(stack.visibility) if stack.visibility else None,
    )


def _interpreter(stack: Stack) -> str:
    try:
        return str(environments.find_interpreter(stack))
    except Refusal as refusal:
        # Stacks that want the same Python are answered together: the sentence must not name the one that asked.
        named = f"stack '{stack.name}' "
        return f"missing - {str(refusal).removeprefix(named)}"


def _lock(stack: Stack) -> str:
    try:
        lock = lockfile.read(stack.lock)
    except Refusal as refusal:
        return f"unusable - {refusal}"
    missing = (
        f", unhashed: {len(lock.unhashed)} (run {advice.relock(stack.name, stack.folder)} where the vendor's wheels can be reached)"
        if lock.unhashed
        else ""
    )
    return f"{len(lock.pins)} packages, {lock.digest[:12]}{missing}"


def _environment(stack: Stack, present: bool) -> str:
    """Say what is built; without the card that is its rehearsal's, unless its own is there all the same."""
    own = present or files.exists(environments.location(stack))
    where = environments.location(stack if own else stack.rehearse())
    what = "" if where == environments.location(stack) else "of its rehearsal: "
    if not files.exists(where):
        return f"{what}not built yet; `{hosts.proof(stack, present)}` builds it"
    digest = environments.stamp(where).get("lock_digest")
    if digest is None:
        return f"{what}{os.path.relpath(where)}, unfinished; `{hosts.proof(stack, present)}` builds it again"
    return f"{what}{os.path.relpath(where)}, built from lock {str(digest)[:12]}"
