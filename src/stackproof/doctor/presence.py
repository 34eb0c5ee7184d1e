"""Which stacks this host has, why, what is missing, what is built."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .. import environments, hosts, locks, stacks
from ..errors import Refusal
from ..stacks import Stack

_NOT_READY = ("missing - ", "unusable - ")


@dataclass(frozen=True)
class Presence:
    """Lines for people, and what they are made of."""

    lines: tuple[str, ...]
    present: list[Stack]
    """The stacks that are here, the preferred one first."""
    unready: Mapping[str, tuple[str, ...]]
    """Why the environment of a stack cannot be built: no interpreter, an unusable lock."""
    broken: Refusal | None
    """Why a definition could not be read."""


def look(names: Collection[str], root: str = "", environ: Mapping[str, str] = os.environ) -> Presence:
    """Look for these stacks; one that is broken does not silence the others."""
    libc, cpus = " ".join(platform.libc_ver()), os.cpu_count()
    lines = [f"host: {platform.system()} {platform.release()}, {libc}, {platform.machine()}, {cpus} CPUs"]
    lines.append(f"`nox -s smoke` would prove: {_preferred(root)}")
    loaded, refusals = _loaded(names)
    present, unready = [], {}
    with ThreadPoolExecutor() as pool:  # looking for an interpreter runs candidates, and every stack has its own
        python = {stack.pythons: pool.submit(_interpreter, stack) for stack in loaded.values()}
        for name in names:
            lines.append("")
            if name in refusals:
                lines.append(f"{name}: broken - {refusals[name]}")
                continue
            found = hosts.inspect(loaded[name], root)
            present += [found.stack] if found.present else []
            ready = (python[found.stack.pythons].result(), _lock(found.stack))
            unready[name] = tuple(text.partition(" - ")[2] for text in ready if text.startswith(_NOT_READY))
            lines += _about(found, *ready, environ)
    present.sort(key=lambda stack: (-stack.priority, stack.name))
    return Presence(tuple(lines), present, unready, next(iter(refusals.values()), None))


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
        return f"nothing - {refusal}"


def _about(found: hosts.Availability, python: str, lock: str, environ: Mapping[str, str]) -> Iterator[str]:
    stack = found.stack
    yield f"{stack.name}: {'present' if found.present else 'not on this host'} - {stack.title}"
    for finding in found.findings:
        state, how = ("ok", "seen") if finding.found else ("missing", "looked at")
        yield f"  [{state}] {finding.what} ({how}: {finding.evidence})"
    if not found.present:
        yield f"  to get it: {stack.install_hint}"
    yield f"  python: {python}"
    yield f"  lock: {lock}"
    yield f"  environment: {_environment(stack)}"
    if stack.visibility:
        yield f"  {stack.visibility}: {environ.get(stack.visibility, 'not set, all cards are visible')}"


def _interpreter(stack: Stack) -> str:
    try:
        return str(environments.find_interpreter(stack))
    except Refusal as refusal:
        # Stacks that want the same Python are answered together: the sentence must not name the one that asked.
        return f"missing - {_unnamed(refusal, stack)}"


def _unnamed(refusal: Refusal, stack: Stack) -> str:
    return str(refusal).removeprefix(f"stack '{stack.name}' ")


def _lock(stack: Stack) -> str:
    try:
        lock = locks.read(stack.lock)
    except Refusal as refusal:
        return f"unusable - {refusal}"
    missing = (
        f", unhashed: {len(lock.unhashed)} (run `nox -s lock -- {stack.name}` where the vendor's wheels can be reached)"
        if lock.unhashed
        else ""
    )
    return f"{len(lock.pins)} packages, {lock.digest[:12]}{missing}"


def _environment(stack: Stack) -> str:
    where = environments.location(stack)
    if not where.exists():
        return f"not built yet; `nox -s {stack.name}-smoke` builds it"
    digest = environments.stamp(where).get("lock_digest")
    if digest is None:
        return f"{os.path.relpath(where)}, unfinished; `nox -s {stack.name}-smoke` builds it again"
    return f"{os.path.relpath(where)}, built from lock {str(digest)[:12]}"
