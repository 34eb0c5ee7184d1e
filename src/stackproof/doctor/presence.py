"""Which stacks this host has, why, what is missing, what is built."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from .. import environments, hosts, locks, stacks
from ..errors import Refusal
from ..stacks import Stack


@dataclass(frozen=True)
class Presence:
    """Lines for people, the stacks that are here (the preferred one first), and why one could not be read."""

    lines: tuple[str, ...]
    present: list[Stack]
    broken: Refusal | None


def look(names: Collection[str], root: str = "", environ: Mapping[str, str] = os.environ) -> Presence:
    """Look for these stacks; one that is broken does not silence the others."""
    libc, cpus = " ".join(platform.libc_ver()), os.cpu_count()
    lines = [f"host: {platform.system()} {platform.release()}, {libc}, {platform.machine()}, {cpus} CPUs"]
    lines.append(f"`nox -s smoke` would prove: {_preferred(root)}")
    loaded, refusals = _loaded(names)
    present = []
    with ThreadPoolExecutor() as pool:  # looking for an interpreter runs candidates, and every stack has its own
        python = {stack.pythons: pool.submit(_interpreter, stack) for stack in loaded.values()}
        for name in names:
            lines.append("")
            if name in refusals:
                lines.append(f"{name}: broken - {refusals[name]}")
                continue
            found = hosts.inspect(loaded[name], root)
            present += [found.stack] if found.present else []
            lines += _about(found, python[found.stack.pythons], environ)
    present.sort(key=lambda stack: (-stack.priority, stack.name))
    return Presence(tuple(lines), present, next(iter(refusals.values()), None))


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


def _about(found: hosts.Availability, python: Future[str], environ: Mapping[str, str]) -> Iterator[str]:
    stack = found.stack
    yield f"{stack.name}: {'present' if found.present else 'not on this host'} - {stack.title}"
    for finding in found.findings:
        state, how = ("ok", "seen") if finding.found else ("missing", "looked at")
        yield f"  [{state}] {finding.what} ({how}: {finding.evidence})"
    if not found.present:
        yield f"  to get it: {stack.install_hint}"
    yield f"  python: {python.result()}"
    yield f"  lock: {_lock(stack)}"
    yield f"  environment: {_environment(stack)}"
    if stack.visibility:
        yield f"  {stack.visibility}: {environ.get(stack.visibility, 'not set, all cards are visible')}"


def _interpreter(stack: Stack) -> str:
    try:
        return str(environments.find_interpreter(stack))
    except Refusal as refusal:
        return f"missing - {refusal}"


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
