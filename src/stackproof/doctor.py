"""A first doctor: which stacks this host has, why, what is missing, what is built. Needs no torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator

from . import environments, hosts, locks, stacks
from .errors import Refusal
from .stacks import Stack


def report(names: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the report; nothing on the host is changed.

    Raises:
        Refusal: a stack's definition is broken; everything else has been said by then.
    """
    libc, cpus = " ".join(platform.libc_ver()), os.cpu_count()
    yield f"host: {platform.system()} {platform.release()}, {libc}, {platform.machine()}, {cpus} CPUs"
    yield f"`nox -s smoke` would prove: {_preferred()}"
    broken: list[Refusal] = []
    for name in names:
        yield ""
        try:
            stack = stacks.load(name)
        except Refusal as refusal:
            broken.append(refusal)
            yield f"{name}: broken - {refusal}"
            continue
        yield from _about(stack)
    if broken:
        raise broken[0]


def _preferred() -> str:
    try:
        return hosts.preferred().stack.name
    except Refusal as refusal:
        return f"nothing - {refusal}"


def _about(stack: Stack) -> Iterator[str]:
    found = hosts.inspect(stack)
    yield f"{stack.name}: {'present' if found.present else 'not on this host'} - {stack.title}"
    for finding in found.findings:
        state, how = ("ok", "seen") if finding.found else ("missing", "looked at")
        yield f"  [{state}] {finding.what} ({how}: {finding.evidence})"
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
