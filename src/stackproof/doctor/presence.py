"""Which stacks this host has, why, what is missing, what is built; as data."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from stackproof.base import advice, files, processes
from stackproof.base.errors import Refusal
from stackproof.stack import capabilities, environments, hosts, lockfile, stacks
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
    python: str = ""
    lock: str = ""
    environment: str = ""
    visibility: str = ""
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
    """Why a definition could not be read; everything else has been looked at all the same."""


def look(names: Collection[str], root: str = "", environ: Mapping[str, str] = os.environ) -> Presence:
    """Look for these stacks; one that is broken does not silence the others."""
    libc, cpus = " ".join(platform.libc_ver()), processes.cores()
    loaded, refusals = dict[str, Stack](), dict[str, Refusal]()
    for name in names:
        try:
            capabilities.require_known(stack := stacks.load(name))
            loaded[name] = stack
        except Refusal as refusal:
            refusals[name] = refusal
    seen, here, unready = [], [], {}
    with ThreadPoolExecutor() as pool:  # looking for an interpreter runs candidates, and every stack has its own
        python = {stack.pythons: pool.submit(_interpreter, stack) for stack in loaded.values()}
        for name in names:
            if name in refusals:
                seen.append(Sight(name, broken=str(refusals[name])))
                continue
            stack = loaded[name]
            availability = hosts.inspect(stack, root)
            present, ready = availability.present, (python[stack.pythons].result(), _lock(stack))
            here += [stack] if present else []
            unready[name] = tuple(text.partition(" - ")[2] for text in ready if text.startswith(_NOT_READY))
            hint, built = "" if present else stack.install_hint, _environment(stack, present)
            set_to = environ.get(stack.visibility) if stack.visibility else None
            seen.append(
                Sight(name, stack.title, present, availability.findings, hint, *ready, built, stack.visibility, set_to)
            )
    here.sort(key=lambda stack: (-stack.priority, stack.name))
    host = f"{platform.system()} {platform.release()}, {libc}, {platform.machine()}, {cpus} CPUs"
    try:
        preferred = hosts.preferred(root).stack.name
    except Refusal as refusal:
        preferred = f"{NOTHING} - {refusal}"
    return Presence(host, preferred, tuple(seen), here, unready, next(iter(refusals.values()), None))


def _interpreter(stack: Stack) -> str:
    try:
        return str(environments.find_interpreter(stack))
    except Refusal as refusal:
        # Stacks that want the same Python are answered together: the sentence must not name the one that asked.
        named = f"stack '{stack.name}' "
        return f"missing - {str(refusal).removeprefix(named)}"


def _lock(stack: Stack) -> str:
    try:
        lock = lockfile.own(stack)
    except Refusal as refusal:
        return f"unusable - {refusal}"
    relock = f"run {advice.relock(stack.name, stack.folder)} where the vendor's wheels can be reached"
    missing = f", unhashed: {len(lock.unhashed)} ({relock})" if lock.unhashed else ""
    return f"{len(lock.expected(lockfile.environment_of(stack.pythons[0])))} packages, {lock.digest[:12]}{missing}"


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
