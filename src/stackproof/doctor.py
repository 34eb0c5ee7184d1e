"""A first doctor: which stacks this host has, why, what is missing, and which environments are built. Needs no torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import environments, hosts, locks
from .errors import Refusal
from .stacks import Stack


def report(chosen: Iterable[Stack]) -> Iterator[str]:
    """Yield the lines of the report; nothing on the host is changed."""
    chosen = list(chosen)
    yield f"host: {platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}, {platform.machine()}, {os.cpu_count()} CPUs"
    yield f"`nox -s smoke` would prove: {hosts.preferred().stack.name}"
    for stack in chosen:
        yield ""
        yield from _about(stack)


def _about(stack: Stack) -> Iterator[str]:
    found = hosts.inspect(stack)
    yield f"{stack.name}: {'present' if found.present else 'not on this host'} - {stack.title}"
    for finding in found.findings:
        yield f"  [{'ok' if finding.found else 'missing'}] {finding.what} ({'seen' if finding.found else 'looked at'}: {finding.evidence})"
    if not found.present:
        yield f"  to get it: {stack.install_hint}"
    yield f"  python: {_interpreter(stack)}"
    yield f"  lock: {_lock(stack)}"
    yield f"  environment: {_environment(stack)}"
    if stack.visibility:
        yield f"  {stack.visibility}: {os.environ.get(stack.visibility, 'not set, all cards are visible')}"


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
    missing = f", unhashed: {len(lock.unhashed)} (run `nox -s lock -- {stack.name}` where the vendor's wheels can be reached)" if lock.unhashed else ""
    return f"{len(lock.pins)} packages, {lock.digest[:12]}{missing}"


def _environment(stack: Stack) -> str:
    where = environments.location(stack)
    if not where.exists():
        return f"not built yet; `nox -s {stack.name}-smoke` builds it"
    digest = str(environments.stamp(where).get("lock_digest", "unfinished"))
    return f"{_short(where)}, built from lock {digest[:12]}"


def _short(path: Path) -> str:
    return os.path.relpath(path)
