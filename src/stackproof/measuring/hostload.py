"""How many of the host's cores were busy with something else. Needs no torch."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_BUSY = 0.1
"""From this share of all cores on, what others did on the host is worth a note."""


@dataclass(frozen=True)
class _Row:
    parent: int
    ticks: int


def everyone() -> dict[int, _Row]:
    """Return parent and processor time of every process, from proc(5); what its ended children used is its own."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = _Row(int(fields[1]), sum(map(int, fields[11:15])))
    return found


def descendants(root: int, parents: Mapping[int, int]) -> set[int]:
    """Return the ids of all processes below one, by the table of parents."""
    found, fresh = set[int](), {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
        found |= fresh
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
    rows = everyone()
    own = {os.getpid()} | descendants(os.getpid(), {pid: row.parent for pid, row in rows.items()})
    return sum(rows[pid].ticks for pid in own if pid in rows)
