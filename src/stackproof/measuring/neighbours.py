"""Who else is there: processes on the card, and how many of the host's cores were busy with something else."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from .. import processes
from ..checks import CheckInconclusive
from ..device import Device
from ..stacks import Stack
from .telemetry import Telemetry, answer

_BUSY = 0.1
"""From this share of all cores on, what others did on the host is worth a note."""


def others_on_card(device: Device, stack: Stack) -> tuple[str, ...] | None:
    """Return the processes on the card that are not of this run, as "name (id)"; None where nobody tells."""
    telemetry = Telemetry(device, stack)
    if telemetry.tool is None or telemetry.tool.processes is None:
        return None
    said = answer(telemetry.tool.processes, telemetry.card)
    if said is None:
        return None
    rows = telemetry.tool.processes.rows(said)
    own = family()
    strange = [(pid, name) for pid, name in rows if pid not in own]
    comparable = any(pid in own for pid, _ in rows)
    if strange and not comparable and not any(Path(f"/proc/{pid}").exists() for pid, _ in strange):
        return None  # a container's process ids are not the host's: these may be our own
    return tuple(f"{name} ({pid})" for pid, name in strange if comparable or Path(f"/proc/{pid}").exists())


def require_alone(device: Device, stack: Stack, *, allowed: bool) -> tuple[str, ...]:
    """Return what is to be noted about other processes on the card.

    Raises:
        CheckInconclusive: there are some, and they are not allowed.
    """
    found = others_on_card(device, stack)
    if found is None or not found:
        return ()
    sentence = f"{len(found)} other process(es) on {device}: {', '.join(found[:3])}"
    if not allowed:
        raise CheckInconclusive(f"{sentence}; end them, or add --allow-foreign to measure anyway and label the figures")
    return (sentence,)


def family() -> set[int]:
    """Return the ids of this process, its ancestors and descendants, and of all that carry its run's mark."""
    parents = {pid: row.parent for pid, row in _all().items()}
    own, current = {os.getpid()}, os.getpid()
    while (current := parents.get(current, 0)) > 1:
        own.add(current)
    mark = os.environ.get(processes.MARK, "").split("/")[0]
    return own | _descendants(os.getpid(), parents) | (set(processes.marked(mark)) if mark else set())


def _descendants(root: int, parents: dict[int, int]) -> set[int]:
    found, fresh = set[int](), {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found


@dataclass(frozen=True)
class _Row:
    parent: int
    ticks: int


def _all() -> dict[int, _Row]:
    """Return parent and processor time of every process, from proc(5)."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = _Row(int(fields[1]), int(fields[11]) + int(fields[12]))
    return found


class HostLoad:
    """The share of the host's cores that others used since this was made."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _host_ticks(), _own_ticks()

    def share(self) -> float:
        """Return it, from 0 to 1; 0 where the host does not tell."""
        spent = time.monotonic() - self._began
        others = max(0, (_host_ticks() - self._busy) - (_own_ticks() - self._own)) / os.sysconf("SC_CLK_TCK")
        return min(1.0, others / (spent * (os.cpu_count() or 1))) if spent > 0 else 0.0

    @staticmethod
    def note(share: float) -> tuple[str, ...]:
        """Say it where it is worth a note."""
        return (f"busy host: others used {share:.0%} of its cores",) if share > _BUSY else ()


def _host_ticks() -> int:
    """Return the busy time of all cores: everything but idle and waiting (proc(5), /proc/stat)."""
    try:
        with Path("/proc/stat").open(encoding="ascii") as stream:
            fields = [int(word) for word in stream.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0
    return sum(fields) - fields[3] - fields[4]


def _own_ticks() -> int:
    rows = _all()
    own = {os.getpid()} | _descendants(os.getpid(), {pid: row.parent for pid, row in rows.items()})
    return sum(rows[pid].ticks for pid in own if pid in rows)
